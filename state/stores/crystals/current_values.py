"""Current values: the results of a search with what supersedes them, and in the order that the question wants."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from state.crystals.crystal import Crystal
from state.crystals.duplicates import comparable
from state.crystals.supersession import Supersession, one_value_each, sureness_of
from state.search.ranking import Filters
from state.search.updates import ALIKE, Ranked, Update, Wanted, in_order
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.supersessions import Supersessions, Values
from state.text.identity import SAME, UPDATE, compare
from state.text.words import content_terms

# The first results, which anybody reads. What waits to be compared is compared with these alone.
LOOKED_AT = 16
NEAR = 0.5
NEARLY = 0.75
FAR = 0.4
COMMON_WORDS = 2
_LISTED = "IN (SELECT value FROM json_each(?))"


class CurrentValues:
    """What supersedes what among the crystals of one workspace, for a search. Reads only."""

    def __init__(self, crystals: Crystals) -> None:
        self._crystals = crystals
        self._supersessions = Supersessions(crystals)

    def in_order(
        self,
        ranked: Sequence[tuple[Crystal, float]],
        keys: Mapping[str, int],
        wanted: Wanted,
        filters: Filters,
        words: Iterable[str] = (),
    ) -> list[Ranked]:
        """The results in the order that is wanted, joined by the current values of those that are superseded.

        `words` are the content words of the question.

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
            Update(every[pair.older], every[pair.newer], pair.sureness >= UPDATE)
            for pair in known.pairs
            if {pair.older, pair.newer} <= every.keys()
        ]
        current = {shown[key].id: every[now] for key, now in known.current.items() if key in shown and now in every}
        cosines = self._crystals.vectors.between(list(shown)[:LOOKED_AT])
        for pair in self._not_compared(shown, cosines):
            updates.append(Update(shown[pair.older], shown[pair.newer], pair.sureness >= UPDATE))
            if pair.sureness >= UPDATE:
                current.setdefault(shown[pair.older].id, shown[pair.newer])
        updates += _close(shown, cosines, scores, frozenset(words))
        return in_order(joined, updates, current, wanted)

    @staticmethod
    def _missing(
        known: Values,
        shown: Mapping[int, Crystal],
        passing: Mapping[int, Crystal],
        wanted: Wanted,
        scores: Mapping[str, float],
    ) -> dict[int, float]:
        """The values that were not found and belong beside one that was, with its score."""
        every = {**passing, **shown}
        asked = [
            (now, old)
            for old, now in known.current.items()
            if {now, old} <= every.keys() and wanted.is_newer(every[old], every[now])
        ]
        asked += [
            (pair.older, pair.newer)
            for pair in known.pairs
            if pair.sureness >= UPDATE
            and {pair.older, pair.newer} <= every.keys()
            and not wanted.is_newer(every[pair.older], every[pair.newer])
        ]
        missing: dict[int, float] = {}
        for key, beside in asked:
            if key in passing and beside in shown:
                missing[key] = max(missing.get(key, 0.0), scores[shown[beside].id])
        return missing

    def _not_compared(
        self, shown: Mapping[int, Crystal], cosines: Mapping[tuple[int, int], float]
    ) -> list[Supersession]:
        """What is superseded among the first results, of which one waits to be compared; by the time of the newer."""
        first = dict(list(shown.items())[:LOOKED_AT])
        waiting = self._waiting(first)
        if not waiting:
            return []
        found = []
        for older, newer in combinations(sorted(first, key=lambda key: (first[key].created_at, key)), 2):
            cosine = cosines.get((older, newer))
            if waiting.isdisjoint((older, newer)) or not _is_near(first[older], first[newer], cosine):
                continue
            if first[older].created_at == first[newer].created_at:
                continue  # of what was said at the same time nothing is newer
            if sureness := sureness_of(first[older], first[newer], cosine):
                found.append(Supersession.found(older, newer, sureness, first[newer]))
        return sorted(one_value_each(found), key=lambda pair: (pair.at, pair.newer))

    def _waiting(self, keys: Mapping[int, Crystal]) -> set[int]:
        """Which of these rows no pass has compared with what is nearest to them yet."""
        listed = json.dumps(list(keys))
        rows = self._crystals.connection.execute(
            f"SELECT crystal FROM to_compare WHERE crystal {_LISTED} UNION SELECT crystal FROM to_embed"
            f" WHERE crystal {_LISTED}",
            (listed, listed),
        )
        return {int(row[0]) for row in rows}


def _close(
    shown: Mapping[int, Crystal],
    cosines: Mapping[tuple[int, int], float],
    scores: Mapping[str, float],
    words: frozenset[str],
) -> list[Update]:
    """Results of which the newer one may hold rather than the older one, by how they answer the question.

    It answers nearly as well and is close in meaning; or it tells of a change, and has half of the question's words
    that the older one has. Not one that says the same, nor one that is about another subject, unless it has every one
    of these words.
    """
    first = sorted(list(shown.items())[:LOOKED_AT], key=lambda pair: (pair[1].created_at, pair[0]))
    found = []
    for (older, before), (newer, after) in combinations(first, 2):
        cosine = cosines.get((older, newer), 0.0)
        worse, better = sorted((scores[before.id], scores[after.id]))
        if cosine < FAR or worse < ALIKE * better or not comparable(before, after):
            continue
        compared = compare(before.text, after.text, cosine)
        asked = words & content_terms(before.text)
        answered = asked & content_terms(after.text)
        alike = cosine >= NEAR and worse >= NEARLY * better and (not compared.apart or (asked and asked == answered))
        told = compared.tells and not compared.apart and asked and 2 * len(answered) >= len(asked)
        if compared.same < SAME and (alike or told):
            found.append(Update(before, after, sure=False))
    return found


def _is_near(one: Crystal, other: Crystal, cosine: float | None) -> bool:
    if cosine is not None:
        return cosine >= NEAR
    return len(content_terms(one.text) & content_terms(other.text)) >= COMMON_WORDS
