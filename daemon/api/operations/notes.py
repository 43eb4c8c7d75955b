"""Operations that add to the memory: notes, hormone events, transcripts, what supersedes what; and the mood."""

import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, operation
from daemon.api.operations.request import Request
from daemon.api.text import mood_text, note_text, superseded_text
from daemon.dream.progress import Step
from daemon.ingest.existing_memory import Kind, belonging
from daemon.ingest.feelings import feel
from daemon.ingest.memory_files import absorb_memory_file
from daemon.ingest.named import doubt
from daemon.ingest.notes import absorb_notes
from daemon.ingest.transcripts import absorb_transcripts
from daemon.workspace.adoption import vouch
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import Store, utc_now
from state.crystals.crystal import Crystal
from state.crystals.supersession import Cause, Supersession
from state.errors import DreamdError, NotFoundError, NothingToDoError, UsageError
from state.scratch import DEFAULT_IMPORTANCE, MAX_REPLACES, Note
from state.signals.hormones import Feeling, mood
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import transaction
from state.stores.disk.disk import below
from state.stores.history.inbox import NoteInbox
from state.text.words import normalise
from state.trust import Trust

_MOST_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class NoteTaken:
    """The note as it stands in the log, durably. `crystal`: pending (of the next search or dream) or stored."""

    at: datetime
    importance: float
    text: str
    crystal: str


@operation("working_memory_note", agents="memory", text=note_text)
def working_memory_note(
    access: WorkspaceAccess,
    note: Annotated[str, Arg("What to remember, clear without its context; 16 KiB at most", min_length=1)],
    importance: Annotated[float, Arg("0 to 1; 0.7 and more is kept", ge=0, le=1)] = DEFAULT_IMPORTANCE,
    replaces: Annotated[
        str, Arg("The line or memory that this note replaces: id or words", max_length=MAX_REPLACES)
    ] = "",
) -> NoteTaken:
    """Remember something beyond this session: decisions, facts, preferences, corrections, open ends.

    Call it when you learn it, not at the end. Durable on return; the next search finds it.
    """
    # Append it, without its secrets. The lock is not needed, so that no owner can keep a note from being taken.
    wish = Note(note, utc_now(), importance, replaces=replaces)
    taken = NoteInbox(access.workspace).append(wish, access.config.secrets.redaction)
    doubt_what_it_replaces(access, taken)
    access.mark_changed()
    return NoteTaken(taken.at, taken.importance, taken.text, "pending")


def doubt_what_it_replaces(access: WorkspaceAccess, note: Note) -> None:
    """Add a notice if the note names nothing that is there, as far as that can be read: the note is kept anyway."""
    if note.replaces:
        with suppress(DreamdError, sqlite3.Error), access.read() as store:
            access.notices.extend(filter(None, [doubt(store, note.replaces)]))


@dataclass(frozen=True, slots=True)
class Mood:
    """The hormone levels, each in [0, 1], and what they make of the mood."""

    dopamine: float
    cortisol: float
    oxytocin: float
    mood: str
    at: datetime


@operation("feel", text=mood_text)
def feel_event(
    access: WorkspaceAccess,
    event: Feeling,
    because: Annotated[str, Arg("What raised it", max_length=2_000)] = "",
) -> Mood:
    """Raise a hormone event: what just happened mattered.

    Levels weigh what the next dream keeps.
    """
    with access.write() as store:
        now = utc_now()
        feel(store, [event], redacted(store, because), now, now)
        levels = _mood_of(store, now)
    access.mark_changed()
    return levels


@operation("mood", reads=True, text=mood_text)
def current_mood(access: WorkspaceAccess) -> Mood:
    """Return the hormone levels now."""
    with access.read() as store:
        return _mood_of(store, utc_now())


def _mood_of(store: Store, now: datetime) -> Mood:
    levels = store.feelings.levels(now)
    return Mood(levels.dopamine, levels.cortisol, levels.oxytocin, mood(levels), levels.at)


@dataclass(frozen=True, slots=True)
class Ingested:
    """What was read. `files` were there, `unread` of them could not be read at all; `crystals` are new."""

    files: int
    unread: int
    turns: int
    crystals: int
    problems: tuple[str, ...]


@operation("ingest", remote=False, long=True)
def ingest(
    access: WorkspaceAccess,
    paths: Annotated[tuple[str, ...], Arg("Files or folders, absolute", min_length=1, max_length=10_000)],
) -> Ingested:
    """Read transcripts of this machine into the long-term memory."""
    named = [Path(path) for path in paths]
    for path in named:
        if not path.is_absolute():
            raise UsageError(f"{path} is no absolute path", "name the file from the root on")
    with access.exclusive() as store:
        return _ingest_files(store, named, access)


def _ingest_files(store: Store, paths: list[Path], access: WorkspaceAccess) -> Ingested:
    before, files, unread, turns, problems = store.crystals.count(), 0, 0, 0, list[str]()
    for path in (file for named in paths for file in _files(named)):
        files += 1
        if not path.exists():
            unread += 1
            problems.append(f"{path} does not exist; check the path")
            continue
        vouch(store.workspace, path)
        absorbed = absorb_transcripts(store, [path], utc_now(), lambda line: access.report(Step("ingest", line)))
        turns += absorbed.turns
        problems += absorbed.problems
        unread += bool(absorbed.problems and not absorbed.turns)
    if not files:
        raise NothingToDoError("there are no files in these folders", "name the files or another folder")
    if waiting := store.crystals.vectors.waiting()[0]:
        access.report(Step("embed", f"{waiting:,} crystals to embed"))
        store.embed()
    return Ingested(files, unread, turns, store.crystals.count() - before, tuple(problems))


def _files(path: Path) -> list[Path]:
    """Yield the file, or those below the folder without the hidden ones."""
    if not path.is_dir():
        return [path]
    visible_files = (file for file in sorted(below(path)) if file.is_file())
    return [file for file in visible_files if not any(part.startswith(".") for part in file.relative_to(path).parts)]


class ExistingFile(Request):
    """A file of before; `own`: its instructions are the word of the owner, or of people trusted as much."""

    path: str = Field(min_length=1, max_length=4_096, description="Absolute")
    kind: Kind
    own: bool = False


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What was read of how many files; `unread` of them could not be, `turns` of sessions and `crystals` are new.

    `imports`: how many files were named in them to be read as well, which they were not. Of `problems` the first
    hundred are given, and how many more there are.
    """

    files: int
    unread: int
    turns: int
    crystals: int
    imports: int
    problems: tuple[str, ...]
    more_problems: int


@operation("take_in", remote=False, long=True)
def take_in(
    access: WorkspaceAccess,
    files: Annotated[tuple[ExistingFile, ...], Arg(min_length=1, max_length=20_000)],
) -> TakenIn:
    """Take in what people and agents wrote down before: instructions, memories, sessions of this machine.

    The files are only read. Instructions are a stranger's word unless they are said to be `own`, memories an agent's.
    """
    for one in files:
        if not one.path.startswith("/") or "\0" in one.path:
            raise UsageError(f"{one.path!r} is no absolute path", "name the file from the root on")
    with access.exclusive() as store:
        return _take_in(store, files, access)


def _take_in(store: Store, files: tuple[ExistingFile, ...], access: WorkspaceAccess) -> TakenIn:
    before, unread, turns, imports, problems = store.crystals.count(), 0, 0, 0, list[str]()
    belongs = belonging(store.workspace, os.environ)

    def tell(line: str) -> None:
        access.report(Step("ingest", line))

    for one in files:
        path = Path(one.path)
        if one.kind is Kind.SESSIONS:
            read = absorb_transcripts(store, [path], utc_now(), tell)
            turns += read.turns
            unread += bool(read.problems and not read.turns)
            problems += read.problems
            continue
        try:
            vouch(store.workspace, path)  # so that forgetting looks into it
            taken = absorb_memory_file(store, path, _trust_in(one), belongs)
        except DreamdError as error:
            unread += 1
            problems.append(redacted(store, str(error)))
            continue
        imports += taken.imports
        problems += taken.problems
        if taken.crystals:
            tell(f"{path.name}: {taken.crystals} new of {taken.parts} parts")
    if waiting := store.crystals.vectors.waiting()[0]:
        access.report(Step("embed", f"{waiting:,} crystals to embed"))
        store.embed()
    new = store.crystals.count() - before
    more = max(0, len(problems) - _MOST_PROBLEMS)
    return TakenIn(len(files), unread, turns, new, imports, tuple(problems[:_MOST_PROBLEMS]), more)


def _trust_in(file: ExistingFile) -> Trust:
    if file.kind is Kind.MEMORY:
        return Trust.AGENT
    return Trust.OWNER if file.own else Trust.WEB


@dataclass(frozen=True, slots=True)
class Superseded:
    """The texts of both memories; `undone`: both hold. `turned`: it was the other way around before."""

    older: str
    newer: str
    undone: bool
    turned: bool


@operation("supersede", remote=False, text=superseded_text)
def supersede(
    access: WorkspaceAccess,
    older: Annotated[str, Arg("What holds no longer", min_length=1, max_length=10_000)],
    newer: Annotated[str, Arg("What holds now", min_length=1, max_length=10_000)],
    undo: Annotated[bool, Arg("Take it back: both hold")] = False,
) -> Superseded:
    """Say, as the owner of the workspace, that one memory holds no longer because of another one, or take it back.

    Raise NotFoundError for what names no memory, UsageError for what names several, or one twice, and
    NothingToDoError when there is nothing to take back.
    """
    with access.write() as store:
        now = utc_now()
        absorb_notes(store, now)
        (once, before), (now_holds, after) = _meant(store, older), _meant(store, newer)
        if before & after:
            raise UsageError("both are the same memory", "name two")
        supersessions = Supersessions(store.crystals)
        with transaction(store.crystals.connection):
            store.check()
            pairs = {(pair.older, pair.newer) for pair in supersessions.among(before | after).pairs}
            # What was said of them before would make a circle with this.
            undone = [supersessions.undo(one, other, now) for one in before for other in after]
            if not undo:
                holds = max(after)
                supersessions.record(
                    Supersession(one, holds, now, Trust.OWNER, Cause.OWNER) for one in sorted(before)
                )
            elif not any(undone):
                raise NothingToDoError("neither supersedes the other", "'dreamd why' says what superseded a line")
        turned = not undo and any((other, one) in pairs for one in before for other in after)
        texts = redacted(store, once.text), redacted(store, now_holds.text)
    return Superseded(*texts, undone=undo, turned=turned)


def _meant(store: Store, name: str) -> tuple[Crystal, set[int]]:
    """Return the crystal that is meant, and the rows of all that say the same."""
    line = store.lineage.life(name.strip().upper())
    found = [] if line else store.crystals.named(name)
    if not found:
        lines = [line] if line else store.lineage.lives(name) if normalise(name) else []
        for one in lines:
            rests_on = store.crystals.get(one.evidence)
            found += [crystal for crystal in rests_on if normalise(crystal.text) == normalise(one.text)] or rests_on
    if not found:
        raise NotFoundError(f"no memory has {name[:200]!r} in it or as its id", "'dreamd search' shows texts and ids")
    if len({normalise(one.text) for one in found}) > 1:
        ids = ", ".join(f"{one.id[:12]} ({redacted(store, one.text)[:60]!r})" for one in found[:5])
        raise UsageError(f"{name[:200]!r} means several memories: {ids}", "name one by its id")
    return found[-1], set(store.crystals.keys(one.id for one in found).values())
