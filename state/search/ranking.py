"""Ranking: the order of search results, from their signals.

Dense and lexical match count alike; what stands beside a text, who said it and when decide between close matches.
The weights are round numbers, chosen by hand; `benchmarks/retrieval.py` prints what each signal is worth to questions
about conversations. `own` is worth nothing to those: it is there for queries of plain words and for long texts.
Refused: rank fusion (it loses how much better the better one is), recency as a factor on everything (it buries
the right answer about the past), and pseudo-relevance feedback and diversity re-ranking (they gain nothing).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from state.crystals.crystal import HALF_LIFE_DAYS, Crystal, Kind, Lifecycle, Origin, lifecycle
from state.trust import Trust

if TYPE_CHECKING:
    from state.signals.hormones import Hormones

# What a word counts that stands so many places after the text (another chunk of the same turn: 0). An answer stands
# after its question more often than before it.
CONTEXT_WEIGHTS: Mapping[int, float] = {-2: 0.4, -1: 0.7, 0: 0.7, 1: 0.5, 2: 0.3}

# What each of the `Signals` counts.
WEIGHTS = {
    "cosine": 1.0,
    "near": 0.7,
    "own": 0.7,
    "session": 0.35,
    "before": 0.2,
    "after": 0.15,
    "speaker": 0.25,
    "period": 0.3,
    "tells_time": 0.2,
    "asks": -0.15,
}
_FULL = sum(weight for weight in WEIGHTS.values() if weight > 0)

# BM25's saturation and length normalisation. A text of up to so many characters counts in full: a turn or a note.
K1 = 1.2
_B = 0.75
_SHORT = 200

IMPORTANCE_BOOST = 0.2
RECENCY_BOOST = 0.3
# Of the boosts, the share that may change the order: matches that differ by more than about a tenth keep theirs.
TIE_SHARE = 0.3

# Below these nothing answers the query. Of the questions of LoCoMo, 96 % are above in their own conversation and 7 %
# in another; with words alone 83 % and 1 %.
GOOD_MATCH = 0.7  # cosine and nearness of words together
GOOD_WORDS = 0.5  # nearness of words, where there is no embedder
# An archived crystal counts for this much of its match.
FADED = 0.9
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Filters:
    """What a search may return; None lets everything pass. `trust` is the least that is wanted.

    `since` is included, `until` is not.
    """

    origin: Origin | None = None
    kind: Kind | None = None
    session: str | None = None
    speaker: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    trust: Trust | None = None

    def let(self, crystal: Crystal) -> bool:
        """Whether it passes, by what the crystal says of itself."""
        return (
            self.origin in (None, crystal.origin)
            and self.kind in (None, crystal.kind)
            and self.session in (None, crystal.session)
            and self.speaker in (None, crystal.speaker)
            and (self.since is None or crystal.created_at >= self.since)
            and (self.until is None or crystal.created_at < self.until)
            and (self.trust is None or crystal.trust.rank >= self.trust.rank)
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search. `score` is in [0, 1], `age_days` counts from the crystal's creation.

    `superseded_by` is the crystal that gives its subject the value that holds now.
    """

    crystal: Crystal
    score: float
    age_days: float
    superseded_by: Crystal | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """What a search found, best first.

    `good` is false when nothing answers the query well: a candidate curiosity gap. `arms` names what was asked:
    "lexical", and "dense" when there was an embedder.
    """

    hits: tuple[Hit, ...]
    good: bool
    arms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Signals:
    """What is known of one candidate, each in [0, 1] but the cosines, which are in [-1, 1].

    `near` is how much of the query's words stands in or about it (`coverage`), `own` its BM25 as a share of the
    most that the words can give; `before` and `after` are the cosines of its neighbours.
    """

    cosine: float = 0.0
    near: float = 0.0
    own: float = 0.0
    session: float = 0.0
    before: float = 0.0
    after: float = 0.0
    speaker: bool = False
    period: float = 0.0
    tells_time: bool = False
    asks: bool = False


def relevance(signals: Signals) -> float:
    """How well a candidate answers the query, in [0, 1]."""
    total = sum(weight * float(getattr(signals, name)) for name, weight in WEIGHTS.items())
    return min(1.0, max(0.0, total / _FULL))


def is_good(candidates: Iterable[Signals], arms: Collection[str]) -> bool:
    """Does any candidate match well enough to count as an answer? `arms` are those of `Findings`."""
    if "dense" in arms:
        return any(signals.cosine + signals.near >= GOOD_MATCH for signals in candidates)
    return any(signals.near >= GOOD_WORDS for signals in candidates)


def rarity(count: int, total: int) -> float:
    """What a word tells that stands in `count` of `total` texts: BM25's inverse document frequency, above 0."""
    return math.log(1.0 + (max(total, count) - count + 0.5) / (count + 0.5))


def shares(counts: Sequence[int], total: int) -> list[float]:
    """The rarity of each word of a query as a share of them all.

    A word that stands nowhere has its share: it is what was not found.
    """
    rarities = [rarity(count, total) for count in counts]
    whole = sum(rarities)
    return [one / whole for one in rarities]


def word_weight(length: int, covered: float) -> float:
    """Weight of a matched word in (0, 1]: BM25 length normalisation, relaxed as the text covers more of the query.

    A long text holds some words of any query by chance, but hardly all of them.
    """
    by_length = (1.0 + K1) / (1.0 + K1 * (1.0 - _B + _B * max(1.0, length / _SHORT)))
    return by_length + (1.0 - by_length) * covered**3


def coverage(shares: Sequence[float], window: Iterable[tuple[int, float]]) -> float:
    """Share of the query's words in a window of neighbouring texts, in [0, 1].

    `window` is (matching words, weight of a word there); bit i of the matching words stands for the word of
    shares[i]. Of several places of a word the one where it counts most counts.
    """
    seen, found = 0, 0.0
    for matching, factor in sorted(window, key=lambda place: -place[1]):
        new = matching & ~seen
        seen |= new
        while new:
            found += factor * shares[(new & -new).bit_length() - 1]
            new &= new - 1
    return found


def boost(crystal: Crystal, hormones: "Hormones", now: datetime) -> float:
    """By how much the hormones favour a crystal, in [1, 1.56].

    (1 + 0.2 dopamine * importance) * (1 + 0.3 cortisol * 2^(-age / 16 d)).
    """
    fresh = math.pow(2.0, -age_days(crystal, now) / HALF_LIFE_DAYS)
    by_importance = 1.0 + IMPORTANCE_BOOST * hormones.dopamine * crystal.importance
    return by_importance * (1.0 + RECENCY_BOOST * hormones.cortisol * fresh)


def age_days(crystal: Crystal, now: datetime) -> float:
    """Days since the crystal's creation; a clock set back counts as 0."""
    return max(0.0, (now - crystal.created_at).total_seconds() / _DAY_SECONDS)


def order(
    matches: Iterable[tuple[Crystal, float]], now: datetime, hormones: "Hormones | None" = None
) -> list[tuple[Crystal, float]]:
    """(crystal, score), first the best: by relevance, in near ties by what the hormones favour.

    Archived crystals stand after the live ones that match about as well, and before those that match clearly worse:
    a memory that has faded is still the answer when nothing else is. Of equal scores the newer comes first.
    """
    scored = []
    for crystal, match in matches:
        lift = 1.0 + (boost(crystal, hormones, now) - 1.0) * TIE_SHARE if hormones else 1.0
        faded = FADED if lifecycle(crystal, now) is Lifecycle.ARCHIVED else 1.0
        scored.append((crystal, min(1.0, match * lift * faded)))
    return sorted(scored, key=lambda pair: (-pair[1], -pair[0].created_at.timestamp(), pair[0].id))
