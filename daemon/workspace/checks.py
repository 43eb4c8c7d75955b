"""Checks: each looks for one kind of fault in a workspace and says what to do; the status runs those in this module.

`daemon.upkeep.examine` adds those that take long or need open stores; `daemon.upkeep.repair` mends what they find.
"""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeVar

from daemon.config.settings import Config
from daemon.models.dreamer import NO_MODEL
from state.document.document import parse
from state.document.merge import is_conflicted
from state.errors import DreamdError
from state.pending import PendingCount
from state.stores.database.connection import open_unmigrated
from state.stores.database.copies import copied_at, copies_of, found_damaged
from state.stores.database.standing import standing
from state.stores.database.table import unpacked
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.erasing.intent import ADVICE, UNFINISHED, is_unfinished
from state.stores.history.memory import displaced_files
from state.stores.history.notes import look
from state.stores.history.unread import UnreadTranscripts
from state.text.words import counted
from state.zone import clock_time

REPAIR = "run 'dreamd doctor --repair'"
LONGEST_WAIT = timedelta(hours=24)
MOST_UNREAD = 20
_TORN = "git left a conflict in MEMORY.md: the version before it is used, and nothing is written into the file"
_RESOLVE = "edit MEMORY.md until its markers (<<<<<<<, =======, >>>>>>>) are gone"
_DREAMS_WITHOUT_HELP = 3
# The latest dreams in which a model answered: its name, and whether it is the author of the result.
_ANSWERED = """SELECT asked.model, author.model IS asked.model AS helped
    FROM dreams JOIN (SELECT dream, max(model) AS model FROM calls GROUP BY dream) asked ON asked.dream = dreams.id
    LEFT JOIN versions author ON author.number = dreams.version
    WHERE outcome IN ('committed', 'rejected')
    ORDER BY started_at DESC LIMIT ?"""


class Level(StrEnum):
    """How serious a finding is. A warning has a cost; a problem must be repaired."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: a fault, or that all is well. `path` is the file concerned, if a repair may mend it.

    `deed` is the advice for a program: dream, forget, doctor, or restore with a version; empty if a person is needed.
    """

    about: str
    level: Level
    what: str
    advice: str = ""
    deed: str = ""
    path: Path | None = None


fine, warning, problem = (partial(Finding, "", level) for level in Level)


@dataclass(slots=True)
class Subject:
    """A workspace under examination; checks leave here what they read of it.

    `connection` reads state.db, if that is open; `is_held`: somebody else was at work in it when the examination
    began; `is_forgetting`: so somebody forgets something.
    """

    workspace: Workspace
    config: Config
    now: datetime
    is_held: bool
    connection: sqlite3.Connection | None = None
    is_forgetting: bool = False
    content: bytes | None = None  # of MEMORY.md
    pending: PendingCount = field(default_factory=PendingCount)

    @property
    def rows(self) -> sqlite3.Connection:
        """Return what reads state.db, for checks that are made only then."""
        assert self.connection is not None, "it is open"
        return self.connection

    def last_version(self) -> tuple[int, str]:
        """Return the last version and its text, from a copy if state.db is damaged; (0, "") without one."""
        if self.connection is not None:
            return _last_version(self.connection)
        for path in (self.workspace.database, *copies_of(self.workspace.database)):
            with suppress(sqlite3.Error, DreamdError, ValueError), open_unmigrated(path, "rw") as connection:
                return _last_version(connection)
        return 0, ""


def _last_version(connection: sqlite3.Connection) -> tuple[int, str]:
    row = connection.execute("SELECT number, text FROM versions ORDER BY number DESC LIMIT 1").fetchone()
    return (row["number"], unpacked(row["text"])) if row else (0, "")


At = TypeVar("At")
# What a kind of fault is about, and the function that looks for it.
Check = tuple[str, Callable[[At], Iterator[Finding]]]


# ------------------------------------------------------------ files


def own_files(workspace: Workspace) -> Iterator[Path]:
    """Yield dreamd's files in the state folder, except ChromaDB's and those kept aside."""
    for folder in (workspace.state, workspace.checkpoints, workspace.copies):
        if folder.is_dir() and not folder.is_symlink():
            with suppress(OSError):  # an unreadable folder is reported itself
                yield from sorted(folder.iterdir())


def mode_of(path: Path) -> int:
    """Return the permissions of the file itself, not of what a link leads to. Raise StorageError."""
    with storage_errors(path):
        return stat.S_IMODE(path.lstat().st_mode)


def right_mode(path: Path, workspace: Workspace) -> int:
    """Return the least permissions that its owner needs for this file."""
    if path in (workspace.document, workspace.scratch):
        return mode_of(path) | 0o600
    return 0o700 if path.is_dir() else 0o600


def wrong_modes(workspace: Workspace) -> list[Path]:
    """Return the files that their owner cannot use, and those that others can: none, in a private state folder."""
    state, is_open = workspace.state, bool(mode_of(workspace.state) & 0o077)
    wrong = [state] if mode_of(state) & 0o777 != 0o700 else []
    for path in (*own_files(workspace), workspace.document, workspace.scratch):
        with suppress(DreamdError):  # there is none, or another process has just deleted it
            least, mode = right_mode(path, workspace), mode_of(path)
            is_exposed = is_open and least == 0o600 and mode & 0o077
            if not path.is_symlink() and (mode & least != least or is_exposed):
                wrong.append(path)
    return wrong


def _permissions(at: Subject) -> Iterator[Finding]:
    wrong = wrong_modes(at.workspace)
    for path in wrong:
        is_open = path == at.workspace.state and mode_of(path) & 0o077
        what = f"{path} {'is open to other users' if is_open else 'has the wrong permissions'} ({mode_of(path):o})"
        yield problem(what, f"run 'chmod {right_mode(path, at.workspace):o} {path}'", path=path)
    if not wrong:
        yield fine(f"{at.workspace.state} is open to its owner alone")


def _interrupted_commit(at: Subject) -> Iterator[Finding]:
    for path in [] if at.is_held else displaced_files(at.workspace):
        what = f"a commit was interrupted while it wrote MEMORY.md, and left {path.name}"
        yield warning(what, "'dreamd doctor' finishes it", "doctor", path)


def _memory_file(at: Subject) -> Iterator[Finding]:
    """Check that MEMORY.md is a complete version, or derived from one."""
    path, (last, wanted) = at.workspace.document, at.last_version()
    if os.path.lexists(path) and not path.is_symlink() and not path.is_file():
        yield problem("MEMORY.md is no file", REPAIR, "doctor", path)
        return
    try:
        content = at.content = at.workspace.disk().read_optional(path)
    except DreamdError:
        if path in wrong_modes(at.workspace):
            return  # the permissions say so
        raise
    if is_conflicted((content or b"").decode(errors="replace")):
        yield problem(_TORN, _RESOLVE)
    elif wrong := wrong_with(content, wanted):
        again = f", or 'dreamd restore {last}'" if last else ""
        deed = f"restore {last}" if content is None and last else "doctor"
        yield problem(f"MEMORY.md {wrong}", f"{REPAIR}{again}", deed, path)
    else:
        yield fine("not there yet" if content is None else f"{len(content.decode()):,} characters")


def wrong_with(found: bytes | None, wanted: str) -> str:
    """Return why these bytes are not a MEMORY.md, or "" if they are. `wanted`: the last version, if any."""
    if found is None or not found.strip():
        state = "is missing" if found is None else "is empty"
        return state if wanted else ""
    try:
        text = found.decode()
    except UnicodeDecodeError as error:
        return f"is no text: byte {error.start} is not UTF-8"
    if "\0" in text:
        return "holds NUL bytes"
    if not wanted or text == wanted or is_conflicted(text):
        return ""
    if not text.endswith("\n") and wanted.startswith(text):
        return "breaks off"
    missing = parse(text).missing if parse(wanted).has_schema else ()
    lacking = [name for name in missing if name not in parse(wanted).missing]
    return f"lacks its sections ({', '.join(lacking)})" if lacking else ""


# ------------------------------------------------------------ rows


def _copies(at: Subject) -> Iterator[Finding]:
    """Check that the last copy of state.db succeeded; only a repair reads the copies."""
    made = [clock_time(copied_at(copy), at.config.zone) for copy in copies_of(at.workspace.database)]
    if wrong := found_damaged(at.workspace.database):
        yield problem(f"state.db was not copied: {wrong}", REPAIR, "doctor", at.workspace.database)
    else:
        yield fine(f"state.db was copied: {', '.join(made)}" if made else "none yet of state.db")


def _notes(at: Subject) -> Iterator[Finding]:
    at.pending = look(at.workspace, lambda notes: notes.count())
    waited = at.now - min(at.now, at.pending.oldest or at.now)
    if waited > LONGEST_WAIT:
        hours = waited.total_seconds() / 3600
        for_long = f"{hours:.0f} hours" if hours < 72 else f"{hours / 24:.0f} days"
        yield warning(f"a note has waited for {for_long}", "run 'dreamd dream'", "dream")
    else:
        yield fine(f"{at.pending} pending")


def _unfinished_forgetting(at: Subject) -> Iterator[Finding]:
    if not at.is_forgetting and is_unfinished(at.rows):
        yield problem(f"a {UNFINISHED}", ADVICE, "forget")


def _interrupted_dream(at: Subject) -> Iterator[Finding]:
    if not at.is_held and standing(at.rows).unfinished:
        advice = "'dreamd dream' goes on with it and pays for nothing twice"
        yield warning("a dream was interrupted", advice, "dream")


def _unhelpful_model(at: Subject) -> Iterator[Finding]:
    """Check whether the last dreams could use an answer of the model that they asked."""
    last = at.rows.execute(_ANSWERED, (_DREAMS_WITHOUT_HELP,)).fetchall()
    models = {row["model"] for row in last}
    if len(last) == _DREAMS_WITHOUT_HELP and len(models) == 1 and not any(row["helped"] for row in last):
        what = f"no answer of {models.pop()} could be used in the last {len(last)} dreams that asked it"
        yield warning(what, f"set model.name to a larger model; until then {NO_MODEL}")


def _transcripts(at: Subject) -> Iterator[Finding]:
    """Yield the transcripts that could not be read: the latest, and the number of others."""
    unread = UnreadTranscripts(at.rows, at.workspace.root).named(at.now)
    yield from (warning(" ".join(why.split())) for why in unread[:MOST_UNREAD])
    if more := len(unread[MOST_UNREAD:]):
        yield warning(f"{counted(more, 'more transcript')} could not be read", "'dreamd dream' names them")


PERMISSIONS: Check[Subject] = ("permissions", _permissions)
FILES: tuple[Check[Subject], ...] = (
    ("copies", _copies), ("commit", _interrupted_commit), ("MEMORY.md", _memory_file), ("notes", _notes),
)  # fmt: skip
# Those that ask state.db.
ROWS: tuple[Check[Subject], ...] = (
    ("dreams", _interrupted_dream), ("forgetting", _unfinished_forgetting), ("model", _unhelpful_model),
    ("transcripts", _transcripts),
)  # fmt: skip
