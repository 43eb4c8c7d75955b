"""Crystal details: where a crystal was said, what it was made of and superseded by, and what rests on it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from daemon.workspace.redaction import shown_of
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, strength
from state.crystals.supersession import Supersession
from state.errors import NotFoundError, UsageError
from state.stores.crystals.listing import CrystalList
from state.stores.crystals.supersessions import Supersessions
from state.trust import Trust

# Of each list so many are told; `more` says how many there are beside them.
MOST = 100
NEIGHBOURS = 2
_CUT = 300


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


def details(store: Store, id_: str, now: datetime) -> CrystalDetails:
    """Return all about the crystal whose id begins so. Raise NotFoundError, and UsageError if several do."""
    about = _About(store, CrystalList(store.crystals.connection), _whole(store, id_), now)
    crystal, row, shown = about.crystal, about.row, about.shown
    superseded_by, supersedes = about.other_values()
    before, after = about.listing.beside(row.place.key, NEIGHBOURS)
    return CrystalDetails(
        id=row.id,
        text=shown(crystal.text),
        context=shown(crystal.context),
        origin=row.origin,
        kind=row.kind,
        trust=about.trust_in(crystal.trust),
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
        has_vector=about.listing.has_vector(row.place.key),
        superseded=about.survivor in about.values.current,
        occurrences=about.occurrences(),
        parents=about.parents(),
        children=about.counted("children", about.listing.children(row.id, MOST)),
        superseded_by=superseded_by,
        supersedes=supersedes,
        merged_into=next(iter(about.named([row.survivor])), None) if row.survivor else None,
        merged_from=about.counted("merged_from", about.listing.duplicates(row.place.key, MOST)),
        lines=about.lines(),
        pointers=about.pointers(),
        before=about.named(before),
        after=about.named(after),
        more=about.more,
    )


def _whole(store: Store, id_: str) -> Crystal:
    """Return the crystal whose id begins so. Raise NotFoundError and UsageError."""
    found = CrystalList(store.crystals.connection).ids(id_, 2)
    if not found:
        raise NotFoundError(f"no crystal has an id that begins with {id_!r}", "'dreamd search' shows the ids")
    if len(found) > 1:
        raise UsageError(f"more than one crystal has an id that begins with {id_!r}", "give more of it")
    return store.crystals.get(found)[0]


class _About:
    """What a crystal has to do with others. `more` tells of the lists that were asked for how much they leave out."""

    def __init__(self, store: Store, listing: CrystalList, crystal: Crystal, now: datetime) -> None:
        self.listing, self.crystal = listing, crystal
        self.row = listing.rows([crystal.id], now)[crystal.id]
        self.survivor = self.row.survivor or self.row.place.key
        self.shown = shown_of(store)
        self.values = Supersessions(store.crystals).among({self.row.place.key, self.survivor})
        self.more: dict[str, int] = {}
        self._store = store

    def trust_in(self, trust: Trust) -> str:
        """Return how far this is trusted."""
        return trust.value

    def named(self, keys: Iterable[int]) -> tuple[CrystalName, ...]:
        """Return the crystals in these rows, in this order."""
        wanted = list(keys)
        found = self._store.crystals.by_keys(wanted)
        return tuple(self._name(found[key]) for key in wanted if key in found)

    def counted(self, name: str, found: tuple[Sequence[int], int]) -> tuple[CrystalName, ...]:
        """Return the crystals in the first rows of a list of so many."""
        self._count(name, found[1])
        return self.named(found[0])

    def parents(self) -> tuple[CrystalName, ...]:
        """Return the crystals that it was made of."""
        ids = self.crystal.parents[:MOST]
        self._count("parents", len(self.crystal.parents))
        found = {one.id: self._name(one) for one in self._store.crystals.get(ids)}
        return tuple(found.get(id_, CrystalName(id_, "")) for id_ in ids)

    def occurrences(self) -> tuple[SaidAt, ...]:
        """Return the places where its text was met, the oldest first."""
        found, count = self.listing.occurrences(self.row.place.key, MOST)
        self._count("occurrences", count)
        return tuple(SaidAt(str(one.source or ""), self.shown(one.session), one.position, one.at) for one in found)

    def other_values(self) -> tuple[tuple[OtherValue, ...], tuple[OtherValue, ...]]:
        """Return what supersedes it, and what it supersedes."""
        live = [(pair, None) for pair in self.values.pairs]
        undone = Supersessions(self._store.crystals).taken_back(self.row.place.key)
        by, over = list[OtherValue](), list[OtherValue]()
        mine = {self.row.place.key, self.survivor}
        for pair, undone_at in (*live, *undone):
            for end, other, found in ((pair.older, pair.newer, by), (pair.newer, pair.older, over)):
                if end in mine and other not in mine:
                    found += [self._value(pair, name, undone_at) for name in self.named([other])]
        self._count("superseded_by", len(by))
        self._count("supersedes", len(over))
        return tuple(by[:MOST]), tuple(over[:MOST])

    def lines(self) -> tuple[RestingLine, ...]:
        """Return the lines of MEMORY.md that rest on it, standing ones first."""
        found, count = self._store.lineage.resting_on(self.row.id, MOST)
        self._count("lines", count)
        return tuple(
            RestingLine(
                id=line.id,
                section=line.section.value,
                text=self.shown(line.text)[:_CUT],
                standing=line.died_in is None,
                became=line.crystal == self.row.id,
                born_in=line.born_in,
                died_in=line.died_in,
                fate=line.fate,
            )
            for line in found
        )

    def pointers(self) -> tuple[PointerTo, ...]:
        """Return the pointers that lead to it, standing ones first."""
        found, count = self._store.lineage.pointers_to(self.row.id, MOST)
        self._count("pointers", count)
        return tuple(
            PointerTo(self.shown(one.topic), self.shown(one.keywords), standing, one.uses) for one, standing in found
        )

    def _count(self, name: str, count: int) -> None:
        if count > MOST:
            self.more[name] = count - MOST

    def _name(self, crystal: Crystal) -> CrystalName:
        speaker = self.shown(crystal.speaker)
        text = self.shown(crystal.text)[:_CUT]
        return CrystalName(crystal.id, text, crystal.origin.value, speaker, crystal.created_at)

    def _value(self, pair: Supersession, crystal: CrystalName, undone_at: datetime | None) -> OtherValue:
        return OtherValue(
            crystal=crystal,
            cause=pair.cause.value,
            trust=self.trust_in(pair.trust),
            at=pair.at,
            version=pair.version,
            undone_at=undone_at,
        )
