"""Session start: what is read for an agent's bootstrap, of its workspace and of the global one; who waits for whom.

`dreamd bootstrap` is called at the start of every session: next to nothing is imported, no lock is taken, and
whatever cannot be read beside the workspace's own memory is a notice.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache

from daemon.config.paths import global_root
from daemon.workspace.adoption import has_global_workspace, open_global_workspace
from state.agents import Reader
from state.bootstrap import Bootstrap, bootstrap, budget_for, digest_of, room_taken
from state.errors import DreamdError
from state.secrets.policy import Redaction
from state.stores.disk.workspace import Workspace
from state.stores.history.segments import Newest, Segments

OLD = timedelta(days=1)
# Beside a writer a reader does not wait; what another process repairs at this moment is told at the next start.
_BUSY_MS = 100


@dataclass(frozen=True, slots=True)
class Session:
    """What an agent is given at the start of its session, and what a person should know of how it was read."""

    ready: Bootstrap
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Facts:
    """Of state.db: how the last dream ended and when, how much waits for the owner, whether anything is forgotten.

    `verdict` is that on its proposal, empty for a dream that made none.
    """

    outcome: str = ""
    ended: str = ""
    verdict: str = ""
    changes: int = 0
    forgets: bool = False


def session(
    workspace: Workspace,
    window: int,
    limits: Reader | None,
    redaction: Redaction,
    now: datetime,
    environment: Mapping[str, str] = os.environ,
) -> Session:
    """What an agent reads now, for a context window of so many tokens, within the limits of its hook.

    Raises StorageError when MEMORY.md or the notes cannot be read.
    """
    notices = list[str]()
    memory, newest = _memory(workspace, notices), Segments(workspace).newest()
    everywhere, beside = _everywhere(workspace, environment, notices)
    facts = _facts(workspace)
    shown_of = _unforgotten(workspace) if facts.forgets else str
    ready = bootstrap(
        memory,
        newest.notes,
        window,
        limits.characters if limits else None,
        redaction,
        shown_of,
        more=newest.more,
        everywhere=everywhere,
        most_bytes=limits.size if limits else None,
        attention=_attention(facts, _facts(beside) if beside else _Facts(), newest, now),
    )
    return Session(replace(ready, digest=digest_of(memory)), tuple(notices))


def project_budget(
    workspace: Workspace, window: int, redaction: Redaction, environment: Mapping[str, str] = os.environ
) -> int:
    """Characters that MEMORY.md may have so that a reader gets all of it, beside what is true everywhere."""
    everywhere, _ = _everywhere(workspace, environment, [])
    if not everywhere:
        return budget_for(window)
    return budget_for(window) - room_taken(bootstrap("", (), window, redaction=redaction, everywhere=everywhere))


def is_global(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this is the person's global workspace."""
    with suppress(DreamdError):
        return str(workspace.root) == os.path.realpath(global_root(environment))
    return False


def global_memory(environment: Mapping[str, str] = os.environ) -> tuple[str, Workspace | None]:
    """MEMORY.md of the person's global workspace, and that workspace; without one, nothing.

    Raises StorageError, UsageError when it cannot be read.
    """
    if not has_global_workspace(environment):
        return "", None
    own = open_global_workspace(environment)
    return _memory(own, []), own


def _everywhere(
    workspace: Workspace, environment: Mapping[str, str], notices: list[str]
) -> tuple[str, Workspace | None]:
    """What the global workspace says in every other one, and which it is; a notice when it cannot be read."""
    if is_global(workspace, environment):
        return "", None
    try:
        return global_memory(environment)
    except (DreamdError, OSError) as error:
        notices.append(f"the global workspace was left out: {error}")
        return "", None


def _attention(facts: _Facts, everywhere: _Facts, newest: Newest, now: datetime) -> str:
    """The one line about what a person has to do, the most urgent thing; "" when there is nothing."""
    if facts.outcome == "failed":
        return "[dreamd: the last dream failed: dreamd status]"
    if facts.outcome == "rejected" and not facts.verdict:  # else its owner did not want it
        return "[dreamd: the guards refused the last dream: dreamd status]"
    for changes, option in ((facts.changes, ""), (everywhere.changes, " --global")):
        if changes:
            waiting = "1 change waits" if changes == 1 else f"{changes} changes wait"
            return f"[dreamd: {waiting} for the owner: dreamd review{option}]"
    if facts.verdict == "waiting":
        return "[dreamd: a dream waits for the owner: dreamd review]"
    day_ago = now - OLD
    oldest = min((note.at for note in newest.notes), default=now)
    with suppress(ValueError):
        if oldest < day_ago and (not facts.ended or datetime.fromisoformat(facts.ended) < day_ago):
            days = (now - oldest).days
            return f"[dreamd: notes wait {days} {'day' if days == 1 else 'days'} for a dream: dreamd dream]"
    return ""


def _facts(workspace: Workspace) -> _Facts:
    """The facts in state.db. What cannot be read may have forgotten something; the status says what is wrong."""
    if not os.path.lexists(workspace.database):
        return _Facts()
    import sqlite3

    from state.stores.database.connection import open_unmigrated

    try:
        with open_unmigrated(workspace.database) as connection:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            last = connection.execute(
                "SELECT id, outcome, coalesce(ended_at, started_at) AS at FROM dreams WHERE outcome <> 'skipped'"
                " ORDER BY started_at DESC LIMIT 1"
            ).fetchone()
            counted = connection.execute(
                "SELECT (SELECT verdict FROM proposals WHERE dream = ?),"
                " (SELECT count(*) FROM changes WHERE decision = 'waiting'), EXISTS (SELECT 1 FROM forgotten)",
                (last["id"] if last else "",),
            ).fetchone()
    except (sqlite3.Error, DreamdError):
        return _Facts(forgets=True)
    outcome, ended = (last["outcome"], last["at"]) if last else ("", "")
    return _Facts(outcome, ended, counted[0] or "", counted[1], forgets=bool(counted[2]))


def _unforgotten(workspace: Workspace) -> Callable[[str], str]:
    """What may be shown of a note: not what was forgotten for good. Without notes nothing is loaded."""

    @cache
    def unforgotten() -> Callable[[str], str]:
        from state.stores.database.tombstones import tombstones_in

        return tombstones_in(workspace.database).without

    def shown_of(text: str) -> str:
        return unforgotten()(text)

    return shown_of


def _memory(workspace: Workspace, notices: list[str]) -> str:
    """The workspace's MEMORY.md."""
    content = workspace.disk().read_optional(workspace.document) or b""
    text = content.decode(errors="replace")
    if "\ufffd" in text and "\ufffd".encode() not in content:
        # An agent that gets all but one character is better off than one that gets nothing.
        notices.append(f"{workspace.document} is not UTF-8 throughout; save it as UTF-8")
    return text
