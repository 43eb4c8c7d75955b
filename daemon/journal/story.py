"""Story: the changes of MEMORY.md, each by its name, with what it rests on: of a version, of a line, the latest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from daemon.dream.standing import unsupported_in
from daemon.journal.crystal import Evidence, evidence_of
from daemon.workspace.document import page_of, read_document
from daemon.workspace.stores import Store
from graphs.review import inverse_of
from state.changes.change import Change, CurrentLine
from state.changes.page import Page
from state.changes.values import Span, through_time
from state.document.document import parse
from state.document.operations import Why
from state.document.sections import SectionName
from state.dream import HUMAN, OWNERS_EDITS, Dream
from state.errors import NotFoundError
from state.reading import row_digests
from state.stores.history.bootstraps import receipts
from state.stores.history.lineage import LineLife
from state.text.words import jaccard, normalise, terms

MAX_LINES = 5
_LONGEST = 100  # of the changes of one line, so many are told
_STARTS = 12  # so many of the last starts of agents are looked at


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
class FormerValue:
    """What a line said from a change on, of all that it says; the last one is its value now.

    `because` is what the change rests on, as it was said; empty for the owner's own change (`by_owner`).
    """

    value: str
    at: datetime
    because: str = ""
    by_owner: bool = False


@dataclass(frozen=True, slots=True)
class LineUse:
    """Of the last `starts` of agents since a line was written `given` had it; `searches` found it, in any wording."""

    starts: int = 0
    given: int = 0
    searches: int = 0


@dataclass(frozen=True, slots=True)
class LineStory:
    """A line with its changes, the newest first: none if it was written by hand and no dream has met it.

    `id` is then empty. `writing` is the change that wrote it, `evidence` what it rests on, `ending` the change by
    which it left. Of a line that has left, `now` is the text in its place, `crystal` keeps it, and a search for
    `keywords`, those of its pointer, finds it. `values`, the oldest first, are those that changed from wording to
    wording; `unsupported` the numbers, dates and names in `text` that no evidence of it has.
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
    values: tuple[FormerValue, ...] = ()
    unsupported: tuple[Span, ...] = ()
    use: LineUse = LineUse()


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
    texts = {one.id: one.text for one in stories if one.id and one.section != SectionName.POINTERS}
    marks = unsupported_in(store, texts, "\n".join(line.text for line in page.lines.values()))
    return tuple(replace(one, unsupported=marks.get(one.id, ())) for one in stories[:MAX_LINES])


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
        values=_values(life.id, entries),
        use=_use(store, lives) if life.died_in is None else LineUse(),
    )


def _values(line: str, entries: Sequence[Entry]) -> tuple[FormerValue, ...]:
    """Return the values of a line from wording to wording, each with the change that brought it."""
    wordings = list[tuple[str, Entry]]()
    for entry in entries:
        if (new := next((one for one in entry.new if one.id == line), None)) is not None:
            wordings.insert(0, (new.text, entry))
            nearest = max(entry.old, key=lambda old: jaccard(terms(old.text), terms(new.text)), default=None)
            line = nearest.id if nearest else ""
    found, known = list[FormerValue](), set[str]()
    for value, (_, entry) in zip(through_time([text for text, _ in wordings]), wordings, strict=True):
        if value and (not found or found[-1].value != value):
            news = [one for one in entry.evidence if one.at is not None and one.id not in known]
            because = max(news, key=lambda one: str(one.at), default=None)
            by_owner = entry.cause in OWNERS_EDITS
            found.append(FormerValue(value, entry.at, "" if by_owner or because is None else because.text, by_owner))
        known.update(one.id for one in entry.evidence)
    return tuple(found) if len(found) > 1 else ()


def _use(store: Store, lives: Sequence[LineLife]) -> LineUse:
    """Count how often a line was given and found; `lives` are its own and those of its former wordings."""
    born, rows = lives[0].born_at.replace(microsecond=0), set(row_digests(lives[0].text))
    last = [one for one in islice(receipts(store.workspace), _STARTS) if one.at >= born]
    found = store.crystals.get({one.crystal for one in lives if one.crystal})
    given = sum(not rows.isdisjoint(one.given) for one in last)
    return LineUse(len(last), given, sum(one.accesses for one in found))


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
    page = page_of(store)
    return tuple(_told(store, record, place, one, page) for place, one in _named(record))


def _entries(store: Store, number: int, page: Page) -> Iterator[Entry]:
    """Yield the changes of a version, the last first; nothing without its record."""
    if (record := store.memory.readable_version(number)) is not None:
        yield from (_told(store, record, place, change, page) for place, change in reversed(_named(record)))


def _named(record: Dream) -> list[tuple[int, Change]]:
    """Return the changes with their places; none of a version whose record was emptied by a forgetting."""
    lines = [line for one in record.changes for line in (*one.come, *one.gone)]
    return list(enumerate(record.changes, 1)) if all(line.id for line in lines) else []


def _told(store: Store, record: Dream, place: int, change: Change, page: Page) -> Entry:
    return Entry(
        name=f"{record.number}.{place}",
        version=record.number,
        at=record.at,
        cause=record.cause,
        why=change.why.value,
        section=_section(change).value,
        old=_wordings(store, change.gone),
        new=_wordings(store, change.come),
        evidence=evidence_of(store, change.evidence),
        reason=record.reason,
        dream=record.id,
        author=record.usage.model or record.author,
        prompts=record.usage.prompts,
        undoable=inverse_of(change, page) is not None,
    )


def _section(change: Change) -> SectionName:
    """Return where the change is; of a line that left for a pointer, where it was."""
    sections = [line.section for line in (*change.come, *change.gone)]
    return next((one for one in sections if one is not SectionName.POINTERS), sections[0])


def _wordings(store: Store, lines: Sequence[CurrentLine]) -> tuple[Wording, ...]:
    return tuple(Wording(line.id, store.shown(line.text)) for line in lines)
