"""Standing: how a workspace stands, in one statement: for status, doctor, the daemon and the start of a session.

A session start has milliseconds, so this module imports next to nothing, and moments stay text.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sqlite3 import Connection

_STANDING = """
SELECT coalesce(latest.number, 0), coalesce(digest, ''), coalesce(id, ''), coalesce(last.reason, ''),
       coalesce(outcome, ''), coalesce(detail, ''), last.version, coalesce(ended_at, started_at, ''),
       coalesce((SELECT id FROM dreams WHERE outcome = 'running' ORDER BY started_at DESC LIMIT 1), ''),
       (SELECT count(*) FROM proposals WHERE answer = ''), EXISTS (SELECT 1 FROM forgotten)
FROM (SELECT 1)
LEFT JOIN (SELECT * FROM versions WHERE number > 0 ORDER BY number DESC LIMIT 1) latest
LEFT JOIN (SELECT * FROM dreams WHERE outcome <> 'skipped' ORDER BY started_at DESC LIMIT 1) last
"""


class Standing(NamedTuple):
    """How a workspace stands at one moment; the defaults are those of a workspace without a state.db.

    `version` is the last one, `digest` that of its text. `dream` is the last run that was more than a skip; it ended,
    or began, at `at` and committed the version `made`, if any. `unfinished` is a run that was cut off, or goes on.
    `proposals` counts the changes that need the owner's yes; `forgets`: something was forgotten here.
    """

    version: int = 0
    digest: str = ""
    dream: str = ""
    reason: str = ""
    outcome: str = ""
    detail: str = ""
    made: int | None = None
    at: str = ""
    unfinished: str = ""
    proposals: int = 0
    forgets: bool = False


def standing(connection: "Connection") -> Standing:
    """Return how the workspace of this state.db stands. Raise sqlite3.Error."""
    return Standing._make(connection.execute(_STANDING).fetchone())
