"""Updates among results: the newer value of a subject stands before the older one, unless the past is asked for."""

from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Crystal, Origin
from state.search.dates import Period
from state.search.updates import Wanted, are_near, in_order, wanted_by
from tests.support.cases import cases

CASES = cases(__file__)
NOW = datetime(2026, 3, 12, tzinfo=UTC)
# How many days ago each was said; the cat has nothing to do with the others.
OLD, NEW, CAT = 9, 1, 3
WANTED = {"now": Wanted(), "past": Wanted(past=True)} | {
    str(days): Wanted(periods=(Period(*days),)) for days in ((2026, 3, 5), (2026, 3, 12), (2026, 3), (2022,))
}


def found(days_ago: list[int], wanted: Wanted) -> list[int]:
    """The results in the order that is wanted; each but the cat supersedes those that were said before it."""
    crystals = [Crystal(str(days), Origin.SCRATCH, NOW - timedelta(days=days)) for days in days_ago]
    said = sorted((one for one in crystals if one.text != str(CAT)), key=lambda one: one.created_at)
    updates = sorted(combinations(said, 2), key=lambda pair: pair[1].created_at)
    return [int(one.text) for one in in_order(crystals, updates, wanted)]


@pytest.mark.parametrize("wanted", sorted(WANTED))
def test_the_value_that_is_wanted_stands_directly_before_the_other(wanted: str) -> None:
    first, second = (OLD, NEW) if wanted in ("past", "(2026, 3, 5)") else (NEW, OLD)
    assert found([second, CAT, first], WANTED[wanted]) == [first, second, CAT]
    assert found([first, CAT, second], WANTED[wanted]) == [first, CAT, second]
    assert found([second, first], WANTED[wanted]) == [first, second]


def crystal(text: str, origin: Origin = Origin.SCRATCH) -> Crystal:
    return Crystal(text, origin, NOW)


@pytest.mark.parametrize(
    ("text", "cosine", "near"),
    [
        ("The harbour crane lifts containers", 0.7, (True, False)),
        ("The harbour crane lifts containers", 0.75, (True, True)),
        ("The harbour crane lifts containers", 0.69, (False, False)),
        ("The staging database listens on port 6000 now", 0.5, (True, False)),
        ("The staging database listens on port 6000 now", 0.65, (True, True)),
        ("The staging database listens on port 6000 now", 0.49, (False, False)),
        ("", 0.69, (False, False)),
    ],
)
def test_texts_in_the_same_words_may_be_farther_apart_and_turns_must_be_closer(
    text: str, cosine: float, near: tuple[bool, bool]
) -> None:
    old = "The staging database listens on port 5433"
    found = [are_near(crystal(old), crystal(text, origin), cosine) for origin in (Origin.SCRATCH, Origin.SESSION)]
    assert tuple(found) == near


def test_of_two_values_that_replace_the_same_one_the_later_stands_first() -> None:
    old, new, newest = (Crystal(str(days), Origin.SCRATCH, NOW - timedelta(days=days)) for days in (9, 5, 1))
    assert in_order([old, new, newest], [(old, new), (old, newest)], Wanted()) == [newest, new, old]


@given(st.lists(st.integers(0, 30), max_size=8, unique=True), st.sampled_from(sorted(WANTED)))
def test_nothing_is_left_out_or_doubled(days_ago: list[int], wanted: str) -> None:
    assert sorted(found(days_ago, WANTED[wanted])) == sorted(days_ago)


@pytest.mark.parametrize(("question", "past"), CASES["a_question_says_which_value_it_wants"])
def test_a_question_says_which_value_it_wants(question: str, past: bool) -> None:  # noqa: FBT001
    assert wanted_by(question).past is past
    assert wanted_by(question, (Period(2026),)) == Wanted(periods=(Period(2026),))
