"""Story: the changes of MEMORY.md, each by its name, with what it rests on: of a version, of a line, the latest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from daemon.journal.crystal import Evidence, evidence_of
from daemon.workspace.document import page_of, read_document
from daemon.workspace.stores import Store
from graphs.review import inverse_of
from state.changes.change import Change, CurrentLine
from state.changes.page import Page
from state.document.document import parse
from state.document.operations import Why
from state.document.sections import SectionName
from state.dream import HUMAN, Dream
from state.errors import NotFoundError, StorageError
from state.stores.history.lineage import LineLife
from state.text.words import normalise

MAX_LINES = 5
_LONGEST = 100  # of the changes of one line, so many are told


@dataclass(frozen=True, slots=True)
class Wording:
    """A line as it stood before or after a change."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A change of a version: `old` lines left, `new` ones came. `name` is its version and its place there (12.3).

    `name` is empty if the record of the version is gone; `cause`, `reason`, `dream`, `author` and `prompts` are the
    version's. `undoable`: the lines are what it left behind, so that it can be undone.
    """

    name: str
    version: int
    at: datetime
    cause: str
    why: str
    section: str
    old: tuple[Wording, ...] = ()
    new: tuple[Wording, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    reason: str = ""
    dream: str = ""
    author: str = ""
    prompts: tuple[str, ...] = ()
    undoable: bool = False


@dataclass(frozen=True, slots=True)
class LineStory:
    """A line with its changes, the newest first: none if it was written by hand and no dream has met it.

    `id` is then empty. `writing` is the change that wrote it, `evidence` what it rests on, `ending` the change by
    which it left. Of a line that has left, `now` is the text in its place, `crystal` keeps it, and a search for
    `keywords`, those of its pointer, finds it.
    """

    id: str
    section: str
    text: str
    trust: str = "owner"
    stands: bool = True
    writing: Entry | None = None
    evidence: tuple[Evidence, ...] = ()
    ending: Entry | None = None
    entries: tuple[Entry, ...] = ()
    now: str = ""
    crystal: str = ""
    keywords: str = ""


# ------------------------------------------------------------------------------------------------ of lines


def story_of_line(store: Store, what: str) -> tuple[LineStory, ...]:
    """Return the stories of the lines with this id (L12) or this text in them, present ones first; at most five.

    Raise NotFoundError if there never was such a line.
    """
    life = store.lineage.life(what.strip().upper())
    lives = [life] if life else store.lineage.lives(what, MAX_LINES) if normalise(what) else []
    page = page_of(store)
    stories = [_story(store, life, page) for life in lives]
    if not any(one.stands for one in stories):
        stories = [*_by_hand(store, what), *stories]
    if not stories:
        raise NotFoundError(f"no line of MEMORY.md has or had {what!r} in it", "give other words of it, or its id")
    return tuple(stories[:MAX_LINES])


def _story(store: Store, life: LineLife, page: Page) -> LineStory:
    lineage, lives = store.lineage, [life, *store.lineage.ancestors(life.id)]
    ids = {one.id for one in lives}
    versions = {one.born_in for one in lives} | {one.died_in for one in lives if one.died_in is not None}
    entries = [
        entry
        for number in sorted(versions, reverse=True)
        for entry in _entries(store, number, page)
        if not ids.isdisjoint(line.id for line in (*entry.old, *entry.new))
    ]
    if life.born_in not in {one.version for one in entries}:  # the lines of a version outlive its record
        cause = HUMAN if life.id in lineage.handwritten() else ""
        wrote = Wording(life.id, store.shown(life.text))
        entries.append(Entry("", life.born_in, life.born_at, cause, Why.ADDED, life.section.value, (), (wrote,)))
    successor = lineage.life(life.successor) if life.successor else None
    writing = next((one for one in entries if life.id in [line.id for line in one.new]), None)
    return LineStory(
        id=life.id,
        section=life.section.value,
        text=store.shown(life.text),
        trust=life.trust.value,
        stands=life.died_in is None,
        writing=writing,
        evidence=writing.evidence if writing else (),
        ending=entries[0] if life.died_in is not None else None,
        entries=tuple(entries[:_LONGEST]),
        now=store.shown(successor.text) if successor else "",
        crystal=life.crystal if life.died_in is not None else "",
        keywords=_keywords(store, life) if life.fate == Why.EVICTED else "",
    )


def _keywords(store: Store, life: LineLife) -> str:
    """Return what a search for an evicted line is led by."""
    pointers = [*store.lineage.pointers(current=True), *store.lineage.pointers(current=False)]
    return next((one.keywords for one in pointers if life.id == one.line or life.crystal == one.crystal), "")


def _by_hand(store: Store, what: str) -> Iterator[LineStory]:
    """Yield the lines of the file that no dream has read yet."""
    text, _ = read_document(store.workspace, store.connection)
    known, wanted = {normalise(line.text) for line in store.lineage.current_lines()}, normalise(what)
    for part in parse(text).parts:
        for block in part.lines:
            if wanted and wanted in block.key and block.key not in known:
                yield LineStory("", part.name.value if part.name else "", store.shown(block.text))


# ------------------------------------------------------------------------------------------------ of versions


def latest_entries(store: Store, limit: int, version: int | None = None, since: int = 0) -> tuple[Entry, ...]:
    """Return the changes of this version, or the latest of those after `since`, newest first; none of pointers.

    Raise NotFoundError for an unknown version.
    """
    if version is not None and not store.lineage.has(version):
        raise NotFoundError(f"there is no version {version}", "'dreamd history' lists them")
    numbers = [version] if version is not None else store.lineage.versions_after(since)[::-1]
    page = page_of(store)
    found = (one for number in numbers for one in _entries(store, number, page))
    return tuple(islice((one for one in found if one.section != SectionName.POINTERS), limit))


def entries_of(store: Store, record: Dream) -> tuple[Entry, ...]:
    """Return the changes of a version in their order."""
    return tuple(_told(store, record, place, one) for place, one in _named(record))


def _entries(store: Store, number: int, page: Page) -> Iterator[Entry]:
    """Yield the changes of a version, the last first; nothing without its record."""
    try:
        record = store.memory.version(number)
    except (NotFoundError, StorageError):  # 'dreamd doctor' reports it
        return
    for place, change in reversed(_named(record)):
        yield replace(_told(store, record, place, change), undoable=inverse_of(change, page) is not None)


def _named(record: Dream) -> list[tuple[int, Change]]:
    """Return the changes with their places; none of a version whose record was emptied by a forgetting."""
    lines = [line for one in record.changes for line in (*one.come, *one.gone)]
    return list(enumerate(record.changes, 1)) if all(line.id for line in lines) else []


def _told(store: Store, record: Dream, place: int, change: Change) -> Entry:
    return Entry(
        name=f"{record.number}.{place}",
        version=record.number,
        at=record.at,
        cause=record.cause,
        why=change.why.value,
        section=(*change.come, *change.gone)[0].section.value,
        old=_wordings(store, change.gone),
        new=_wordings(store, change.come),
        evidence=evidence_of(store, change.evidence),
        reason=record.reason,
        dream=record.id,
        author=record.usage.model or record.author,
        prompts=record.usage.prompts,
    )


def _wordings(store: Store, lines: Sequence[CurrentLine]) -> tuple[Wording, ...]:
    return tuple(Wording(line.id, store.shown(line.text)) for line in lines)
