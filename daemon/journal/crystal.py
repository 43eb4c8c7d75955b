"""Crystal: as evidence for something else, and in full: its occurrences, its origins, and what depends on it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, Lifecycle, strength
from state.dream import PointerLine
from state.errors import NotFoundError, UsageError
from state.stores.crystals.crystals import Crystals, Occurrence
from state.stores.crystals.listing import CrystalList
from state.stores.crystals.neighbours import said_around
from state.stores.crystals.supersessions import Supersessions
from state.stores.history.lineage import LineLife

# A crystal may be derived from others (an insight from turns), and those from others again.
_GENERATIONS = 3
# Rows of each list that are shown; `more` counts the others.
MOST = 100
NEIGHBOURS = 2
_CUT = 300

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A crystal that supports something else; a forgotten one has only its id.

    `sources` are file:lines@hash, or sessions; `parents` are ids of other evidence. `heard`: its agent had read a
    page ("web") or a tool's answer ("tool") since its owner's last word. `superseded_by` is the id of the crystal
    that holds now, `holds_now` its text, `superseded_at` since when, and `found_by` who said so.
    """

    id: str
    text: str = ""
    origin: str = ""
    trust: str = ""
    speaker: str = ""
    heard: str = ""
    at: datetime | None = None
    sources: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    superseded_by: str = ""
    holds_now: str = ""
    superseded_at: datetime | None = None
    found_by: str = ""


def evidence_by_id(store: Store, ids: Iterable[str], most: int | None = None) -> dict[str, Evidence]:
    """Return the crystals with these ids as evidence, without their sources; `most` limits each text."""
    wanted, shown = list(dict.fromkeys(ids)), store.shown
    known = {one.id: _evidence(shown, one, most) for one in store.crystals.get(wanted)}
    return {one: known.get(one, Evidence(one)) for one in wanted}


def _evidence(shown: Callable[[str], str], crystal: Crystal, most: int | None) -> Evidence:
    return Evidence(
        id=crystal.id,
        text=shown(crystal.text)[:most],
        origin=crystal.origin.value,
        trust=crystal.trust.value,
        speaker=shown(crystal.speaker),
        heard=crystal.heard,
        at=crystal.created_at,
        parents=crystal.parents,
    )


def evidence_of(store: Store, ids: Iterable[str]) -> tuple[Evidence, ...]:
    """Return the crystals with these ids, then those they were derived from, with sources and current values."""
    found, wanted = dict[str, Evidence](), list(ids)
    for _ in range(_GENERATIONS):
        brief = evidence_by_id(store, wanted)
        found |= {id_: one if one.at is None else _placed(store, one) for id_, one in brief.items()}
        wanted = [parent for one in brief.values() for parent in one.parents if parent not in found]
    return tuple(found.values())


def _placed(store: Store, evidence: Evidence) -> Evidence:
    """Add the sources of a crystal, and the current value that supersedes it."""
    crystals = store.crystals
    places = (
        str(one.source) if one.source else f"session {one.session}" if one.session else ""
        for one in crystals.sources(evidence.id)
    )
    evidence = replace(evidence, sources=tuple(dict.fromkeys(filter(None, places))))
    key = crystals.keys([evidence.id])[evidence.id]
    known = Supersessions(crystals).among([key])
    if (current := known.current.get(key)) is None:
        return evidence
    newer = crystals.by_keys([current])[current]
    last = [pair for pair in known.pairs if pair.newer == current][-1]
    return replace(
        evidence,
        superseded_by=newer.id,
        holds_now=store.shown(newer.text),
        superseded_at=last.at,
        found_by=last.cause.value,
    )


@dataclass(frozen=True, slots=True)
class OtherValue:
    """A crystal that supersedes another one: since when, on whose word, and who found it.

    `version` is that of the dream that found it. `undone_at`: when the owner took it back, else None.
    """

    crystal: Evidence
    cause: str
    trust: str
    at: datetime
    version: int | None
    undone_at: datetime | None


@dataclass(frozen=True, slots=True)
class Pointing:
    """A pointer that leads to the crystal, and whether it is still in MEMORY.md."""

    pointer: PointerLine
    standing: bool


@dataclass(frozen=True, slots=True)
class CrystalDetails:
    """A crystal with everything that is related to it.

    Lifecycle and `strength` are as of now; `fades_at` is None if it never fades. `superseded`: another value holds
    now. `superseded_by` and `supersedes` include pairs that the owner took back. `merged_into` is the canonical
    crystal of a duplicate, `merged_from` are the duplicates of a canonical one. `lines` cite the crystal, or became
    it (`crystal`). `before` and `after` are its neighbours in the session. `more`: how many each list leaves out.
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
    """Cuts lists, and counts the rows that it leaves out."""

    store: Store
    more: dict[str, int] = field(default_factory=dict)

    def first(self, name: str, rows: Sequence[RowT], count: int = 0) -> Sequence[RowT]:
        """Return the first rows of a list. `count`: its length, if these rows are not all."""
        if (left := max(count, len(rows)) - MOST) > 0:
            self.more[name] = left
        return rows[:MOST]

    def of(self, keys: Iterable[int]) -> tuple[Evidence, ...]:
        """Return the crystals of these rows as evidence, in this order."""
        wanted = list(keys)
        found, shown = self.store.crystals.by_keys(wanted), self.store.shown
        return tuple(_evidence(shown, found[key], _CUT) for key in dict.fromkeys(wanted) if key in found)


def details(store: Store, id_: str, now: datetime) -> CrystalDetails:
    """Return everything about the crystal whose id begins with `id_`. Raise as `_whole`."""
    listing, shown, lists = CrystalList(store.connection), store.shown, _Lists(store)
    crystal = _whole(store.crystals, listing, id_)
    row = listing.rows([crystal.id], now)[crystal.id]
    key, survivor = row.keys
    superseded, by, over = _values(key, survivor, lists)
    before, after = said_around(store.connection, key, NEIGHBOURS)
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
            for one in lists.first("occurrences", store.crystals.sources(row.id))
        ),
        parents=tuple(evidence_by_id(store, lists.first("parents", crystal.parents), _CUT).values()),
        children=lists.of(lists.first("children", listing.children(row.id))),
        superseded_by=by,
        supersedes=over,
        merged_into=next(iter(lists.of([survivor])), None) if survivor != key else None,
        merged_from=lists.of(lists.first("merged_from", listing.duplicates(key))),
        lines=tuple(
            replace(one, text=shown(one.text)[:_CUT])
            for one in lists.first("lines", *store.lineage.resting_on(row.id, MOST))
        ),
        pointers=tuple(
            Pointing(replace(one, topic=shown(one.topic), keywords=shown(one.keywords)), standing)
            for one, standing in lists.first("pointers", *store.lineage.pointers_to(row.id, MOST))
        ),
        before=lists.of(before),
        after=lists.of(after),
        more=lists.more,
    )


def _whole(crystals: Crystals, listing: CrystalList, id_: str) -> Crystal:
    """Return the crystal whose id begins with `id_`. Raise NotFoundError, and UsageError if several do."""
    found = listing.ids(id_, 2)
    if not found:
        raise NotFoundError(f"no crystal has an id that begins with {id_!r}", "'dreamd search' shows the ids")
    if len(found) > 1:
        raise UsageError(f"more than one crystal has an id that begins with {id_!r}", "give more of it")
    return crystals.get(found)[0]


def _values(key: int, survivor: int, lists: _Lists) -> tuple[bool, tuple[OtherValue, ...], tuple[OtherValue, ...]]:
    """Return whether the crystal is superseded, the values that supersede it, and those that it supersedes."""
    known = Supersessions(lists.store.crystals)
    values, mine = known.among({key, survivor}), {key, survivor}
    by, over = list[OtherValue](), list[OtherValue]()
    for pair, undone_at in (*((pair, None) for pair in values.pairs), *known.taken_back(key)):
        for end, other, found in ((pair.older, pair.newer, by), (pair.newer, pair.older, over)):
            if end in mine and other not in mine:
                rest = (pair.cause.value, pair.trust.value, pair.at, pair.version, undone_at)
                found += [OtherValue(one, *rest) for one in lists.of([other])]
    return (
        survivor in values.current,
        tuple(lists.first("superseded_by", by)),
        tuple(lists.first("supersedes", over)),
    )
