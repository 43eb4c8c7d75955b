"""Session start: what is read for an agent's bootstrap, of its workspace and of the global one; who waits for whom.

`dreamd bootstrap` is called at the start of every session: next to nothing is imported, no lock is taken, and
whatever cannot be read beside the workspace's own memory is a notice.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from daemon.config.paths import is_global
from daemon.workspace.adoption import has_global_workspace, open_global_workspace
from state.agents import Reader
from state.bootstrap import Bootstrap, bootstrap, budget_for, digest_of, room_taken
from state.errors import DreamdError
from state.secrets.policy import Redaction
from state.stores.disk.looked_through import LookedThrough
from state.stores.disk.workspace import Workspace
from state.stores.history.notes import Newest, look
from state.text.words import counted

if TYPE_CHECKING:
    from sqlite3 import Connection

OLD = timedelta(days=1)
# Beside a writer a reader does not wait; what another process repairs at this moment is told at the next start.
_BUSY_MS = 100


class Session(NamedTuple):
    """What an agent is given at the start of its session, and what a person should know of how it was read."""

    ready: Bootstrap
    notices: tuple[str, ...]


class _Facts(NamedTuple):
    """Of state.db: how the last dream ended and when, how much waits for the owner, whether anything is forgotten.

    `memory` is what is to be read: MEMORY.md, or what stands in for it; `torn` says that a conflict is in the file.
    """

    outcome: str = ""
    ended: str = ""
    changes: int = 0
    forgets: bool = False
    version: int = 0
    memory: str = ""
    torn: bool = False


def session(
    workspace: Workspace,
    window: int,
    limits: Reader | None,
    redaction: Redaction,
    now: datetime,
    environment: Mapping[str, str] = os.environ,
) -> Session:
    """Return what an agent reads now, for a context window of so many tokens, within the limits of its hook.

    Raise StorageError when MEMORY.md or the notes cannot be read.
    """
    notices = list[str]()
    memory, newest = _memory(workspace, notices), look(workspace, lambda notes: notes.newest())
    everywhere, beside = _everywhere(workspace, environment, notices)
    facts = _facts(workspace, memory)
    shown_of = _unforgotten(workspace) if facts.forgets else str
    looked = LookedThrough(workspace, redaction)
    ready = bootstrap(
        facts.memory,
        newest.notes,
        window,
        limits.characters if limits else None,
        looked.redacted,
        shown_of,
        more=newest.more,
        everywhere=everywhere,
        most_bytes=limits.size if limits else None,
        attention=_attention(facts, _facts(beside) if beside else _Facts(), newest, now),
    )
    looked.keep()
    return Session(ready._replace(digest=digest_of(facts.memory), version=facts.version), tuple(notices))


def lasting(
    workspace: Workspace, window: int, most_bytes: int, redaction: Redaction, environment: Mapping[str, str]
) -> str:
    """Return what an agent's file shows of the memory until the next version: no notes, and nothing that is due.

    Raise StorageError when MEMORY.md cannot be read.
    """
    facts, (everywhere, _) = _facts(workspace, _memory(workspace, [])), _everywhere(workspace, environment, [])
    shown_of = _unforgotten(workspace) if facts.forgets else str
    return bootstrap(
        facts.memory, (), window, None, redaction.of, shown_of, everywhere=everywhere, most_bytes=most_bytes
    ).text


def project_budget(
    workspace: Workspace, window: int, redaction: Redaction, environment: Mapping[str, str] = os.environ
) -> int:
    """Return how many characters of MEMORY.md a reader gets beside what is true everywhere."""
    everywhere, _ = _everywhere(workspace, environment, [])
    if not everywhere:
        return budget_for(window)
    return budget_for(window) - room_taken(bootstrap("", (), window, redacted=redaction.of, everywhere=everywhere))


def global_memory(environment: Mapping[str, str] = os.environ) -> tuple[str, Workspace | None]:
    """Return MEMORY.md of the person's global workspace, and that workspace; without one, nothing.

    Raise StorageError, UsageError when it cannot be read.
    """
    if not has_global_workspace(environment):
        return "", None
    own = open_global_workspace(environment)
    return _memory(own, []), own


def _everywhere(
    workspace: Workspace, environment: Mapping[str, str], notices: list[str]
) -> tuple[str, Workspace | None]:
    """Return what the global workspace says in every other one, and which it is; add a notice if it is unreadable."""
    if is_global(workspace.root, environment):
        return "", None
    try:
        return global_memory(environment)
    except (DreamdError, OSError) as error:
        notices.append(f"the global workspace was left out: {error}")
        return "", None


def _attention(facts: _Facts, everywhere: _Facts, newest: Newest, now: datetime) -> str:
    """Return the one line about what a person has to do, the most urgent thing; "" when there is nothing."""
    troubles = {
        "git left a conflict in MEMORY.md, this is the version before it": facts.torn,
        "the last dream failed": facts.outcome == "failed",
        "the guards refused the last dream": facts.outcome == "rejected",
    }
    if trouble := next((one for one, is_so in troubles.items() if is_so), ""):
        return f"[dreamd: {trouble}: dreamd status]"
    for changes, option in ((facts.changes, ""), (everywhere.changes, " --global")):
        if changes:
            waiting = "1 change waits" if changes == 1 else f"{changes} changes wait"
            return f"[dreamd: {waiting} for the owner: dreamd review{option}]"
    day_ago = now - OLD
    oldest = min((note.at for note in newest.notes), default=now)
    with suppress(ValueError):
        if oldest < day_ago and (not facts.ended or datetime.fromisoformat(facts.ended) < day_ago):
            days = (now - oldest).days
            return f"[dreamd: notes wait {counted(days, 'day')} for a dream: dreamd dream]"
    return ""


def _facts(workspace: Workspace, memory: str = "") -> _Facts:
    """Return the facts in state.db. What cannot be read may have forgotten something; the status says what is wrong.

    `memory` is what MEMORY.md holds.
    """
    if not os.path.lexists(workspace.database):
        return _Facts(memory=memory)
    import sqlite3

    from state.stores.database.connection import open_unmigrated

    try:
        with open_unmigrated(workspace.database) as connection:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            last = connection.execute(
                "SELECT outcome, coalesce(ended_at, started_at) AS at FROM dreams WHERE outcome <> 'skipped'"
                " ORDER BY started_at DESC LIMIT 1"
            ).fetchone()
            counted = connection.execute(
                "SELECT (SELECT count(*) FROM changes WHERE decision = 'waiting'), EXISTS (SELECT 1 FROM forgotten),"
                " (SELECT coalesce(max(number), 0) FROM versions)"
            ).fetchone()
            read, torn = _in_place_of(memory, workspace, connection)
    except (sqlite3.Error, DreamdError):
        return _Facts(forgets=True, memory=memory)
    outcome, ended = (last["outcome"], last["at"]) if last else ("", "")
    return _Facts(outcome, ended, counted[0], bool(counted[1]), counted[2], read, torn)


def _in_place_of(memory: str, workspace: Workspace, connection: "Connection") -> tuple[str, bool]:
    """Return MEMORY.md, or what is read in place of what git put into it; and whether that is a conflict.

    A file that is the last version, or an edit of what git does not track, is not looked at any further.
    """
    digest = sha256(memory.encode()).hexdigest()
    query = "SELECT digest FROM versions WHERE cause <> 'found' ORDER BY number DESC LIMIT 1"
    last = connection.execute(query).fetchone()
    if last is None or not memory.strip() or last["digest"] == digest:
        return memory, False
    is_known = connection.execute("SELECT 1 FROM versions WHERE digest = ?", (digest,)).fetchone()
    if not is_known and "<<<<<<<" not in memory:
        from state.stores.git.repository import git_file

        tracked = git_file(workspace.document)
        if tracked is None or not tracked.blob:
            return memory, False
    from state.stores.git.reading import Found, reading

    try:
        read = reading(workspace, connection)
    except DreamdError:  # the status says what is wrong with it
        return memory, False
    is_torn = read.found is Found.CONFLICT
    return read.text if is_torn or read.found is Found.CHECKOUT else memory, is_torn


def _unforgotten(workspace: Workspace) -> Callable[[str], str]:
    """Return what cuts forgotten texts out of a note before it is shown. Without notes nothing is loaded."""

    @cache
    def unforgotten() -> Callable[[str], str]:
        from state.stores.database.tombstones import tombstones_in

        return tombstones_in(workspace.database).without

    def shown_of(text: str) -> str:
        return unforgotten()(text)

    return shown_of


def _memory(workspace: Workspace, notices: list[str]) -> str:
    """Return the workspace's MEMORY.md, and add a notice if it is not all UTF-8."""
    content = workspace.disk().read_optional(workspace.document) or b""
    text = content.decode(errors="replace")
    if "\ufffd" in text and "\ufffd".encode() not in content:
        # An agent that gets all but one character is better off than one that gets nothing.
        notices.append(f"{workspace.document} is not UTF-8 throughout; save it as UTF-8")
    return text
