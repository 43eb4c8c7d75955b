"""Updates among results: the newer value of a subject stands before the older one, unless the past is asked for."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.crystals.crystal import Crystal, Origin
from state.search.updates import Order, in_order, order_for
from state.trust import Trust

NOW = datetime(2026, 3, 12, tzinfo=UTC)
OLD, NEW = "The staging database runs on port 5433.", "We moved the staging database to port 6000."


def note(text: str, days_ago: float, trust: Trust = Trust.AGENT, speaker: str = "") -> Crystal:
    return Crystal(
        text=text, origin=Origin.SCRATCH, created_at=NOW - timedelta(days=days_ago), trust=trust, speaker=speaker
    )


def texts(crystals: list[Crystal], order: Order = Order.NEWER) -> list[str]:
    ranked = [(crystal, 1.0 - at / 100) for at, crystal in enumerate(crystals)]
    return [one.crystal.text for one in in_order(ranked, {}, {}, order)]


def test_the_newer_value_stands_first_and_the_older_one_says_what_replaces_it() -> None:
    other = note("Ada feeds the cat at noon.", 3)
    ranked = [(note(OLD, 9), 0.9), (other, 0.5), (note(NEW, 1), 0.4)]
    newer, older, last = in_order(ranked, {}, {}, Order.NEWER)
    assert [newer.crystal.text, older.crystal.text, last.crystal.text] == [NEW, OLD, other.text]
    assert older.replaced_by == newer.crystal
    assert newer.replaced_by is last.replaced_by is None
    assert newer.score >= older.score >= last.score


def test_who_asks_for_the_past_gets_the_older_value_first() -> None:
    assert texts([note(NEW, 1), note(OLD, 9)], Order.OLDER) == [OLD, NEW]
    assert texts([note(OLD, 9), note(NEW, 1)], Order.AS_FOUND) == [OLD, NEW]


@pytest.mark.parametrize(
    "newer",
    [
        note(NEW, 1, trust=Trust.WEB),  # a page supersedes nothing that the agent knows
        note("The staging database runs on port 5433!", 1),
        note("The production cache has port 6000.", 1),
    ],
)
def test_what_replaces_nothing_stays_in_its_place(newer: Crystal) -> None:
    assert texts([note(OLD, 9), newer]) == [OLD, newer.text]


def test_two_speakers_have_a_fact_each() -> None:
    anna = note("I live in Berlin.", 9, speaker="Anna")
    bob = note("I have moved to Lisbon.", 1, speaker="Bob")
    assert texts([anna, bob]) == [anna.text, bob.text]


def test_of_a_chain_the_newest_stands_first() -> None:
    chain = [note(f"Ada's desk is in room {room}.", days) for room, days in ((12, 9), (31, 5), (7, 1))]
    assert texts(chain) == [crystal.text for crystal in reversed(chain)]


def test_of_one_second_the_one_that_was_written_later_is_newer() -> None:
    older, newer = note(OLD, 1), note(NEW, 1)
    keys = {older.id: 4, newer.id: 9}
    assert [one.crystal for one in in_order([(older, 0.9), (newer, 0.8)], {}, keys, Order.NEWER)] == [newer, older]


@pytest.mark.parametrize(
    ("question", "order"),
    [
        ("Where does Ada live?", Order.NEWER),
        ("Where did Ada live before that?", Order.OLDER),
        ("Wo hat Ada früher gewohnt?", Order.OLDER),
        ("Où habitait Ada avant ?", Order.OLDER),
        ("¿Dónde vivía Ada antes?", Order.OLDER),
        ("Где Ада жила раньше?", Order.OLDER),
        ("艾达以前住在哪里?", Order.OLDER),
        ("エイダは以前どこに住んでいましたか?", Order.OLDER),
    ],
)
def test_a_question_says_which_value_it_wants(question: str, order: Order) -> None:
    assert order_for(question, dated=False) is order
    assert order_for(question, dated=True) is Order.AS_FOUND


ROOMS = st.lists(st.tuples(st.integers(1, 99), st.integers(0, 30)), max_size=8)


@given(ROOMS, st.sampled_from(Order))
def test_nothing_is_left_out_or_doubled_and_scores_never_rise(rooms: list[tuple[int, int]], order: Order) -> None:
    crystals = list(
        {c.id: c for c in (note(f"Ada's desk is in room {room}.", days) for room, days in rooms)}.values()
    )
    ranked = [(crystal, 1.0 - at / 100) for at, crystal in enumerate(crystals)]
    found = in_order(ranked, {}, {}, order)
    assert sorted(one.crystal.id for one in found) == sorted(crystal.id for crystal in crystals)
    assert all(one.score >= following.score for one, following in pairwise(found))
