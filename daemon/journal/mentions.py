"""Mentions: every place that says what its owner calls wrong, and what each says beside it."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from daemon.dream.standing import shown
from daemon.upkeep.forget_plan import named
from daemon.workspace.document import page_of
from daemon.workspace.stores import Store
from state.changes.change import CurrentLine
from state.changes.statement import Found, Likeness, Statement, found_in, without
from state.crystals.crystal import Crystal, Origin
from state.document.pointer import parse_pointer
from state.document.sections import SectionName
from state.errors import NotFoundError, UsageError
from state.forgetting.cutting import sentences
from state.forgetting.folded import fold
from state.sessions.item import State
from state.signals.curiosity import Gap
from state.stores.crystals import full_text
from state.stores.database.moments import from_text
from state.text.pieces import with_other_sentence
from state.text.words import repeat_key

LINE, NOTE, MEMORY, PUT_AWAY = "line", "note", "memory", "line put away"
POINTER, WORKING, QUESTION = "pointer", "working memory", "open question"
# Crystals that are looked at, and places that may say it.
_MOST, _NEAR = 120, 8
_NAMED = re.compile(r"(?:([Ll]\d{1,9})|([0-9a-f]{32}))(?:\.(\d{1,3}))?")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text is. `id` is that of a line, crystal or pointer, else the digest of the text.

    `value` is what is there; of a memory of a session its row, of a note nothing.
    """

    kind: str
    id: str
    at: datetime | None
    value: CurrentLine | Crystal | Gap | int | None


@dataclass(frozen=True, slots=True)
class Mentioned:
    """A text that says what is wrong, all places with its words, and where in it."""

    text: str
    places: tuple[Place, ...]
    found: Found

    @property
    def rest(self) -> str:
        """Return what it says beside it."""
        return without(self.text, self.found.spans)


@dataclass(frozen=True, slots=True)
class Mention:
    """A text that says what is wrong: `before`, `said` and `after` together are it, `rest` is what stays of it.

    `id` is that of the first of its `places`, `kind` what that is. If not `certain`, it may say so.
    """

    id: str
    kind: str
    at: datetime | None
    before: str
    said: str
    after: str
    rest: str
    places: int
    certain: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """The statement that is wrong, and the line that was meant, if one was."""

    text: str
    line: CurrentLine | None = None
    crystal: str = ""


def subject_of(store: Store, name: str) -> Subject:
    """Return what is meant: a line or a crystal by its id, or one sentence of it ("L12.2"), or a text.

    A text that one line has means that line, or the sentences of it that it repeats. Raise NotFoundError for an
    unknown id, and UsageError for a text that several lines have.
    """
    lines = [line for line in page_of(store).lines.values() if line.section is not SectionName.POINTERS]
    if (named := _NAMED.fullmatch(name.strip())) is None:
        return _text_meant(lines, " ".join(name.split()))
    id_, crystal = (named[1] or "").upper(), named[2] or ""
    line = next((one for one in lines if one.id == id_), None)
    life = store.lineage.life(id_) if id_ and line is None else None
    texts = [line.text] if line else [life.text] if life else []
    texts += [one.text for one in store.crystals.get([crystal] if crystal else [])]
    if not texts or not texts[0]:
        raise NotFoundError(
            f"there is no line or memory {name.strip()}", "'dreamd why TEXT' shows lines with their ids"
        )
    text = texts[0]
    if named[3]:
        every = sentences(text)
        if not 0 < int(named[3]) <= len(every):
            raise NotFoundError(f"{id_ or crystal[:12]} has {len(every)} sentences", "count them from 1")
        text = text[slice(*every[int(named[3]) - 1])].strip()
    return Subject(text, line, crystal)


def _text_meant(lines: Sequence[CurrentLine], said: str) -> Subject:
    key = repeat_key(said)
    if not fold(said).words:
        raise UsageError("what is wrong? give a text, or the id of a line or a memory")
    whole = [line for line in lines if repeat_key(line.text) == key]
    part = [line for line in lines if with_other_sentence(line.text, said, "")]
    found = whole or part or [line for line in lines if key in repeat_key(line.text)]
    if len(found) > 1:
        ids = ", ".join(line.id or f"{line.text:.40}…" for line in found[:10])
        raise UsageError(f"{len(found)} lines have {said!r:.80}: {ids}", "give an id, or more of the text")
    if not found:
        return Subject(said)
    return Subject(said if part and not whole else found[0].text, found[0])


def mentions_of(store: Store, subject: Subject) -> list[Mentioned]:
    """Return the texts that say it, and a few that may, as they are now; the meant one first."""
    wanted, line = Statement.each_of(subject.text), subject.line
    # What the meant line rests on, and its former wordings.
    sources = frozenset(store.lineage.evidence_of([line.id]).get(line.id, ()) if line is not None else ())
    found: dict[tuple[str, ...], Mentioned] = {}
    near, lines = 0, tuple(page_of(store).lines.values())
    places = [*_lines(lines), *_notes(store), *_crystals(store, subject, sources), *_others(store)]
    for place, text in sorted(places, key=lambda one: not _is_meant(one[0], subject)):
        key = fold(text).words
        if known := found.get(key):
            found[key] = replace(known, places=(*known.places, place))
            continue
        is_source = isinstance(place.value, Crystal) and place.value.id in sources
        if (where := found_in(text, wanted, is_source=is_source)) is None:
            continue
        near += where.likeness is Likeness.NEAR
        if where.likeness is Likeness.SAME or near <= _NEAR:
            found[key] = Mentioned(text, (place,), where)
    every = list(found.values())
    gone = {
        place.value.id
        for one in every
        for place in one.places
        if one.found.likeness is Likeness.SAME and isinstance(place.value, Crystal)
    }
    return [*every, *_pointers(store, lines, gone)]


def shown_mention(store: Store, one: Mentioned) -> Mention:
    """Return it as it may be shown, without secrets."""
    place, text = one.places[0], shown(store, one.text)[0]
    spans = [(start, end) for start, end in one.found.spans if text == one.text]
    start, end = (spans[0][0], spans[-1][1]) if spans else (0, len(text))
    return Mention(
        id=place.id,
        kind=place.kind,
        at=place.at,
        before=text[:start],
        said=text[start:end],
        after=text[end:],
        rest=shown(store, one.rest)[0],
        places=len(one.places),
        certain=one.found.likeness is Likeness.SAME,
    )


def _is_meant(place: Place, subject: Subject) -> bool:
    value = place.value
    if isinstance(value, CurrentLine):
        return value == subject.line
    return isinstance(value, Crystal) and value.id == subject.crystal


def _lines(lines: Iterable[CurrentLine]) -> Iterator[tuple[Place, str]]:
    for line in lines:
        if line.section is not SectionName.POINTERS:
            yield Place(LINE, line.id or named(line.text), line.born_at, line), line.text


def _notes(store: Store) -> Iterator[tuple[Place, str]]:
    for note in store.notes.each_pending():
        yield Place(NOTE, named(note.text), note.at, None), note.text


def _crystals(store: Store, subject: Subject, sources: Iterable[str]) -> Iterator[tuple[Place, str]]:
    """Yield the crystals that hold, and may say it by their words or because its line rests on them.

    What one person says of themselves is another thing in somebody else's mouth.
    """
    connection = store.connection
    words = sorted(Statement(subject.text).words)
    counts = full_text.frequency(connection, words)
    found = full_text.nearest(connection, full_text.within_budget(counts), _MOST, "merged_into IS NULL")
    keys = {*found, *store.crystals.keys([*sources, *filter(None, [subject.crystal])]).values()}
    current = store.supersessions.among(keys).current
    speaker = next((one.speaker for one in store.crystals.get([subject.crystal])), "")
    for _, one in sorted(store.crystals.by_keys(keys - current.keys()).items()):
        if speaker and one.speaker and one.speaker.casefold() != speaker.casefold():
            continue
        yield Place(PUT_AWAY if one.origin is Origin.LINE else MEMORY, one.id, one.created_at, one), one.text


def _others(store: Store) -> Iterator[tuple[Place, str]]:
    rows = store.connection.execute(
        "SELECT key, content, created_at FROM items WHERE state = ? ORDER BY key", (State.LIVE.value,)
    )
    for key, content, at in rows:
        yield Place(WORKING, named(content), from_text(at), int(key)), content
    for gap in store.questions.all():
        yield Place(QUESTION, named(gap.question), gap.first_at, gap), gap.question


def _pointers(store: Store, lines: Iterable[CurrentLine], crystals: Collection[str | None]) -> Iterator[Mentioned]:
    """Yield the pointers in MEMORY.md that lead to these crystals."""
    behind = {pointer.keywords: pointer.crystal for pointer in store.lineage.pointers(current=True)}
    for line in lines:
        parsed = parse_pointer(line.text) if line.section is SectionName.POINTERS else None
        if parsed is not None and behind.get(parsed[1]) in crystals:
            found = Found(((0, len(line.text)),), Likeness.SAME)
            yield Mentioned(line.text, (Place(POINTER, line.id, line.born_at, line),), found)
