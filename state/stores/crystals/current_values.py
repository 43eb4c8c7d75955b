"""Current values: the results of a search with what supersedes them, and in the order that the question wants."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations

from state.crystals.crystal import Crystal
from state.search.ranking import Filters
from state.search.updates import Ranked, Update, Wanted, in_order
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.supersessions import Supersessions, Values

# Of two of the first results that are so near each other, and of which the worse one has so much of the better one's
# score, the one that was said later stands directly above.
LOOKED_AT = 16
NEAR = 0.6
NEARLY = 0.6


class CurrentValues:
    """What supersedes what among the crystals of one workspace, for a search. Reads only."""

    def __init__(self, crystals: Crystals) -> None:
        self._crystals = crystals
        self._supersessions = Supersessions(crystals)

    def in_order(
        self, ranked: Sequence[tuple[Crystal, float]], keys: Mapping[str, int], wanted: Wanted, filters: Filters
    ) -> list[Ranked]:
        """Return the results in the order that is wanted, joined by the current values of those that are superseded.

        Of what the filters leave out nothing is told, and "now" is the moment up to which they let crystals pass.
        """
        shown = {keys[crystal.id]: crystal for crystal, _ in ranked if crystal.id in keys}
        known = self._supersessions.among(shown, filters.until)
        named = {row for pair in known.pairs for row in (pair.older, pair.newer)} - shown.keys()
        passing = {key: crystal for key, crystal in self._crystals.by_keys(named).items() if filters.let(crystal)}
        every = shown | passing
        scores = {crystal.id: score for crystal, score in ranked}
        for key, score in self._missing(known, shown, passing, wanted, scores).items():
            scores[passing[key].id] = score
        crystals = [crystal for crystal, _ in ranked] + [one for one in passing.values() if one.id in scores]
        joined = sorted(((crystal, scores[crystal.id]) for crystal in crystals), key=lambda pair: -pair[1])
        updates = [
            Update(every[pair.older], every[pair.newer])
            for pair in known.pairs
            if {pair.older, pair.newer} <= every.keys()
        ]
        current = {shown[key].id: every[now] for key, now in known.current.items() if key in shown and now in every}
        told = {frozenset((pair.older, pair.newer)) for pair in known.pairs}
        near = [
            Update(shown[old], shown[new])
            for old, new in self._near(shown, scores, filters.until)
            if {old, new} not in told
        ]
        return in_order(joined, [*updates, *near], current, wanted)

    @staticmethod
    def _missing(
        known: Values,
        shown: Mapping[int, Crystal],
        passing: Mapping[int, Crystal],
        wanted: Wanted,
        scores: Mapping[str, float],
    ) -> dict[int, float]:
        """Return the values that were not found and belong beside one that was, with its score."""
        every = {**passing, **shown}
        asked = [
            (now, old)
            for old, now in known.current.items()
            if {now, old} <= every.keys() and wanted.is_newer(every[old], every[now])
        ]
        asked += [
            (pair.older, pair.newer)
            for pair in known.pairs
            if {pair.older, pair.newer} <= every.keys() and not wanted.is_newer(every[pair.older], every[pair.newer])
        ]
        missing: dict[int, float] = {}
        for key, beside in asked:
            if key in passing and beside in shown:
                missing[key] = max(missing.get(key, 0.0), scores[shown[beside].id])
        return missing

    def _near(
        self, shown: Mapping[int, Crystal], scores: Mapping[str, float], until: datetime | None
    ) -> Iterator[tuple[int, int]]:
        """Yield the pairs of results that are near each other and answer nearly as well, the earlier one first."""
        cosines = self._crystals.vectors.between(list(shown)[:LOOKED_AT])
        said = self._crystals.said_last({key for pair in cosines for key in pair}, until)
        for older, newer in combinations(sorted(said, key=lambda key: (said[key], key)), 2):
            worse, better = sorted((scores[shown[older].id], scores[shown[newer].id]))
            if said[older] < said[newer] and cosines[older, newer] >= NEAR and worse >= NEARLY * better:
                yield older, newer
