"""Operations that add to the memory: notes, transcripts, and earlier memory files of people and agents."""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.operations.request import Request
from daemon.dream.progress import Step
from daemon.ingest.existing_memory import Kind, belonging
from daemon.ingest.memory_files import absorb_memory_file
from daemon.ingest.named import doubt
from daemon.ingest.transcripts import absorb_transcripts
from daemon.workspace.adoption import vouch
from daemon.workspace.searching import embed_waiting
from daemon.workspace.stores import Store, utc_now
from state.errors import DreamdError, NothingToDoError, UsageError
from state.scratch import DEFAULT_IMPORTANCE, MAX_REPLACES, Note
from state.stores.disk.disk import below
from state.stores.history.inbox import NoteInbox
from state.text.words import counted
from state.trust import Trust

_MOST_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class NoteTaken:
    """The note as durably written. `crystal` is always "pending": the next search or dream makes a crystal of it."""

    at: datetime
    importance: float
    text: str
    crystal: str


def note_text(reply: NoteTaken) -> str:
    """Confirm a note, with its time and importance."""
    return f"noted {reply.at:%Y-%m-%d %H:%M:%S %Z}, importance {reply.importance:g}; the next search finds it"


@operation(
    "working_memory_note",
    agents="memory",
    text=note_text,
    hint="Note at once, with working_memory_note, whatever must survive this session.",
    first=True,
    adds=True,
)
def working_memory_note(
    access: WorkspaceAccess,
    note: Annotated[str, Arg("What to remember, clear without its context; 16 KiB at most", min_length=1)],
    importance: Annotated[float, Arg("Honest: 0.9 a must, 0.5 usual, 0.2 passing", ge=0, le=1)] = DEFAULT_IMPORTANCE,
    replaces: Annotated[
        str, Arg("The line or memory that this note replaces: id or words", max_length=MAX_REPLACES)
    ] = "",
) -> NoteTaken:
    """Remember something beyond this session: decisions, facts, preferences, corrections, open ends.

    Call it when you learn it, not at the end. Durable on return; the next search finds it.
    """
    # Append it, redacted. This needs no workspace lock, so no process that holds it can block a note.
    wish = Note(note, utc_now(), importance, replaces=replaces)
    written = NoteInbox(access.workspace).append(wish, access.config.redaction)
    taken = written.required()
    access.notices.extend(written.notices)
    doubt_what_it_replaces(access, taken)
    access.mark_changed()
    return NoteTaken(taken.at, taken.importance, taken.text, "pending")


def doubt_what_it_replaces(access: WorkspaceAccess, note: Note) -> None:
    """Add a notice if what the note replaces does not exist, or skip this if unreadable; the note is kept anyway."""
    if note.replaces:
        with suppress(DreamdError, sqlite3.Error), access.read() as store:
            access.notices.extend(filter(None, [doubt(store, note.replaces)]))


class ExistingFile(Request):
    """An earlier memory file; `own`: its instructions come from the owner, or from people trusted as much."""

    path: str = Field(min_length=1, max_length=4_096, description="Absolute")
    kind: Kind
    own: bool = False


@dataclass(frozen=True, slots=True)
class Ingested:
    """How many `files` were read, how many of them were unreadable, and how many session turns and crystals are new.

    `imports`: how many files they include by reference, which were not read. `problems` has the first hundred, and
    `more_problems` counts the rest.
    """

    files: int
    unread: int
    turns: int
    crystals: int
    imports: int
    problems: tuple[str, ...]
    more_problems: int


@operation("ingest", remote=False, long=True)
def ingest(
    access: WorkspaceAccess,
    paths: Annotated[tuple[str, ...], Arg("Transcripts: files or folders, absolute", max_length=10_000)] = (),
    files: Annotated[
        tuple[ExistingFile, ...], Arg("What people and agents wrote down before, and sessions", max_length=20_000)
    ] = (),
) -> Ingested:
    """Read files of this machine into the long-term memory: transcripts, instructions, agents' memories.

    The files are only read. Instructions are a stranger's word unless they are said to be `own`, memories an agent's.
    """
    for path in (*paths, *(one.path for one in files)):
        if not path.startswith("/") or "\0" in path:
            raise UsageError(f"{path!r} is no absolute path", "name the file from the root on")
    with access.exclusive() as store:
        reading = _Reading(store, access)
        for file in (file for named in paths for file in _files(Path(named))):
            reading.read_named(file)
        for one in files:
            reading.read_existing(one)
        return reading.end()


def _files(path: Path) -> Iterator[Path]:
    """Yield the file, or all files below the folder except hidden ones."""
    if not path.is_dir():
        yield path
        return
    for file in sorted(below(path)):
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
            yield file


class _Reading:
    """Reads files one by one, and counts the results."""

    def __init__(self, store: Store, access: WorkspaceAccess) -> None:
        self._store, self._access = store, access
        self._before, self._counts, self._problems = store.crystals.count(), Counter[str](), list[str]()
        self._belongs = belonging(store.workspace, os.environ)

    def read_named(self, path: Path) -> None:
        """Read a transcript that the owner named; from now on, forgetting searches it too."""
        self._counts["files"] += 1
        if path.exists():
            vouch(self._store.workspace, path)
            self._read_session(path)
        else:
            self._skip(f"{path} does not exist; check the path")

    def read_existing(self, one: ExistingFile) -> None:
        """Read an earlier memory file according to its kind."""
        self._counts["files"] += 1
        path = Path(one.path)
        if one.kind is Kind.SESSIONS:
            self._read_session(path)
            return
        trust = Trust.AGENT if one.kind is Kind.MEMORY else Trust.OWNER if one.own else Trust.WEB
        try:
            vouch(self._store.workspace, path)  # so that forgetting searches it
            taken = absorb_memory_file(self._store, path, trust, self._belongs)
        except DreamdError as error:
            self._skip(self._store.config.redaction.of(str(error)))
            return
        self._counts["imports"] += taken.imports
        self._problems += taken.problems
        if taken.crystals:
            self._tell(f"{path.name}: {taken.crystals} new of {counted(taken.parts, 'part')}")

    def end(self) -> Ingested:
        """Embed the new crystals and return the counts. Raise NothingToDoError if there was no file."""
        if not self._counts["files"]:
            raise NothingToDoError("there are no files in these folders", "name the files or another folder")
        if waiting := self._store.crystals.vectors.waiting()[0]:
            self._access.report(Step("embed", f"{counted(waiting, 'crystal')} to embed"))
            embed_waiting(self._store)
        return Ingested(
            **{name: self._counts[name] for name in ("files", "unread", "turns", "imports")},
            crystals=self._store.crystals.count() - self._before,
            problems=tuple(self._problems[:_MOST_PROBLEMS]),
            more_problems=len(self._problems[_MOST_PROBLEMS:]),
        )

    def _read_session(self, path: Path) -> None:
        absorbed = absorb_transcripts(self._store, [path], utc_now(), self._tell)
        self._counts["turns"] += absorbed.turns
        self._counts["unread"] += bool(absorbed.problems and not absorbed.turns)
        self._problems += absorbed.problems

    def _skip(self, problem: str) -> None:
        self._counts["unread"] += 1
        self._problems.append(problem)

    def _tell(self, line: str) -> None:
        self._access.report(Step("ingest", line))
