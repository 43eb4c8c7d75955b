from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.sessions.importance import score
from state.sessions.item import Item, Priority, State
from state.sessions.policies.policy import Action
from state.sessions.policies.ttl import (
    AGED_AND_ACTIVE,
    CRITICAL_AND_ACCESSED,
    ENOUGH_ACCESSES,
    EXPIRED,
    IMPORTANT_ENOUGH,
    Ttl,
)
from tests.state.sessions.shelves import DAY, HOUR, SECOND, START, ListShelf, item

TTL = Ttl()
MICROSECOND = timedelta(microseconds=1)


def added(seq: int = 0, **fields: object) -> Item:
    one = item(seq, **fields)
    seconds = TTL.lifetime(one)
    assert seconds is not None
    return replace(one, expires_at=one.created_at + timedelta(seconds=seconds))


@pytest.mark.parametrize(("priority", "hours"), [("low", 1), ("medium", 4), ("high", 12), ("critical", 24)])
def test_the_priority_says_how_long_an_item_lives(priority: str, hours: int) -> None:
    one = added(priority=Priority(priority))
    assert one.expires_at == START + hours * HOUR
    assert not one.expired(START + hours * HOUR - MICROSECOND)
    assert one.expired(START + hours * HOUR)


@pytest.mark.parametrize(("priority", "accesses"), [("low", 10), ("medium", 15), ("high", 20)])
def test_enough_accesses_make_an_item_eligible(priority: str, accesses: int) -> None:
    # Old, so that it is not the score; below six hours, so that it is not the age.
    now = START + 5 * HOUR
    assert TTL.eligible(item(priority=Priority(priority), access_count=accesses), now) == ENOUGH_ACCESSES
    assert TTL.eligible(item(priority=Priority(priority), access_count=accesses - 1), now) == ""


def test_a_critical_one_is_eligible_from_its_first_access() -> None:
    assert TTL.eligible(item(priority=Priority.CRITICAL), START) == CRITICAL_AND_ACCESSED
    assert TTL.eligible(item(priority=Priority.HIGH), START) == ""
    assert TTL.eligible(item(priority=Priority.CRITICAL, access_count=10), START + 5 * HOUR) == ENOUGH_ACCESSES
    later = replace(TTL, promote_critical_accesses=2)
    assert later.eligible(item(priority=Priority.CRITICAL), START) == ""


def test_a_score_of_eight_tenths_makes_an_item_eligible_and_a_millionth_less_does_not() -> None:
    # high: .36 + .3·(1 − age/12 h) + .15 + .0x; with 9 accesses and 200 characters: .83 − .3·age/12 h
    often = item(priority=Priority.HIGH, access_count=9, content="x" * 200)
    reached = START + 1.2 * HOUR  # .83 − .03
    assert score(often, reached) == 0.8
    assert TTL.eligible(often, reached) == IMPORTANT_ENOUGH
    # .3 / 43,200 s is a 144,000th a second: .07 s is less than half a millionth, .08 s more
    assert TTL.eligible(often, reached + timedelta(seconds=0.07)) == IMPORTANT_ENOUGH
    assert score(often, reached + timedelta(seconds=0.08)) == 0.799999
    assert TTL.eligible(often, reached + timedelta(seconds=0.08)) == ""


def test_more_than_six_hours_with_five_accesses_make_an_item_eligible() -> None:
    six = START + 6 * HOUR
    assert TTL.eligible(item(priority=Priority.HIGH, access_count=5), six) == ""
    assert TTL.eligible(item(priority=Priority.HIGH, access_count=5), six + MICROSECOND) == AGED_AND_ACTIVE
    assert TTL.eligible(item(priority=Priority.HIGH, access_count=4), six + MICROSECOND) == ""


def test_nothing_is_promoted_inside_add_and_a_critical_one_is_at_its_first_get() -> None:
    one = added(priority=Priority.CRITICAL)
    assert TTL.admit(one, ListShelf([one]), START).steps == ()
    (step,) = TTL.on_access(replace(one, access_count=2), START).steps
    assert (step.action, step.reason, step.leaves) == (Action.PROMOTE, CRITICAL_AND_ACCESSED, False)
    assert TTL.on_access(added(priority=Priority.LOW), START).steps == ()


def test_what_is_promoted_or_softly_forgotten_is_not_promoted_again() -> None:
    one = added(priority=Priority.CRITICAL)
    assert TTL.on_access(replace(one, promoted_to="crystal"), START).steps == ()
    assert TTL.on_access(replace(one, state=State.HIDDEN), START).steps == ()


def test_cleanup_promotes_what_is_eligible_and_drops_what_is_expired() -> None:
    fresh = added(1)
    pending = added(2, priority=Priority.CRITICAL)
    expired = added(3, priority=Priority.LOW, created_at=START - HOUR)
    both = added(4, priority=Priority.LOW, access_count=10, created_at=START - HOUR)
    promoted = added(5, priority=Priority.CRITICAL, promoted_to="c", created_at=START - DAY)
    still = added(6, priority=Priority.CRITICAL, promoted_to="c")
    forgotten = added(7, priority=Priority.CRITICAL, state=State.HIDDEN, created_at=START - DAY)
    plan = TTL.tick(ListShelf([fresh, pending, expired, both, promoted, still, forgotten]), START)
    assert [(step.item.seq, step.action, step.reason, step.leaves) for step in plan.steps] == [
        (3, Action.ARCHIVE, EXPIRED, True),
        (4, Action.PROMOTE, ENOUGH_ACCESSES, True),
        (5, Action.ARCHIVE, EXPIRED, True),
        (7, Action.ARCHIVE, EXPIRED, True),
        (2, Action.PROMOTE, CRITICAL_AND_ACCESSED, False),
    ]
    assert (plan.log, plan.level) == ("Working memory cleanup - promoting 2, 4 expired", "info")
    assert TTL.tick(ListShelf([fresh]), START).level == "debug"


def test_extending_adds_the_time_of_the_priority_to_the_later_of_now_and_the_end() -> None:
    high = added(priority=Priority.HIGH)
    assert TTL.extended(high, START + HOUR) == START + 24 * HOUR
    twice = replace(high, expires_at=TTL.extended(high, START))
    assert TTL.extended(twice, START) == START + 36 * HOUR
    assert TTL.extended(high, START + 13 * HOUR) == START + 25 * HOUR, "an expired one is revived from now on"
    last = datetime.max.replace(tzinfo=UTC)
    assert TTL.extended(replace(high, expires_at=last), START) == last


def test_extending_makes_nothing_fresher() -> None:
    extended = replace(added(priority=Priority.LOW), expires_at=START + 100 * HOUR)
    assert score(extended, START + HOUR) == score(added(priority=Priority.LOW), START + 2 * HOUR)


def test_the_preview_goes_by_expiry() -> None:
    items = [added(0, priority=Priority.HIGH), added(1, priority=Priority.LOW), added(2), added(3)]
    steps = list(TTL.order(ListShelf(items), START))
    assert [(step.item.seq, step.action) for step in steps] == [(seq, Action.ARCHIVE) for seq in (1, 2, 3, 0)]


def test_it_is_cleaned_every_five_minutes_and_has_no_limit() -> None:
    assert TTL.tick_seconds == 300
    assert TTL.fits(10**9) == ""
    assert TTL.usage(10_000, 10**9).status == "healthy"


def test_all_thresholds_are_configuration() -> None:
    config = {"ttl_seconds": {"low": 60}, "promote_accesses": {"low": 2}, "promote_score": 0.5}
    own = Ttl.of({**config, "promote_age_seconds": 30, "promote_age_accesses": 1})
    assert own.lifetime(item(priority=Priority.LOW)) == 60
    assert own.lifetime(item()) == 4 * 3600
    assert own.eligible(item(priority=Priority.LOW, access_count=2), START + 20 * SECOND) == ENOUGH_ACCESSES
    assert own.eligible(item(priority=Priority.LOW), START + 31 * SECOND) == AGED_AND_ACTIVE
    assert own.eligible(item(priority=Priority.LOW), START + 30 * SECOND) == ""
    assert own.eligible(item(priority=Priority.HIGH, content="x" * 100), START) == IMPORTANT_ENOUGH  # .5
    assert own.eligible(item(priority=Priority.HIGH, content="x" * 99), START) == ""


@given(
    policy=st.builds(
        Ttl,
        promote_accesses=st.fixed_dictionaries({one.value: st.integers(1, 12) for one in Priority}),
        promote_score=st.floats(0, 1),
        promote_critical_accesses=st.integers(1, 12),
        promote_age_accesses=st.integers(1, 12),
    ),
    priority=st.sampled_from(Priority),
    accesses=st.integers(1, 14),
    length=st.integers(1, 1_200),
    hours=st.integers(0, 30),
)
def test_accesses_say_which_items_may_be_promoted_and_which_are(
    policy: Ttl, priority: Priority, accesses: int, length: int, hours: int
) -> None:
    one = item(0, priority=priority, access_count=accesses, content="x" * length)
    promoted = bool(policy.on_access(one, START + hours * HOUR).steps)
    possible, always = policy.earning(priority)
    assert promoted or accesses < always
    assert accesses >= possible or not promoted
