"""Ranking: the order of search results, from their signals.

Meaning and words count most; what stands beside a text, who said it and when decide between close matches. The
weights are fitted over several corpora, each of which is left out in turn: `benchmarks/fit_search.py` prints them,
and what each signal is worth on each corpus. Refused, since they transfer to no other corpus: rank fusion (it loses
how much better the better one is), recency as a factor on everything (it buries the right answer about the past),
BM25 beside the nearness of words, pseudo-relevance feedback, parts of a question in the order of the whole (they only
bring in what is missing), dates, identifiers and quoted words as signals of their own, and windows of a long text.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter, itemgetter, mul
from typing import TYPE_CHECKING

from state.crystals.crystal import HALF_LIFE_DAYS, Crystal, Kind, Lifecycle, Origin, lifecycle
from state.trust import Trust

if TYPE_CHECKING:
    from state.signals.hormones import Hormones

# So many are asked of each index.
CANDIDATES = 75
# What a word counts that stands so many places after the text (another chunk of the same turn: 0). An answer stands
# after its question more often than before it.
CONTEXT_WEIGHTS: Mapping[int, float] = {-2: 0.4, -1: 0.7, 0: 0.7, 1: 0.5, 2: 0.3}

# What each of the `Signals` counts.
WEIGHTS = {
    "cosine": 1.0,
    "near": 0.64,
    "beside": 0.65,
    "session": 0.22,
    "speaker": 0.17,
    "period": 0.23,
    "reply": -0.29,
}
_FULL = sum(weight for weight in WEIGHTS.values() if weight > 0)
_WEIGHED = attrgetter(*WEIGHTS)
# Of what a text has itself, so much is taken for what would stand beside it, where nothing does: a note then counts
# like a turn of a conversation.
ALONE = 0.5
# score = 1 / (1 + e^(-STEEP (closeness - MIDDLE))): how often what is so close was an answer, in the corpora, each
# asked its own questions and another one's. Without an embedder the words stand in for the meaning.
STEEP = {True: 11.9, False: 6.3}
MIDDLE = {True: 0.44, False: 0.5}
GOOD = 0.5
# The chance that a result answers, which is the share of answers among results like it: a logistic regression on how
# far its relevance stands out of what else was looked at, in deviations of that; how far it stays behind the best;
# and its cosine, or without an embedder its words. Learnt from all ten corpora, as they are and in stores of thirty
# texts; `benchmarks/fit_search.py` has the former alone.
CHANCE = {
    True: {"start": -3.11, "out": 0.396, "behind": -7.18, "said": 1.51},
    False: {"start": -2.07, "out": 0.0, "behind": -7.22, "said": 2.63},
}
# A result of a smaller chance is near and unlikely: it is returned only when all are asked for. So is everything
# where no score reaches this, unless few texts are there at all; by words alone a low score tells nothing outside
# English. What holds half of the words that were asked for, a pointer's keywords or an identifier, is returned
# whatever its chance.
LIKELY = 0.03
ANSWERED = {True: 0.1, False: 0.0}
HELD = 0.5
# All but the best few matches are what else was looked at; so many texts of the usual relevance and deviation are
# counted with it, because a handful of texts has no deviation to speak of.
_BEST = 8
_SUPPOSED = (8, 0.25, 0.06)
# Of fewer texts no search can tell that none answers.
_ENOUGH = 20
# Of the cosine that unrelated texts of a store have with a query, so much is taken off: in languages that the
# embedding model does not know everything looks alike.
UNRELATED = 0.5
# The nearest by meaning but these few are taken for unrelated; of a store that has no others, this is their cosine.
_RELATED = 5
_USUAL = 0.2

# BM25's saturation and length normalisation. A text of up to so many characters counts in full: a turn or a note.
_K1 = 1.2
_B = 0.75
_SHORT = 200

IMPORTANCE_BOOST = 0.2
RECENCY_BOOST = 0.3
# Of the boosts, the share that may change the order: matches that differ by more than about a tenth keep theirs.
TIE_SHARE = 0.3

# An archived crystal counts for this much of its match.
FADED = 0.95
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
        """Return whether it passes, by what the crystal says of itself."""
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
    """One result of a search. `age_days` counts from the crystal's creation.

    `score` is the share of results like it, or one behind it, that answer a query, in [0, 1]; `superseded_by` is the
    crystal that gives its subject the value that holds now. `signals` is None for one that no index found, and that
    was brought in as a current value; `match` is their relevance, less for a duplicate.
    """

    crystal: Crystal
    score: float
    age_days: float
    superseded_by: Crystal | None = None
    signals: "Signals | None" = None
    match: float = 0.0


@dataclass(frozen=True, slots=True)
class Findings:
    """What a search found, best first.

    `good` is false when nothing is close enough to the query to answer it well: a candidate curiosity gap.
    `arms` names what was asked: "lexical", and "dense" when there was an embedder. `usual` is the cosine of
    `unrelated` texts, None without an embedder. So many results were `unlikely`, and are left out.
    """

    hits: tuple[Hit, ...]
    good: bool
    arms: tuple[str, ...]
    usual: float | None = None
    unlikely: int = 0


@dataclass(frozen=True, slots=True)
class Signals:
    """What is known of one candidate, each in [0, 1] but the cosines, which are about that, and on MiniLM's scale.

    `near` is how much of the query's words stands in or about it (`coverage`), `session` in its session; `beside` is
    the better cosine of its two neighbours; `reply` says that an agent's or a tool's words are no answer to a
    question about what a person said.
    """

    cosine: float = 0.0
    near: float = 0.0
    beside: float = 0.0
    session: float = 0.0
    speaker: bool = False
    period: float = 0.0
    reply: bool = False


def relevance(signals: Signals) -> float:
    """Return how well a candidate matches, in [0, 1]: the sum of its signals as a share of the most it can be."""
    total: float = sum(map(mul, WEIGHTS.values(), _WEIGHED(signals)))
    return min(1.0, max(0.0, total / _FULL))


def contributions(signals: Signals) -> tuple[tuple[str, float, float], ...]:
    """Return (name, value, share) of each signal: what it adds to the relevance, or takes off."""
    values: tuple[float, ...] = tuple(map(float, _WEIGHED(signals)))
    return tuple(
        (name, value, weight * value / _FULL) for (name, weight), value in zip(WEIGHTS.items(), values, strict=True)
    )


def unrelated(cosines: Iterable[float]) -> float:
    """Return the mean cosine of what a search looks at and is not near to the query in meaning."""
    others = sorted(cosines, reverse=True)[_RELATED : _RELATED + CANDIDATES]
    return math.fsum(others) / len(others) if others else _USUAL


@dataclass(frozen=True, slots=True)
class Looked:
    """What a search looked at: the best relevance, and mean and deviation of those that are not among the best.

    `few`: too little to tell from it that nothing answers.
    """

    best: float
    mean: float
    deviation: float
    few: bool

    @classmethod
    def at(cls, matches: Iterable[float]) -> "Looked":
        """Summarise these relevances, each in [0, 1]."""
        ordered = sorted(matches, reverse=True)
        (count, usual, spread), others = _SUPPOSED, ordered[_BEST:CANDIDATES]
        mean = (math.fsum(others) + count * usual) / (len(others) + count)
        squares = math.fsum((one - mean) ** 2 for one in others) + count * spread**2
        deviation = math.sqrt(squares / (len(others) + count))
        return cls(max(ordered, default=0.0), mean, deviation, len(ordered) < _ENOUGH)

    def chance(self, match: float, signals: Signals, *, by_meaning: bool) -> float:
        """Return the chance that a result of this relevance answers, in (0, 1)."""
        weights, said = CHANCE[by_meaning], signals.cosine if by_meaning else signals.near
        out, behind = (match - self.mean) / self.deviation, max(0.0, self.best - match)
        total = weights["start"] + weights["out"] * out + weights["behind"] * behind + weights["said"] * said
        return 1.0 / (1.0 + math.exp(-total))


def score(signals: Signals, usual: float | None) -> float:
    """Return how close the text is to answering, in [0, 1], by what it says itself: the same for note and turn.

    `usual` is the cosine of `unrelated` texts; None: there was no embedder.
    """
    by_meaning = usual is not None
    closeness = signals.cosine + WEIGHTS["near"] * signals.near - UNRELATED * (usual or 0.0)
    return 1.0 / (1.0 + math.exp(-STEEP[by_meaning] * (closeness - MIDDLE[by_meaning])))


def shares(counts: Sequence[int], total: int) -> list[float]:
    """Return what each word of a query tells as a share of them all: its rarity, BM25's inverse document frequency.

    `counts` says in how many of `total` texts each stands. One that stands nowhere has its share: it was not found.
    """
    rarities = [math.log(1.0 + (max(total, count) - count + 0.5) / (count + 0.5)) for count in counts]
    whole = sum(rarities)
    return [one / whole for one in rarities]


def nearby_weight(length: int) -> float:
    """Return the weight of a word in a neighbour of this length, in (0, 1]: a long one holds words of many things."""
    return min(1.0, _SHORT / max(1, length))


def word_weight(length: int, covered: float) -> float:
    """Return the weight of a matched word in (0, 1]: by BM25, relaxed as the text covers more of the query.

    A long text holds some words of any query by chance, but hardly all of them.
    """
    by_length = (1.0 + _K1) / (1.0 + _K1 * (1.0 - _B + _B * max(1.0, length / _SHORT)))
    return by_length + (1.0 - by_length) * covered**3


def coverage(shares: Sequence[float], window: Sequence[tuple[int, float]]) -> float:
    """Return the share of the query's words in a window of neighbouring texts, in [0, 1].

    `window` is (matching words, weight of a word there); bit i of the matching words stands for the word of
    shares[i]. Of several places of a word the one where it counts most counts.
    """
    if not window:
        return 0.0
    seen, found = 0, 0.0
    for matching, factor in sorted(window, key=itemgetter(1), reverse=True):
        new = matching & ~seen
        seen |= new
        while new:
            lowest = new & -new
            found += factor * shares[lowest.bit_length() - 1]
            new ^= lowest
    return found


def age_days(crystal: Crystal, now: datetime) -> float:
    """Return the days since the crystal's creation; a clock set back counts as 0."""
    return max(0.0, (now - crystal.created_at).total_seconds() / _DAY_SECONDS)


def lift(crystal: Crystal, hormones: "Hormones | None", now: datetime) -> float:
    """Return the factor by which the hormones move a crystal's match, in [1, 1.17].

    They favour it by (1 + 0.2 dopamine * importance) * (1 + 0.3 cortisol * 2^(-age / 16 d)), of which a share counts.
    """
    if hormones is None:
        return 1.0
    fresh = math.pow(2.0, -age_days(crystal, now) / HALF_LIFE_DAYS)
    by_importance = 1.0 + IMPORTANCE_BOOST * hormones.dopamine * crystal.importance
    return 1.0 + (by_importance * (1.0 + RECENCY_BOOST * hormones.cortisol * fresh) - 1.0) * TIE_SHARE


def fading(crystal: Crystal, now: datetime) -> float:
    """Return the factor by which having faded moves a crystal's match."""
    return FADED if lifecycle(crystal, now) is Lifecycle.ARCHIVED else 1.0


def order(
    matches: Iterable[tuple[Crystal, float]], now: datetime, hormones: "Hormones | None" = None
) -> list[tuple[Crystal, float]]:
    """Return (crystal, score), first the best: by relevance, in near ties by what the hormones favour.

    Archived crystals stand after the live ones that match about as well, and before those that match clearly worse:
    a memory that has faded is still the answer when nothing else is. Of equal scores the newer comes first.
    """
    scored = [
        (crystal, min(1.0, match * lift(crystal, hormones, now) * fading(crystal, now))) for crystal, match in matches
    ]
    return sorted(scored, key=lambda pair: (-pair[1], -pair[0].created_at.timestamp(), pair[0].id))


def with_parts(whole: Sequence[Hit], parts: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """Return what a question found, the best first, with the best results of each of its parts.

    Up to three quarters of `limit` are the parts'. What the whole found stays where it is; what is brought in stands
    last, in the place of the last results that are not among a part's best.
    """
    each = limit * 3 // 4 // max(1, len(parts))
    wanted = {hit.crystal.id: hit for part in parts for hit in part[:each]}
    there = {hit.crystal.id for hit in whole}
    missing = [hit for id_, hit in wanted.items() if id_ not in there]
    others = [hit for hit in whole if hit.crystal.id not in wanted]
    gone = others[len(others) - max(0, len(whole) + len(missing) - limit) :]
    return [*(hit for hit in whole if hit not in gone), *missing]
