"""Session start: reads an agent's bootstrap from its workspace and the global one.

`dreamd bootstrap` runs at the start of every session: it imports next to nothing and takes no lock. Only the
workspace's own memory must be readable; every other failure becomes a notice.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from daemon.config.paths import is_global
from daemon.workspace.adoption import has_global_workspace, is_untold, open_global_workspace
from state.agents import Reader
from state.bootstrap import Bootstrap, Redacted, bootstrap, budget_for, room_taken
from state.document.redaction import Grounds, redacted_lines
from state.errors import DreamdError
from state.reading import READING, Reading, dreamt_at
from state.secrets.policy import Redaction
from state.stores.database.meta import Meta
from state.stores.database.standing import Standing, standing
from state.stores.disk.looked_through import LookedThrough
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import Newest
from state.stores.history.notes import look
from state.text.words import counted
from state.zone import day_of, local

if TYPE_CHECKING:
    from sqlite3 import Connection

OLD = timedelta(days=1)
_NEW = "[dreamd: this project has a memory from now on, in {}; 'dreamd ignore' keeps a project out]"
# How long to wait for a lock. WAL readers do not wait for writers; a repair in progress is reported next time.
_BUSY_MS = 100


class Session(NamedTuple):
    """What an agent gets at the start of its session, and notices for a person about how it was read."""

    ready: Bootstrap
    notices: tuple[str, ...]


class _Facts(NamedTuple):
    """What state.db says, and the text to read: MEMORY.md, or what stands in for it.

    `torn`: the file has conflict markers. `reading` is what the last dream left for session starts.
    """

    stands: Standing = Standing()
    memory: str = ""
    torn: bool = False
    reading: Reading = Reading()


def session(
    workspace: Workspace,
    window: int,
    limits: Reader | None,
    redaction: Redaction,
    now: datetime,
    zone: tzinfo = UTC,
) -> Session:
    """Return what an agent reads now, for a context window of `window` tokens, within the limits of its hook.

    Its notes have times of the zone.

    Raise StorageError if MEMORY.md or the notes cannot be read.
    """
    notices = list[str]()
    looked = LookedThrough(workspace, redaction)
    memory, newest = _memory(workspace, notices), look(workspace, lambda notes: notes.newest(), looked.redacted)
    everywhere, beside = _everywhere(workspace, notices)
    facts = _facts(workspace, memory)
    shown_of = _unforgotten(workspace) if facts.stands.forgets else str
    ready = bootstrap(
        facts.memory,
        [note._replace(at=local(note.at, zone)) for note in newest.notes],
        window,
        limits.characters if limits else None,
        Redacted(looked.redacted, lambda text: looked.redacted_lines(text, _grounds(workspace, beside))),
        shown_of,
        more=newest.more,
        everywhere=everywhere,
        most_bytes=limits.size if limits else None,
        as_of=_day_of_dream(facts.memory, zone),
        reading=facts.reading,
        first=_NEW.format(workspace.root) if is_untold(workspace) else "",
        attention=_attention(facts, _facts(beside) if beside else _Facts(), newest, now),
    )
    looked.keep()
    return Session(ready._replace(version=facts.stands.version), tuple(notices))


def _day_of_dream(memory: str, zone: tzinfo) -> str:
    at = dreamt_at(memory)
    return day_of(at, zone) if at else ""


def _redacted(redaction: Redaction, *workspaces: Workspace | None) -> Redacted:
    return Redacted(redaction.of, lambda text: redacted_lines(text, redaction, _grounds(*workspaces)))


def _grounds(*workspaces: Workspace | None) -> Grounds:
    """Return a function that reads what a line of one of these workspaces rests on.

    It is called for a line only if that looks as if it held a secret.
    """

    def grounds(line: str) -> Sequence[str]:
        import sqlite3

        from state.document.document import Block
        from state.stores.database.connection import open_unmigrated
        from state.stores.history.wordings import texts_behind

        texts = list[str]()
        for workspace in filter(None, workspaces):
            with suppress(sqlite3.Error, DreamdError), open_unmigrated(workspace.database) as connection:
                texts += texts_behind(connection, Block(line, content=True).text)
        return texts

    return grounds


def project_budget(workspace: Workspace, window: int, redaction: Redaction) -> int:
    """Return how many characters of the project's MEMORY.md an agent reads beside the global memory."""
    everywhere, beside = _everywhere(workspace, [])
    if not everywhere:
        return budget_for(window)
    return budget_for(window) - room_taken(
        bootstrap("", (), window, redacted=_redacted(redaction, beside), everywhere=everywhere)
    )


def global_memory() -> tuple[str, Workspace | None]:
    """Return MEMORY.md of the person's global workspace, and that workspace; ("", None) without one.

    Raise StorageError or UsageError if it cannot be read.
    """
    if not has_global_workspace():
        return "", None
    own = open_global_workspace()
    return _memory(own, []), own


def _everywhere(workspace: Workspace, notices: list[str]) -> tuple[str, Workspace | None]:
    """Return the global memory for a project, and its workspace; add a notice if it is unreadable."""
    if is_global(workspace.root, os.environ):
        return "", None
    try:
        return global_memory()
    except (DreamdError, OSError) as error:
        notices.append(f"the global workspace was left out: {error}")
        return "", None


def _attention(facts: _Facts, everywhere: _Facts, newest: Newest, now: datetime) -> str:
    """Return one line about the most urgent thing that a person has to do; "" if there is nothing."""
    troubles = {
        "git left a conflict in MEMORY.md, this is the version before it": facts.torn,
        "the last dream failed": facts.stands.outcome == "failed",
        "the last dream was refused": facts.stands.outcome == "rejected",
    }
    if trouble := next((one for one, is_so in troubles.items() if is_so), ""):
        return f"[dreamd: {trouble}: dreamd status]"
    for proposals, option in ((facts.stands.proposals, ""), (everywhere.stands.proposals, " --global")):
        if proposals:
            waiting = "1 change waits" if proposals == 1 else f"{proposals} changes wait"
            return f"[dreamd: {waiting} for the owner: dreamd review{option}]"
    day_ago = now - OLD
    oldest = min((note.at for note in newest.notes), default=now)
    with suppress(ValueError):
        if oldest < day_ago and (not facts.stands.at or datetime.fromisoformat(facts.stands.at) < day_ago):
            days = (now - oldest).days
            return f"[dreamd: notes wait {counted(days, 'day')} for a dream: dreamd dream]"
    return ""


def _facts(workspace: Workspace, memory: str = "") -> _Facts:
    """Return the facts in state.db; `memory` is the content of MEMORY.md.

    Assume that an unreadable state.db has forgotten something; the status reports what is wrong with it.
    """
    if not os.path.lexists(workspace.database):
        return _Facts(memory=memory)
    import sqlite3

    from state.stores.database.connection import open_unmigrated

    try:
        with open_unmigrated(workspace.database) as connection:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            stands, known = standing(connection), Meta(connection).get(READING)
            read, torn = _in_place_of(memory, stands.digest, workspace, connection)
    except (sqlite3.Error, DreamdError):
        return _Facts(Standing(forgets=True), memory)
    return _Facts(stands, read, torn, Reading.decoded(known) if known else Reading())


def _in_place_of(memory: str, last: str, workspace: Workspace, connection: "Connection") -> tuple[str, bool]:
    """Return MEMORY.md, or the text to read instead of one that is gone, an earlier version or a conflict.

    `last` is the digest of the last version. Also return whether it is a conflict.
    """
    digest = sha256(memory.encode()).hexdigest()
    if last in ("", digest):
        return memory, False
    query = "SELECT 1 FROM versions WHERE digest = ?1 OR instr(former_digests, ?1)"
    is_known = connection.execute(query, (digest,)).fetchone() is not None
    if memory.strip() and not is_known and "<<<<<<<" not in memory and "\r\n" not in memory:
        return memory, False
    from state.stores.history.reading import Found, reading  # it loads much, and most files are somebody's edit

    try:
        read = reading(workspace, connection)
    except DreamdError:  # the status reports the problem
        return memory, False
    is_edit = read.found in (Found.OWN, Found.EDITED)
    return memory if is_edit else read.text, read.found is Found.CONFLICT


def _unforgotten(workspace: Workspace) -> Callable[[str], str]:
    """Return a function that cuts forgotten texts out of notes; nothing is loaded until it is called."""

    @cache
    def unforgotten() -> Callable[[str], str]:
        from state.stores.database.tombstones import tombstones_in

        return tombstones_in(workspace.database).without

    def shown_of(text: str) -> str:
        return unforgotten()(text)

    return shown_of


def _memory(workspace: Workspace, notices: list[str]) -> str:
    """Return the workspace's MEMORY.md; add a notice if it is not valid UTF-8."""
    content = workspace.disk().read_optional(workspace.document) or b""
    text = content.decode(errors="replace")
    if "\ufffd" in text and "\ufffd".encode() not in content:
        # An agent is better off with all but one character than with nothing.
        notices.append(f"{workspace.document} is not UTF-8 throughout; save it as UTF-8")
    return text
