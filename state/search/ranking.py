"""Ranking: the order of search results, from their signals.

Meaning and words count most; context, speaker and date decide between close matches. The weights are fitted on
several corpora, leaving out each in turn: `benchmarks/fit_search.py` prints them, and what each signal gains on each
corpus. Rejected, because they did not transfer to other corpora: rank fusion (it loses how much better one match is),
recency as a factor on everything (it buries the right answer about the past), BM25 beside word proximity,
pseudo-relevance feedback, ranking the parts of a question like the whole (they only add what is missing), separate
signals for dates, identifiers and quoted words, and windows of a long text.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter, itemgetter, mul
from typing import TYPE_CHECKING

from state.crystals.crystal import HALF_LIFE_DAYS, Crystal, Kind, Lifecycle, Origin, lifecycle
from state.trust import Trust

if TYPE_CHECKING:
    from state.signals.hormones import Hormones

# Candidates requested from each index.
CANDIDATES = 75
# Weight of a word in a neighbouring text, by offset from this text (0: another chunk of the same turn). An answer
# more often follows its question than precedes it.
CONTEXT_WEIGHTS: Mapping[int, float] = {-2: 0.4, -1: 0.7, 0: 0.7, 1: 0.5, 2: 0.3}

# The weight of each of the `Signals`.
WEIGHTS = {
    "cosine": 1.0,
    "near": 0.4,
    "beside": 0.55,
    "session": 0.18,
    "speaker": 0.15,
    "period": 0.18,
    "reply": -0.22,
    "instruction": 0.12,
}
# Of a text that is no instruction, the largest possible sum.
_FULL = sum(weight for name, weight in WEIGHTS.items() if weight > 0 and name != "instruction")
_WEIGHED = attrgetter(*WEIGHTS)
# A text without neighbours gets this share of its cosine in place of theirs, so that a note ranks like a turn of a
# conversation. In place of its session's words it gets nothing: what a note means tells more than its few words.
ALONE = 0.7
# score = 1 / (1 + e^(-STEEP (closeness - MIDDLE))): how often texts this close were answers, over all corpora, each
# searched with its own questions and another's. True: with an embedder; False: words stand in for meaning.
STEEP = {True: 16.7, False: 7.4}
MIDDLE = {True: 0.34, False: 0.43}
GOOD = 0.5
# The chance that a result answers: a logistic regression on how many deviations its relevance lies above the other
# candidates (`out`), how far it is behind the best (`behind`), its cosine, or its words without an embedder (`said`),
# and on how many texts the store has (`size`, the decimal logarithm, from 10 to 1,000): of eight results, a store of
# thirty texts has more that answer than one of six hundred. Left out, each corpus of conversations is off by .03 to
# .07; without the size by up to .11.
CHANCE = {
    True: {"start": 0.258, "out": 0.508, "behind": -11.0, "said": 0.433, "size": -1.35},
    False: {"start": 0.315, "out": 0.0, "behind": -6.46, "said": 2.65, "size": -1.12},
}
_SIZES = (1.0, 3.0)
# A result with a smaller chance than LIKELY, or than CUT of the best one's, is returned only when all results are
# asked for. So is every result if no score reaches ANSWERED; by words alone a low score means nothing outside
# English, hence 0. A text with HELD of the words that were asked for, a pointer's keywords or an identifier, is
# returned whatever its chance. Over the six lives of the tests 3.6 of eight results are returned, and an answer for
# .84 of the questions; without a CUT 4.7 and .86, with .1 3.1 and .81, with .25 2.2 and .74. In the corpora a CUT of
# a half would take the answer from a quarter of the questions that have one, and an agent that is not told knows
# nothing of it.
LIKELY = 0.03
CUT = 0.07
ANSWERED = {True: 0.1, False: 0.0}
HELD = 0.5
# All candidates but the best few are the background. It is padded with this (count, mean, deviation) of typical
# relevance, because a handful of texts has no meaningful deviation.
_BEST = 8
_SUPPOSED = (8, 0.25, 0.06)
# Among fewer texts, no search can tell that none of them answers: the best is returned.
_ENOUGH = 10
# Share of the cosine of unrelated texts that is subtracted: in languages the embedding model does not know, all texts
# look alike.
UNRELATED = 0.5
# All but this many nearest texts count as unrelated; _USUAL is their cosine in a store that has no others.
_RELATED = 5
_USUAL = 0.2

# BM25's saturation and length normalisation. A text of up to _SHORT characters (a turn or a note) counts in full.
_K1 = 1.2
_B = 0.75
_SHORT = 200

IMPORTANCE_BOOST = 0.2
RECENCY_BOOST = 0.3
# Share of the boosts that may change the order: matches that differ by more than about a tenth keep theirs.
TIE_SHARE = 0.3

# An instruction that is no better than the best other candidate comes to at most this share of its relevance.
BELOW = 0.99
# Factor on the match of an archived crystal.
FADED = 0.95
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Filters:
    """What a search may return; None matches everything. `trust` is the minimum.

    `since` is inclusive, `until` exclusive.
    """

    origin: Origin | None = None
    kind: Kind | None = None
    session: str | None = None
    speaker: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    trust: Trust | None = None

    def let(self, crystal: Crystal) -> bool:
        """Return whether the crystal passes these filters."""
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
class Former:
    """A former wording of a line. A draft was replaced by the dream that wrote it, and was never in MEMORY.md."""

    text: str
    at: datetime
    is_draft: bool


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search. `age_days` counts from the crystal's creation.

    `score`, in [0, 1], is the share of results like it, or like one ranked after it, that answer a query.
    `superseded_by` is the crystal with the current value for the same subject, `later` a near text that was said
    after it. `line` is the id of the line of MEMORY.md that says it ("": none), `former` has what the line said
    before, and values that it supersedes, the latest first. `signals` is None for a current value that no index found
    but the search added. `match` is the relevance, reduced for a duplicate. `asks`: it is a note that only asks, or
    an open question of MEMORY.md.
    """

    crystal: Crystal
    score: float
    age_days: float
    superseded_by: Crystal | None = None
    signals: "Signals | None" = None
    match: float = 0.0
    line: str = ""
    former: tuple[Former, ...] = ()
    later: Crystal | None = None
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of a search, best first.

    `good` is false if nothing is close enough to answer the query well, which makes it a candidate curiosity gap.
    `arms` names the indexes: "lexical", "dense" with an embedder. `usual` is the cosine of `unrelated` texts; None
    without an embedder. `questions` are results that only ask, `unlikely` counts the results left out as unlikely,
    `over` those that were superseded or answered.
    """

    hits: tuple[Hit, ...]
    good: bool
    arms: tuple[str, ...]
    usual: float | None = None
    unlikely: int = 0
    questions: tuple[Hit, ...] = ()
    over: int = 0


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals of one candidate: each in [0, 1], the cosines only approximately, on the calibration's scale.

    `near` is the share of the query's words in the text and around it (`coverage`), `session` in its session;
    `beside` is the higher cosine of its two neighbours. `reply` marks words of an agent or tool, which do not answer
    a question about what a person said. `instruction` marks what a person told an agent to do whenever something is
    asked: it shares neither words nor meaning with the question at hand.
    """

    cosine: float = 0.0
    near: float = 0.0
    beside: float = 0.0
    session: float = 0.0
    speaker: bool = False
    period: float = 0.0
    reply: bool = False
    instruction: bool = False


def relevance(signals: Signals) -> float:
    """Return how well a candidate matches, in [0, 1]: its weighted sum of signals as a share of the maximum."""
    total: float = sum(map(mul, WEIGHTS.values(), _WEIGHED(signals)))
    return min(1.0, max(0.0, total / _FULL))


def matches_of(candidates: Mapping[int, Signals]) -> dict[int, float]:
    """Return the relevance of each candidate; no instruction takes the first place by being one."""
    plain = {
        key: relevance(replace(one, instruction=False) if one.instruction else one) for key, one in candidates.items()
    }
    best = max(plain.values(), default=0.0)
    return {
        key: max(plain[key], min(relevance(one), BELOW * best)) if one.instruction else plain[key]
        for key, one in candidates.items()
    }


def contributions(signals: Signals) -> tuple[tuple[str, float, float], ...]:
    """Return (name, value, share) of each signal; the share is what it adds to the relevance, or subtracts."""
    values: tuple[float, ...] = tuple(map(float, _WEIGHED(signals)))
    return tuple(
        (name, value, weight * value / _FULL) for (name, weight), value in zip(WEIGHTS.items(), values, strict=True)
    )


def unrelated(cosines: Iterable[float]) -> float:
    """Return the mean cosine of the candidates that are not close to the query in meaning."""
    others = sorted(cosines, reverse=True)[_RELATED : _RELATED + CANDIDATES]
    return math.fsum(others) / len(others) if others else _USUAL


@dataclass(frozen=True, slots=True)
class Looked:
    """What a search looked at: the best relevance, and mean and deviation of the candidates behind the best few.

    `few`: too few texts to tell that none answers; `size` is the logarithm of how many the store has, as in CHANCE.
    """

    best: float
    mean: float
    deviation: float
    few: bool
    size: float

    @classmethod
    def at(cls, matches: Iterable[float], texts: int) -> "Looked":
        """Summarise these relevances (in [0, 1]) of candidates among so many texts."""
        ordered = sorted(matches, reverse=True)
        (count, usual, spread), others = _SUPPOSED, ordered[_BEST:CANDIDATES]
        mean = (math.fsum(others) + count * usual) / (len(others) + count)
        squares = math.fsum((one - mean) ** 2 for one in others) + count * spread**2
        deviation = math.sqrt(squares / (len(others) + count))
        size = min(max(math.log10(max(1, texts)), _SIZES[0]), _SIZES[1])
        return cls(max(ordered, default=0.0), mean, deviation, len(ordered) < _ENOUGH, size)

    def chance(self, match: float, signals: Signals, *, by_meaning: bool) -> float:
        """Return the chance that a result of this relevance answers, in (0, 1)."""
        weights, said = CHANCE[by_meaning], signals.cosine if by_meaning else signals.near
        out, behind = (match - self.mean) / self.deviation, max(0.0, self.best - match)
        total = weights["start"] + weights["out"] * out + weights["behind"] * behind + weights["said"] * said
        total += weights["size"] * self.size
        return 1.0 / (1.0 + math.exp(-total))


def score(signals: Signals, usual: float | None) -> float:
    """Return how close a text is to answering, in [0, 1], by its own content alone: comparable for notes and turns.

    `usual` is the cosine of `unrelated` texts; None without an embedder.
    """
    by_meaning = usual is not None
    closeness = signals.cosine + WEIGHTS["near"] * signals.near - UNRELATED * (usual or 0.0)
    return 1.0 / (1.0 + math.exp(-STEEP[by_meaning] * (closeness - MIDDLE[by_meaning])))


def shares(counts: Sequence[int], total: int) -> list[float]:
    """Return each query word's share of the total rarity (BM25's inverse document frequency).

    `counts` says how many of `total` texts contain each word. A word in no text keeps its share: it was not found.
    """
    rarities = [math.log(1.0 + (max(total, count) - count + 0.5) / (count + 0.5)) for count in counts]
    whole = sum(rarities)
    return [one / whole for one in rarities]


def nearby_weight(length: int) -> float:
    """Return the weight of a word in a neighbour of this length, in (0, 1]: long neighbours cover many topics."""
    return min(1.0, _SHORT / max(1, length))


def word_weight(length: int, covered: float) -> float:
    """Return the weight of a matched word, in (0, 1]: BM25's, relaxed as the text covers more of the query.

    A long text contains some words of any query by chance, but hardly all of them.
    """
    by_length = (1.0 + _K1) / (1.0 + _K1 * (1.0 - _B + _B * max(1.0, length / _SHORT)))
    return by_length + (1.0 - by_length) * covered**3


def coverage(shares: Sequence[float], window: Sequence[tuple[int, float]]) -> float:
    """Return the share of the query's words in a window of neighbouring texts, in [0, 1].

    `window` has (matching words, weight of a word there); bit i of the matching words stands for the word of
    shares[i]. A word in several texts counts once, with its highest weight.
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
    """Return the days since the crystal's creation; 0 if the clock was set back."""
    return max(0.0, (now - crystal.created_at).total_seconds() / _DAY_SECONDS)


def lift(crystal: Crystal, hormones: "Hormones | None", now: datetime) -> float:
    """Return the factor by which hormones raise a crystal's match, in [1, 1.17].

    The boost is (1 + 0.2 dopamine * importance) * (1 + 0.3 cortisol * 2^(-age / 16 d)), of which TIE_SHARE counts.
    """
    if hormones is None:
        return 1.0
    fresh = math.pow(2.0, -age_days(crystal, now) / HALF_LIFE_DAYS)
    by_importance = 1.0 + IMPORTANCE_BOOST * hormones.dopamine * crystal.importance
    return 1.0 + (by_importance * (1.0 + RECENCY_BOOST * hormones.cortisol * fresh) - 1.0) * TIE_SHARE


def fading(crystal: Crystal, now: datetime) -> float:
    """Return the factor on a crystal's match for having faded."""
    return FADED if lifecycle(crystal, now) is Lifecycle.ARCHIVED else 1.0


def order(
    matches: Iterable[tuple[Crystal, float]], now: datetime, hormones: "Hormones | None" = None
) -> list[tuple[Crystal, float]]:
    """Return (crystal, score), best first: by relevance; the hormones decide near ties.

    Archived crystals follow live ones that match about as well, but precede clearly worse matches: a faded memory is
    still the answer if nothing else is. Of equal scores the newer comes first;
    of one moment, the one that arrived later. `matches` are in the order of their arrival.
    """
    scored = [
        (crystal, min(1.0, match * lift(crystal, hormones, now) * fading(crystal, now))) for crystal, match in matches
    ]
    return sorted(scored, key=lambda pair: (pair[1], pair[0].created_at))[::-1]


def with_parts(whole: Sequence[Hit], parts: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """Return the results of a question, best first, completed by the best results of each of its parts.

    The parts get up to three quarters of `limit`. Results of the whole question keep their order; results added for
    the parts come last and replace the last results that are not among any part's best.
    """
    each = limit * 3 // 4 // max(1, len(parts))
    wanted = {hit.crystal.id: hit for part in parts for hit in part[:each]}
    there = {hit.crystal.id for hit in whole}
    missing = [hit for id_, hit in wanted.items() if id_ not in there]
    others = [hit for hit in whole if hit.crystal.id not in wanted]
    gone = others[len(others) - max(0, len(whole) + len(missing) - limit) :]
    return [*(hit for hit in whole if hit not in gone), *missing]
