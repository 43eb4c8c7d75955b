"""Updates among results: the newer value of a subject stands before the older one, unless the past is asked for."""

from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Crystal, Origin
from state.search.dates import Period
from state.search.updates import Update, Wanted, in_order, wanted_by
from tests.support.cases import cases

CASES = cases(__file__)

NOW = datetime(2026, 3, 12, tzinfo=UTC)
NOW_WANTED = Wanted()
OLD, NEW = "The staging database runs on port 5433.", "We moved the staging database to port 6000."


def note(text: str, days_ago: float) -> Crystal:
    return Crystal(text=text, origin=Origin.SCRATCH, created_at=NOW - timedelta(days=days_ago))


def updates_of(crystals: list[Crystal]) -> tuple[list[Update], dict[str, Crystal]]:
    """Of the database or of the desk each crystal supersedes those before it."""
    said = sorted((one for one in crystals if "cat" not in one.text), key=lambda crystal: crystal.created_at)
    pairs = sorted(combinations(said, 2), key=lambda pair: pair[1].created_at)
    found = [(older, newer) for older, newer in pairs if older.created_at < newer.created_at]
    return [Update(*pair) for pair in found], {older.id: newer for older, newer in found}


def texts(crystals: list[Crystal], wanted: Wanted = NOW_WANTED) -> list[str]:
    ranked = [(crystal, 1.0 - at / 100) for at, crystal in enumerate(crystals)]
    return [one.crystal.text for one in in_order(ranked, *updates_of(crystals), wanted)]


def test_the_newer_value_stands_first_and_the_older_one_says_what_replaces_it() -> None:
    other = note("Ada feeds the cat at noon.", 3)
    ranked = [(note(OLD, 9), 0.9), (other, 0.5), (note(NEW, 1), 0.46)]
    newer, older, last = in_order(ranked, *updates_of([crystal for crystal, _ in ranked]), NOW_WANTED)
    assert [newer.crystal.text, older.crystal.text, last.crystal.text] == [NEW, OLD, other.text]
    assert older.superseded_by == newer.crystal
    assert newer.superseded_by is last.superseded_by is None
    assert newer.score >= older.score >= last.score


def test_who_asks_for_the_past_gets_the_older_value_first() -> None:
    assert texts([note(NEW, 1), note(OLD, 9)], Wanted(past=True)) == [OLD, NEW]
    assert texts([note(OLD, 9), note(NEW, 1)], Wanted(past=True)) == [OLD, NEW]


@pytest.mark.parametrize(("question", "past"), CASES["a_question_says_which_value_it_wants"])
def test_a_question_says_which_value_it_wants(question: str, past: bool) -> None:  # noqa: FBT001
    assert wanted_by(question).past is past
    assert wanted_by(question, (Period(2026),)) == Wanted(periods=(Period(2026),))


ROOMS = st.lists(st.tuples(st.integers(1, 99), st.integers(0, 30)), max_size=8)


@given(ROOMS, st.sampled_from([NOW_WANTED, Wanted(past=True)]))
def test_nothing_is_left_out_or_doubled_and_scores_never_rise(rooms: list[tuple[int, int]], wanted: Wanted) -> None:
    crystals = list(
        {c.id: c for c in (note(f"Ada's desk is in room {room}.", days) for room, days in rooms)}.values()
    )
    ranked = [(crystal, 1.0 - at / 100) for at, crystal in enumerate(crystals)]
    found = in_order(ranked, *updates_of(crystals), wanted)
    assert sorted(one.crystal.id for one in found) == sorted(crystal.id for crystal in crystals)
    assert all(one.score >= following.score for one, following in pairwise(found))


def test_who_names_a_time_gets_the_value_of_that_time() -> None:
    before, after = (Wanted(periods=(Period(2026, 3, day),)) for day in (5, 12))
    assert texts([note(NEW, 1), note(OLD, 9)], before) == [OLD, NEW]
    assert texts([note(OLD, 9), note(NEW, 1)], after) == [NEW, OLD]
    assert texts([note(OLD, 9), note(NEW, 1)], Wanted(periods=(Period(2026, 3),))) == [NEW, OLD]
    assert texts([note(OLD, 9), note(NEW, 1)], Wanted(periods=(Period(2022),))) == [NEW, OLD]
