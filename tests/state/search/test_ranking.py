import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin
from state.search.ranking import (
    CONTEXT_WEIGHTS,
    GOOD,
    WEIGHTS,
    Filters,
    Hit,
    Looked,
    Signals,
    age_days,
    contributions,
    coverage,
    lift,
    nearby_weight,
    order,
    relevance,
    score,
    shares,
    unrelated,
    with_parts,
    word_weight,
)
from state.signals.hormones import Hormones
from state.trust import Trust

NOW = datetime(2026, 3, 12, tzinfo=UTC)
LEVELS = st.floats(0, 1)
SIGNALS = st.builds(
    Signals,
    cosine=st.floats(-1, 1),
    near=LEVELS,
    beside=st.floats(-1, 1),
    session=LEVELS,
    speaker=st.booleans(),
    period=st.sampled_from([0.0, 0.5, 1.0]),
    reply=st.booleans(),
)


def _crystal(text: str, *, age: float = 1, importance: float = 0.5, fades: bool = False) -> Crystal:
    at = NOW - timedelta(days=age)
    stage = Lifecycle.GENERATED if fades else Lifecycle.FROZEN
    return Crystal(text, Origin.SESSION, at, importance=importance, lifecycle=stage)


def _hormones(dopamine: float, cortisol: float) -> Hormones:
    return Hormones(dopamine, cortisol, 0.2, NOW)


TRIFLE, MATTER = (_crystal("trifle", importance=0.0), 0.50), (_crystal("matter", importance=1.0), 0.49)
LONG_AGO, JUST_NOW = (_crystal("then", age=90), 0.50), (_crystal("now", age=0), 0.48)


def _texts(ranked: list[tuple[Crystal, float]]) -> list[str]:
    return [crystal.text for crystal, _ in ranked]


EVERYTHING = Signals(1.0, 1.0, 1.0, 1.0, speaker=True, period=1.0)


def test_relevance_is_the_sum_of_what_each_signal_adds_from_nothing_to_everything() -> None:
    assert [relevance(one) for one in (Signals(), Signals(cosine=-1.0), EVERYTHING)] == [0.0, 0.0, 1.0]
    assert relevance(replace(EVERYTHING, cosine=2.0)) == 1.0
    half = Signals(0.5, 0.5, 0.5, 0.5, period=0.5, reply=True)
    added = contributions(half)
    assert [(name, value) for name, value, _ in added] == [
        *[(name, 0.5) for name in ("cosine", "near", "beside", "session")],
        ("speaker", 0.0),
        ("period", 0.5),
        ("reply", 1.0),
        ("instruction", 0.0),
    ]
    assert added[-2][2] < 0
    assert relevance(half) == pytest.approx(sum(share for *_, share in added))


@given(SIGNALS, SIGNALS, st.sampled_from(["cosine", "near", "beside", "session", "period"]), st.none() | LEVELS)
def test_more_of_a_signal_is_never_less_relevant_and_the_score_is_by_what_the_text_says_itself(
    signals: Signals, other: Signals, name: str, usual: float | None
) -> None:
    fuller: dict[str, Any] = {name: 1.0}
    assert WEIGHTS[name] > 0
    assert relevance(replace(signals, **fuller)) >= relevance(signals)
    assert relevance(replace(signals, reply=True)) <= relevance(replace(signals, reply=False))
    elsewhere = replace(other, cosine=signals.cosine, near=signals.near)
    assert 0 <= score(elsewhere, usual) == score(signals, usual) <= 1


def test_a_rare_word_tells_more_than_a_common_one_and_all_together_tell_everything() -> None:
    rare, common, unknown = shares([1, 500, 0], 1_000)
    assert unknown > rare > common > 0
    assert rare + common + unknown == pytest.approx(1)
    assert all(0 < shares([count, 1], 1_000)[0] < 1e-4 for count in (1_000, 1_002))
    # A word in 31 of 94 texts has ln 3 (1 + 63.5 / 31.5), one in all of them nearly nothing.
    assert shares([31, 94], 94)[0] == pytest.approx(math.log(95 / 31.5) / math.log(95 / 31.5 * 95 / 94.5))


def test_a_word_counts_where_it_counts_most_and_only_once() -> None:
    ring = [(0b001, 1.0), (0b011, CONTEXT_WEIGHTS[-1]), (0b111, CONTEXT_WEIGHTS[2])]
    assert coverage([0.5, 0.3, 0.2], ring) == pytest.approx(
        0.5 + 0.3 * CONTEXT_WEIGHTS[-1] + 0.2 * CONTEXT_WEIGHTS[2]
    )
    assert coverage([0.5, 0.3, 0.2], [(0b101, 0.5), (0b110, 0.4)]) == pytest.approx(0.5 * 0.7 + 0.4 * 0.3)


@given(st.lists(st.tuples(st.integers(0, 31), LEVELS), max_size=6))
def test_coverage_is_between_0_and_1_and_grows_with_the_ring(ring: list[tuple[int, float]]) -> None:
    told = shares([3, 1, 4, 1, 5], 9)
    ranked = sorted(ring, key=lambda pair: -pair[1])
    assert 0 <= coverage(told, ranked) <= 1 + 1e-9
    assert coverage(told, ranked) >= coverage(told, ranked[:-1])


def test_a_word_in_a_long_text_tells_less_unless_the_text_holds_the_whole_query() -> None:
    assert word_weight(20, 0.3) == word_weight(200, 0.3) == 1
    assert 0.2 < word_weight(1_600, 0.3) < word_weight(800, 0.3) < 1
    assert word_weight(1_600, 0.3) < word_weight(1_600, 0.9) < 1
    assert word_weight(10**6, 1.0) == 1
    assert [nearby_weight(length) for length in (0, 200, 400)] == [1, 1, 0.5]


def test_a_text_close_in_meaning_and_words_is_a_good_answer_and_one_that_shares_a_word_is_none() -> None:
    assert score(Signals(cosine=0.45, near=0.4), usual=0.2) >= GOOD
    assert score(Signals(cosine=0.3, near=0.2), usual=0.2) < GOOD
    by_words = [score(Signals(cosine=near, near=near), usual=None) for near in (0.0, 0.2, 0.4, 1.0)]
    assert by_words[0] < by_words[1] < GOOD < by_words[2] < by_words[3]
    assert by_words[0] < 0.05
    assert by_words[3] > 0.95


@given(st.lists(LEVELS, max_size=100), LEVELS, LEVELS, st.booleans())
def test_the_chance_falls_with_the_distance_from_the_best_and_few_texts_are_told(
    matches: list[float],
    match: float,
    said: float,
    by_meaning: bool,  # noqa: FBT001
) -> None:
    looked = Looked.at(matches, 100)
    assert (looked.best, looked.few) == (max(matches, default=0.0), len(matches) < 10)
    assert looked.deviation > 0
    signals = Signals(cosine=said, near=said)
    one, better = (looked.chance(m, signals, by_meaning=by_meaning) for m in (match / 2, match))
    assert 0 < one <= better < 1
    assert looked.chance(match, Signals(cosine=1.0, near=1.0), by_meaning=by_meaning) >= better


def _background(matches: list[float]) -> tuple[float, float]:
    looked = Looked.at(matches, 100)
    return looked.mean, looked.deviation


def test_of_a_larger_store_a_smaller_share_of_the_results_answers_within_bounds() -> None:
    sizes = [Looked.at([0.5], texts).size for texts in (0, 10, 100, 1_000, 10**6)]
    assert sizes == [1, 1, 2, 3, 3]
    chances = [Looked.at([0.5], texts).chance(0.5, Signals(0.5, 0.5), by_meaning=True) for texts in (10, 100, 1_000)]
    assert chances == sorted(chances, reverse=True)


def test_the_best_few_are_no_background_and_a_handful_is_padded() -> None:
    assert Looked.at([0.9] * 8, 100) == Looked.at([0.9, *[0.1] * 7], 100)
    assert _background([0.9] * 8) == pytest.approx((0.25, 0.06))
    assert _background([0.9] * 8 + [0.25] * 8) == pytest.approx((0.25, 0.06 / math.sqrt(2)))
    assert _background([*[0.9] * 8, *[0.4] * 67, *[0.0] * 900])[0] == pytest.approx((67 * 0.4 + 8 * 0.25) / 75)
    calm, meant = Looked(0.5, 0.2, 0.1, few=False, size=2.0), Signals(cosine=0.6, near=0.2)
    for by_meaning, total in (
        (True, 0.258 + 0.508 * 2 - 11.0 * 0.1 + 0.433 * 0.6 - 1.35 * 2),
        (False, 0.315 - 0.646 + 2.65 * 0.2 - 1.12 * 2),
    ):
        assert calm.chance(0.4, meant, by_meaning=by_meaning) == pytest.approx(1 / (1 + math.exp(-total)))


PASSING = replace(Crystal("x", Origin.SESSION, NOW, kind=Kind.GOAL, trust=Trust.AGENT), session="s", speaker="Mira")


@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        (Filters(), True),
        (Filters(Origin.SESSION, Kind.GOAL, "s", "Mira", NOW, NOW + timedelta(1), Trust.AGENT), True),
        (Filters(origin=Origin.SCRATCH), False),
        (Filters(kind=Kind.GENERAL), False),
        (Filters(session="t"), False),
        (Filters(speaker="Tom"), False),
        (Filters(since=NOW + timedelta(microseconds=1)), False),
        (Filters(until=NOW), False),
        (Filters(trust=Trust.TOOL), True),
        (Filters(trust=Trust.OWNER), False),
    ],
)
def test_what_passes_a_filter(filters: Filters, *, passes: bool) -> None:
    assert filters.let(PASSING) is passes


def test_age_counts_in_days_and_hormones_lift_what_matters_and_what_is_fresh() -> None:
    assert [age_days(_crystal("x", age=age), NOW) for age in (3.0, 0.5, -2.0)] == [3.0, 0.5, 0.0]
    matters = _crystal("x", age=16, importance=1.0)
    assert lift(matters, None, NOW) == 1.0
    assert lift(matters, _hormones(0.0, 0.0), NOW) == 1.0
    assert lift(matters, _hormones(1.0, 0.0), NOW) == pytest.approx(1 + 0.2 * 0.3)
    assert lift(matters, _hormones(0.0, 1.0), NOW) == pytest.approx(1 + 0.15 * 0.3)
    assert lift(matters, _hormones(1.0, 1.0), NOW) == pytest.approx(1 + (1.2 * 1.15 - 1) * 0.3)
    assert order([(_crystal("x", age=0, importance=1.0), 1.0)], NOW, _hormones(1.0, 1.0))[0][1] == 1.0


def test_where_everything_looks_alike_a_text_must_be_closer() -> None:
    foreign = unrelated([0.62, 0.61, 0.6, 0.6, 0.6, *[0.57] * 20])
    assert foreign == pytest.approx(0.57)
    assert score(Signals(cosine=0.55, near=0.1), usual=foreign) < GOOD <= score(Signals(cosine=0.55, near=0.1), 0.2)
    assert unrelated([0.9]) == unrelated([]) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("first", "second", "hormones", "order_of_texts"),
    [
        ((_crystal("old", age=9), 0.5), (_crystal("new"), 0.5), None, "new old"),
        (TRIFLE, MATTER, None, "trifle matter"),
        (TRIFLE, MATTER, _hormones(1.0, 0.0), "matter trifle"),
        (LONG_AGO, JUST_NOW, None, "then now"),
        (LONG_AGO, JUST_NOW, _hormones(0.0, 1.0), "now then"),
        ((_crystal("archived", age=400, fades=True), 0.5), (_crystal("live"), 0.48), None, "live archived"),
    ],
    ids=["equal", "calm", "dopamine", "calm again", "cortisol", "archived"],
)
def test_near_ties_are_decided_by_age_by_hormones_and_by_having_faded(
    first: tuple[Crystal, float], second: tuple[Crystal, float], hormones: Hormones | None, order_of_texts: str
) -> None:
    assert _texts(order([first, second], NOW, hormones)) == order_of_texts.split()


@given(LEVELS, LEVELS, st.floats(0, 1), st.floats(0, 1), st.floats(0.2, 1))
def test_hormones_never_bury_a_clearly_better_match(
    dopamine: float, cortisol: float, importance: float, other: float, match: float
) -> None:
    better, worse = _crystal("better", age=900, importance=importance), _crystal("worse", age=0, importance=other)
    ranked = order([(worse, match / 1.2), (better, match)], NOW, _hormones(dopamine, cortisol))
    assert _texts(ranked) == ["better", "worse"]


def test_of_each_of_two_parts_come_three_eighths_of_the_results() -> None:
    whole, first, second = RANKED[:8], RANKED[10:20], RANKED[20:30]
    assert with_parts(whole, [first, second], 8) == [*whole[:2], *first[:3], *second[:3]]
    assert with_parts(whole, [first], 8) == [*whole[:2], *first[:6]]


RANKED = [Hit(_crystal(f"text {number}"), score=0.5, age_days=1.0) for number in range(40)]
rankings = st.lists(st.sampled_from(RANKED), max_size=20, unique_by=lambda hit: hit.crystal.id)


@given(rankings, st.lists(rankings, min_size=2, max_size=2), st.integers(4, 20))
def test_the_best_of_each_part_is_among_the_results_and_the_first_places_stay(
    whole: list[Hit], parts: list[list[Hit]], limit: int
) -> None:
    found = with_parts(whole[:limit], parts, limit)
    assert len({hit.crystal.id for hit in found}) == len(found) <= limit
    assert all(part[0] in found for part in parts if part)
    assert found[: min(limit // 4, len(whole))] == whole[: limit // 4]
    kept = [hit for hit in whole[:limit] if hit in found]
    assert found[: len(kept)] == kept
    assert with_parts(whole[:limit], [], limit) == with_parts(whole[:limit], [whole], limit) == whole[:limit]
