"""Crystal: where one was said, what it was made of and superseded by, and what rests on it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from daemon.explain.evidence import Evidence, evidence_in, picked
from daemon.workspace.redaction import shown_of
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, Lifecycle, strength
from state.dream import PointerLine
from state.errors import NotFoundError, UsageError
from state.stores.crystals.crystals import Occurrence
from state.stores.crystals.listing import CrystalList
from state.stores.crystals.neighbours import said_around
from state.stores.crystals.supersessions import Supersessions
from state.stores.history.lineage import LineLife

# Of each list so many are told; `more` says how many there are beside them.
MOST = 100
NEIGHBOURS = 2
_CUT = 300

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class OtherValue:
    """A crystal that holds in place of another one: since when, on whose word, said by what.

    `version` is that of the dream which said so. It counts unless the owner took it back (`undone_at`).
    """

    crystal: Evidence
    cause: str
    trust: str
    at: datetime
    version: int | None
    undone_at: datetime | None


@dataclass(frozen=True, slots=True)
class Pointing:
    """A pointer that leads to the crystal, and whether it still stands in MEMORY.md."""

    pointer: PointerLine
    standing: bool


@dataclass(frozen=True, slots=True)
class CrystalDetails:
    """A crystal with all that it has to do with.

    Its lifecycle and `strength` are as of now, `fades_at` is None for never. `superseded`: another value holds now.
    `superseded_by` and `supersedes` also hold what is in doubt and what was taken back. `merged_into` stands for it,
    `merged_from` are the duplicates for which it stands. `lines` cite it, or became it (`crystal`). `before` and
    `after` are beside it in its session. `more`: how many each of these lists leaves out.
    """

    crystal: Crystal
    strength: float
    fades_at: datetime | None
    dreamt_in: int | None
    has_vector: bool
    superseded: bool
    occurrences: tuple[Occurrence, ...]
    parents: tuple[Evidence, ...]
    children: tuple[Evidence, ...]
    superseded_by: tuple[OtherValue, ...]
    supersedes: tuple[OtherValue, ...]
    merged_into: Evidence | None
    merged_from: tuple[Evidence, ...]
    lines: tuple[LineLife, ...]
    pointers: tuple[Pointing, ...]
    before: tuple[Evidence, ...]
    after: tuple[Evidence, ...]
    more: dict[str, int]


@dataclass(slots=True)
class _Lists:
    """Cuts lists, and counts what they leave out."""

    store: Store
    more: dict[str, int] = field(default_factory=dict)

    def first(self, name: str, found: tuple[Sequence[RowT], int]) -> Sequence[RowT]:
        """Return the rows of a list that has so many."""
        rows, count = found
        if count > MOST:
            self.more[name] = count - MOST
        return rows[:MOST]

    def of(self, keys: Iterable[int]) -> tuple[Evidence, ...]:
        """Return the crystals in these rows, in this order."""
        wanted = list(keys)
        found = self.store.crystals.by_keys(wanted)
        return tuple(evidence_in(self.store, [found[key] for key in wanted if key in found], _CUT).values())


def details(store: Store, id_: str, now: datetime) -> CrystalDetails:
    """Return all about the crystal whose id begins so. Raise NotFoundError, and UsageError if several do."""
    listing, shown, lists = CrystalList(store.crystals.connection), shown_of(store), _Lists(store)
    crystal = _whole(store, listing, id_)
    row = listing.rows([crystal.id], now)[crystal.id]
    key, survivor = row.keys
    superseded, by, over = _values(store, key, survivor, lists)
    before, after = said_around(store.crystals.connection, key, NEIGHBOURS)
    parents = lists.first("parents", _counted(crystal.parents))
    return CrystalDetails(
        crystal=replace(
            crystal,
            text=shown(crystal.text),
            context=shown(crystal.context),
            session=shown(crystal.session),
            speaker=shown(crystal.speaker),
            lifecycle=Lifecycle(row.lifecycle),
        ),
        strength=strength(crystal, now),
        fades_at=row.fades_at,
        dreamt_in=row.dreamt_in,
        has_vector=listing.has_vector(key),
        superseded=superseded,
        occurrences=tuple(
            replace(one, session=shown(one.session))
            for one in lists.first("occurrences", _counted(store.crystals.sources(row.id)))
        ),
        parents=picked(evidence_in(store, store.crystals.get(parents), _CUT), parents),
        children=lists.of(lists.first("children", _counted(listing.children(row.id)))),
        superseded_by=by,
        supersedes=over,
        merged_into=next(iter(lists.of([survivor])), None) if survivor != key else None,
        merged_from=lists.of(lists.first("merged_from", _counted(listing.duplicates(key)))),
        lines=tuple(
            replace(one, text=shown(one.text)[:_CUT])
            for one in lists.first("lines", store.lineage.resting_on(row.id, MOST))
        ),
        pointers=tuple(
            Pointing(replace(one, topic=shown(one.topic), keywords=shown(one.keywords)), standing)
            for one, standing in lists.first("pointers", store.lineage.pointers_to(row.id, MOST))
        ),
        before=lists.of(before),
        after=lists.of(after),
        more=lists.more,
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
    store: Store, key: int, survivor: int, lists: _Lists
) -> tuple[bool, tuple[OtherValue, ...], tuple[OtherValue, ...]]:
    """Return whether another value holds now, what supersedes the crystal, and what it supersedes."""
    known = Supersessions(store.crystals)
    values, mine = known.among({key, survivor}), {key, survivor}
    by, over = list[OtherValue](), list[OtherValue]()
    for pair, undone_at in (*((pair, None) for pair in values.pairs), *known.taken_back(key)):
        for end, other, found in ((pair.older, pair.newer, by), (pair.newer, pair.older, over)):
            if end in mine and other not in mine:
                rest = (pair.cause.value, pair.trust.value, pair.at, pair.version, undone_at)
                found += [OtherValue(one, *rest) for one in lists.of([other])]
    first = (lists.first(name, _counted(found)) for name, found in (("superseded_by", by), ("supersedes", over)))
    return survivor in values.current, tuple(next(first)), tuple(next(first))
