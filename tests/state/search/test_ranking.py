from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Crystal, Lifecycle, Origin
from state.search.ranking import (
    CONTEXT_WEIGHTS,
    GOOD,
    WEIGHTS,
    Signals,
    coverage,
    order,
    relevance,
    score,
    shares,
    unrelated,
    word_weight,
)
from state.signals.hormones import Hormones

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


def _texts(ranked: list[tuple[Crystal, float]]) -> list[str]:
    return [crystal.text for crystal, _ in ranked]


@given(SIGNALS, st.sampled_from(["cosine", "near", "beside", "session", "period"]))
def test_more_of_a_signal_is_never_less_relevant(signals: Signals, name: str) -> None:
    assert WEIGHTS[name] > 0
    fuller: dict[str, Any] = {name: 1.0}
    assert relevance(replace(signals, **fuller)) >= relevance(signals)


@given(SIGNALS)
def test_a_reply_matches_less_than_the_same_words_of_a_person(signals: Signals) -> None:
    assert relevance(replace(signals, reply=True)) <= relevance(replace(signals, reply=False))


@given(one=SIGNALS, other=SIGNALS, usual=st.none() | st.floats(-1, 1))
def test_a_score_is_likelihood_by_what_the_text_says_itself(
    one: Signals, other: Signals, usual: float | None
) -> None:
    assert 0 <= score(one, usual) <= 1
    elsewhere = replace(other, cosine=one.cosine, near=one.near)
    assert score(elsewhere, usual) == score(one, usual)


def test_a_rare_word_tells_more_than_a_common_one_and_all_together_tell_everything() -> None:
    rare, common, unknown = shares([1, 500, 0], 1_000)
    assert unknown > rare > common > 0
    assert rare + common + unknown == pytest.approx(1)


def test_a_word_counts_where_it_counts_most_and_only_once() -> None:
    ring = [(0b001, 1.0), (0b011, CONTEXT_WEIGHTS[-1]), (0b111, CONTEXT_WEIGHTS[2])]
    assert coverage([0.5, 0.3, 0.2], ring) == pytest.approx(
        0.5 + 0.3 * CONTEXT_WEIGHTS[-1] + 0.2 * CONTEXT_WEIGHTS[2]
    )


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


def test_a_text_close_in_meaning_and_words_is_a_good_answer_and_one_that_shares_a_word_is_none() -> None:
    assert score(Signals(cosine=0.45, near=0.4), usual=0.2) >= GOOD
    assert score(Signals(cosine=0.3, near=0.2), usual=0.2) < GOOD


def test_where_everything_looks_alike_a_text_must_be_closer() -> None:
    foreign = unrelated([0.62, 0.61, 0.6, 0.6, 0.6, *[0.57] * 20])
    assert foreign == pytest.approx(0.57)
    assert score(Signals(cosine=0.62, near=0.1), usual=foreign) < GOOD <= score(Signals(cosine=0.62, near=0.1), 0.2)
    assert unrelated([0.9]) == unrelated([]) == pytest.approx(0.2)


def test_of_equal_matches_the_newer_comes_first() -> None:
    assert _texts(order([(_crystal("old", age=9), 0.5), (_crystal("new"), 0.5)], NOW)) == ["new", "old"]


def test_dopamine_brings_the_important_one_of_a_near_tie_to_the_front() -> None:
    matches = [(_crystal("trifle", importance=0.0), 0.50), (_crystal("matter", importance=1.0), 0.49)]
    assert _texts(order(matches, NOW)) == ["trifle", "matter"]
    assert _texts(order(matches, NOW, _hormones(1.0, 0.0))) == ["matter", "trifle"]


def test_cortisol_brings_the_recent_one_of_a_near_tie_to_the_front() -> None:
    matches = [(_crystal("long ago", age=90), 0.50), (_crystal("just now", age=0), 0.48)]
    assert _texts(order(matches, NOW)) == ["long ago", "just now"]
    assert _texts(order(matches, NOW, _hormones(0.0, 1.0))) == ["just now", "long ago"]


@given(LEVELS, LEVELS, st.floats(0, 1), st.floats(0, 1), st.floats(0.2, 1))
def test_hormones_never_bury_a_clearly_better_match(
    dopamine: float, cortisol: float, importance: float, other: float, match: float
) -> None:
    better, worse = _crystal("better", age=900, importance=importance), _crystal("worse", age=0, importance=other)
    ranked = order([(worse, match / 1.2), (better, match)], NOW, _hormones(dopamine, cortisol))
    assert _texts(ranked) == ["better", "worse"]


def test_an_archived_crystal_stands_behind_a_live_one_that_matches_about_as_well() -> None:
    archived = _crystal("archived", age=400, fades=True)
    assert _texts(order([(archived, 0.5), (_crystal("live"), 0.48)], NOW)) == ["live", "archived"]
