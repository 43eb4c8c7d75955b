from dataclasses import replace
from datetime import timedelta

import pytest

from state.sessions.item import Item, State
from state.sessions.policies import Action, Ttl
from tests.state.sessions.items import DAY, HOUR, SECOND, START, item, view

EXPIRED, ENOUGH_ACCESSES, IMPORTANT_ENOUGH = "expired", "access_count", "importance_score"
CRITICAL_AND_ACCESSED, AGED_AND_ACTIVE = "critical_and_accessed", "aged_and_active"
TTL = Ttl()
MICROSECOND = timedelta(microseconds=1)


def added(seq: int = 0, **fields: object) -> Item:
    one = item(seq, **fields)
    return replace(one, expires_at=one.created_at + timedelta(seconds=TTL.ttl_seconds[one.priority]))  # type: ignore[index]


@pytest.mark.parametrize(("priority", "hours"), [("low", 1), ("medium", 4), ("high", 12), ("critical", 24)])
def test_the_priority_says_how_long_an_item_lives(priority: str, hours: int) -> None:
    assert TTL.lifetime(priority) == hours * 3600
    one = item(expires_at=START + hours * HOUR)
    assert not one.is_expired(START + hours * HOUR - MICROSECOND)
    assert one.is_expired(START + hours * HOUR)


@pytest.mark.parametrize(("priority", "accesses"), [("low", 10), ("medium", 15), ("high", 20)])
def test_enough_accesses_make_an_item_eligible(priority: str, accesses: int) -> None:
    # Old, so that it is not the score; below six hours, so that it is not the age.
    now = START + 5 * HOUR
    assert TTL.eligible(item(priority=priority, access_count=accesses), now) == ENOUGH_ACCESSES
    assert TTL.eligible(item(priority=priority, access_count=accesses - 1), now) == ""


def test_a_critical_one_is_eligible_from_its_first_access() -> None:
    assert TTL.eligible(item(priority="critical"), START) == CRITICAL_AND_ACCESSED
    assert TTL.eligible(item(priority="high"), START) == ""
    assert TTL.eligible(item(priority="critical", access_count=10), START + 5 * HOUR) == ENOUGH_ACCESSES
    later = TTL.model_copy(update={"promote_critical_accesses": 2})
    assert later.eligible(item(priority="critical"), START) == ""


def test_a_score_of_eight_tenths_makes_an_item_eligible_and_a_millionth_less_does_not() -> None:
    # high: .36 + .3·(1 − age/12 h) + .15 + .0x; with 9 accesses and 200 characters: .83 − .3·age/12 h
    often = item(priority="high", access_count=9, content="x" * 200)
    reached = START + 1.2 * HOUR  # .83 − .03
    assert TTL.eligible(often, reached) == IMPORTANT_ENOUGH
    # .3 / 43,200 s is a 144,000th a second: .07 s is less than half a millionth, .08 s more
    assert TTL.eligible(often, reached + timedelta(seconds=0.07)) == IMPORTANT_ENOUGH
    assert TTL.eligible(often, reached + timedelta(seconds=0.08)) == ""


def test_more_than_six_hours_with_five_accesses_make_an_item_eligible() -> None:
    six = START + 6 * HOUR
    assert TTL.eligible(item(priority="high", access_count=5), six) == ""
    assert TTL.eligible(item(priority="high", access_count=5), six + MICROSECOND) == AGED_AND_ACTIVE
    assert TTL.eligible(item(priority="high", access_count=4), six + MICROSECOND) == ""


def test_nothing_is_promoted_inside_add_and_a_critical_one_is_at_its_first_get() -> None:
    one = added(priority="critical")
    assert TTL.admit(view([one]), one.id).steps == ()
    (step,) = TTL.earned(view([replace(one, access_count=2)]))
    assert (step.action, step.reason, step.leaves) == (Action.PROMOTE, CRITICAL_AND_ACCESSED, False)
    assert TTL.earned(view([added(priority="low")])) == ()


def test_what_is_promoted_or_softly_forgotten_is_not_promoted_again() -> None:
    one = added(priority="critical")
    assert TTL.earned(view([replace(one, promoted_to_id="crystal")])) == ()
    assert TTL.earned(view([replace(one, state=State.HIDDEN)])) == ()


def test_cleanup_promotes_what_is_eligible_and_drops_what_is_expired() -> None:
    fresh = added(1)
    pending = added(2, priority="critical")
    expired = added(3, priority="low", created_at=START - HOUR)
    both = added(4, priority="low", access_count=10, created_at=START - HOUR)
    promoted = added(5, priority="critical", promoted_to_id="c", created_at=START - DAY)
    still = added(6, priority="critical", promoted_to_id="c")
    forgotten = added(7, priority="critical", state=State.HIDDEN, created_at=START - DAY)
    plan = TTL.tick(view([fresh, pending, expired, both, promoted, still, forgotten]))
    assert [(step.item.seq, step.action, step.reason, step.leaves) for step in plan.steps] == [
        (3, Action.ARCHIVE, EXPIRED, True),
        (4, Action.PROMOTE, ENOUGH_ACCESSES, True),
        (5, Action.ARCHIVE, EXPIRED, True),
        (7, Action.ARCHIVE, EXPIRED, True),
        (2, Action.PROMOTE, CRITICAL_AND_ACCESSED, False),
    ]
    assert (plan.log, plan.level) == ("Working memory cleanup - promoting 2, 4 expired", "info")
    assert TTL.tick(view([fresh])).level == "debug"


def test_the_preview_goes_by_expiry() -> None:
    items = [added(0, priority="high"), added(1, priority="low"), added(2), added(3)]
    steps = list(TTL.order(view(items)))
    assert [(step.item.seq, step.action) for step in steps] == [(seq, Action.ARCHIVE) for seq in (1, 2, 3, 0)]


def test_it_is_cleaned_every_five_minutes_and_has_no_limit() -> None:
    assert TTL.tick_seconds == 300
    assert TTL.usage(10_000, 10**9).status == "healthy"


def test_all_thresholds_are_configuration() -> None:
    config = {"ttl_seconds": {"low": 60}, "promote_accesses": {"low": 2}, "promote_score": 0.5}
    own = Ttl.of({**config, "promote_age_seconds": 30, "promote_age_accesses": 1})
    assert own.lifetime("low") == 60
    assert own.lifetime("medium") == 4 * 3600
    assert own.eligible(item(priority="low", access_count=2), START + 20 * SECOND) == ENOUGH_ACCESSES
    assert own.eligible(item(priority="low"), START + 31 * SECOND) == AGED_AND_ACTIVE
    assert own.eligible(item(priority="low"), START + 30 * SECOND) == ""
    assert own.eligible(item(priority="high", content="x" * 100), START) == IMPORTANT_ENOUGH  # .5
    assert own.eligible(item(priority="high", content="x" * 99), START) == ""
