"""Crystal: where one was said, what it was made of and superseded by, and what rests on it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from daemon.workspace.redaction import shown_of
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, strength
from state.errors import NotFoundError, UsageError
from state.stores.crystals.listing import CrystalList
from state.stores.crystals.neighbours import said_around
from state.stores.crystals.supersessions import Supersessions

# Of each list so many are told; `more` says how many there are beside them.
MOST = 100
NEIGHBOURS = 2
_CUT = 300

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class CrystalName:
    """Another crystal: its text, at most 300 characters of it. One that was forgotten has none."""

    id: str
    text: str
    origin: str = ""
    speaker: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SaidAt:
    """A place where the text was met: file:lines@hash (empty: in no file), and the position in its session."""

    source: str
    session: str
    position: int
    at: datetime


@dataclass(frozen=True, slots=True)
class OtherValue:
    """A crystal that holds in place of another one: since when, on whose word, said by what.

    `version` is that of the dream which said so. It counts unless the owner took it back (`undone_at`).
    """

    crystal: CrystalName
    cause: str
    trust: str
    at: datetime
    version: int | None
    undone_at: datetime | None


@dataclass(frozen=True, slots=True)
class RestingLine:
    """A line of MEMORY.md that cites the crystal, or became it (`became`); one that is gone has `fate`, `died_in`."""

    id: str
    section: str
    text: str
    standing: bool
    became: bool
    born_in: int
    died_in: int | None
    fate: str


@dataclass(frozen=True, slots=True)
class PointerTo:
    """A pointer that leads to the crystal, and whether it still stands in MEMORY.md."""

    topic: str
    keywords: str
    standing: bool
    uses: int


@dataclass(frozen=True, slots=True)
class CrystalDetails:
    """A crystal with all that it has to do with.

    `lifecycle` and `strength` are as of now, `fades_at` is None for never. `superseded`: another value holds now.
    `superseded_by` and `supersedes` also hold what is in doubt and what was taken back. `merged_into` stands for it,
    `merged_from` are the duplicates for which it stands. `before` and `after` are beside it in its session. `more`:
    how many each of these lists leaves out.
    """

    id: str
    text: str
    context: str
    origin: str
    kind: str
    trust: str
    heard: str
    importance: float
    lifecycle: str
    strength: float
    fades_at: datetime | None
    valence: float
    accesses: int
    last_accessed_at: datetime | None
    created_at: datetime
    speaker: str
    session: str
    position: int
    dreamt_in: int | None
    has_vector: bool
    superseded: bool
    occurrences: tuple[SaidAt, ...]
    parents: tuple[CrystalName, ...]
    children: tuple[CrystalName, ...]
    superseded_by: tuple[OtherValue, ...]
    supersedes: tuple[OtherValue, ...]
    merged_into: CrystalName | None
    merged_from: tuple[CrystalName, ...]
    lines: tuple[RestingLine, ...]
    pointers: tuple[PointerTo, ...]
    before: tuple[CrystalName, ...]
    after: tuple[CrystalName, ...]
    more: dict[str, int]


@dataclass(slots=True)
class _Names:
    """Names other crystals, and counts what the lists leave out."""

    store: Store
    more: dict[str, int] = field(default_factory=dict)

    def first(self, name: str, found: tuple[Sequence[RowT], int]) -> Sequence[RowT]:
        """Return the rows of a list that has so many."""
        rows, count = found
        if count > MOST:
            self.more[name] = count - MOST
        return rows[:MOST]

    def of(self, keys: Iterable[int]) -> tuple[CrystalName, ...]:
        """Return the crystals in these rows, in this order."""
        wanted = list(keys)
        found = self.store.crystals.by_keys(wanted)
        return tuple(self.name(found[key]) for key in wanted if key in found)

    def name(self, crystal: Crystal) -> CrystalName:
        """Return the name of this crystal."""
        shown = shown_of(self.store)
        text, speaker = shown(crystal.text)[:_CUT], shown(crystal.speaker)
        return CrystalName(crystal.id, text, crystal.origin.value, speaker, crystal.created_at)


def details(store: Store, id_: str, now: datetime) -> CrystalDetails:
    """Return all about the crystal whose id begins so. Raise NotFoundError, and UsageError if several do."""
    listing, shown, names = CrystalList(store.crystals.connection), shown_of(store), _Names(store)
    crystal = _whole(store, listing, id_)
    row = listing.rows([crystal.id], now)[crystal.id]
    key = row.place.key
    superseded, by, over = _values(store, key, row.survivor or key, names)
    before, after = said_around(store.crystals.connection, key, NEIGHBOURS)
    known = {one.id: one for one in store.crystals.get(crystal.parents[:MOST])}
    parents = names.first("parents", _counted(crystal.parents))
    return CrystalDetails(
        id=row.id,
        text=shown(crystal.text),
        context=shown(crystal.context),
        origin=row.origin,
        kind=row.kind,
        trust=crystal.trust.value,
        heard=crystal.heard,
        importance=row.importance,
        lifecycle=row.lifecycle,
        strength=strength(crystal, now),
        fades_at=row.fades_at,
        valence=crystal.valence,
        accesses=row.accesses,
        last_accessed_at=crystal.last_accessed_at,
        created_at=row.created_at,
        speaker=shown(row.speaker),
        session=shown(row.session),
        position=crystal.position,
        dreamt_in=row.dreamt_in,
        has_vector=listing.has_vector(key),
        superseded=superseded,
        occurrences=tuple(
            SaidAt(str(one.source or ""), shown(one.session), one.position, one.at)
            for one in names.first("occurrences", _counted(store.crystals.sources(row.id)))
        ),
        parents=tuple(names.name(known[one]) if one in known else CrystalName(one, "") for one in parents),
        children=names.of(names.first("children", _counted(listing.children(row.id)))),
        superseded_by=by,
        supersedes=over,
        merged_into=next(iter(names.of([row.survivor])), None) if row.survivor else None,
        merged_from=names.of(names.first("merged_from", _counted(listing.duplicates(key)))),
        lines=_lines(store, row.id, names),
        pointers=tuple(
            PointerTo(shown(one.topic), shown(one.keywords), standing, one.uses)
            for one, standing in names.first("pointers", store.lineage.pointers_to(row.id, MOST))
        ),
        before=names.of(before),
        after=names.of(after),
        more=names.more,
    )


def _counted(rows: Sequence[RowT]) -> tuple[Sequence[RowT], int]:
    return rows, len(rows)


def _whole(store: Store, listing: CrystalList, id_: str) -> Crystal:
    """Return the crystal whose id begins so. Raise NotFoundError and UsageError."""
    found = listing.ids(id_, 2)
    if not found:
        raise NotFoundError(f"no crystal has an id that begins with {id_!r}", "'dreamd search' shows the ids")
    if len(found) > 1:
        raise UsageError(f"more than one crystal has an id that begins with {id_!r}", "give more of it")
    return store.crystals.get(found)[0]


def _values(
    store: Store, key: int, survivor: int, names: _Names
) -> tuple[bool, tuple[OtherValue, ...], tuple[OtherValue, ...]]:
    """Return whether another value holds now, what supersedes the crystal, and what it supersedes."""
    known = Supersessions(store.crystals)
    values, mine = known.among({key, survivor}), {key, survivor}
    by, over = list[OtherValue](), list[OtherValue]()
    for pair, undone_at in (*((pair, None) for pair in values.pairs), *known.taken_back(key)):
        for end, other, found in ((pair.older, pair.newer, by), (pair.newer, pair.older, over)):
            if end in mine and other not in mine:
                rest = (pair.cause.value, pair.trust.value, pair.at, pair.version, undone_at)
                found += [OtherValue(name, *rest) for name in names.of([other])]
    first = (names.first(name, _counted(found)) for name, found in (("superseded_by", by), ("supersedes", over)))
    return survivor in values.current, tuple(next(first)), tuple(next(first))


def _lines(store: Store, id_: str, names: _Names) -> tuple[RestingLine, ...]:
    """Return the lines of MEMORY.md that rest on it, standing ones first."""
    shown = shown_of(store)
    return tuple(
        RestingLine(
            id=line.id,
            section=line.section.value,
            text=shown(line.text)[:_CUT],
            standing=line.died_in is None,
            became=line.crystal == id_,
            born_in=line.born_in,
            died_in=line.died_in,
            fate=line.fate,
        )
        for line in names.first("lines", store.lineage.resting_on(id_, MOST))
    )
