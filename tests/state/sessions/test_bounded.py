from datetime import timedelta

import pytest

from state.errors import UsageError
from state.sessions.item import Item, State
from state.sessions.policies import FORGOTTEN, Bounded, Plan
from tests.state.sessions.items import HOUR, MINUTE, START, item, left, view

CAPACITY = "capacity_exceeded"
CAPACITY_EXPIRED, CAPACITY_LOW, CAPACITY_PROTECTED = (
    f"{CAPACITY}_{band}" for band in ("expired", "low", "protected")
)
MICROSECOND = timedelta(microseconds=1)


def add(items: list[Item], policy: Bounded) -> Plan:
    """The last of the items is the new one."""
    return policy.admit(view(items), items[-1].id)


def ordered(items: list[Item], policy: Bounded, step: int | None = None) -> list[tuple[int, str]]:
    return [(one.item.seq, one.reason) for one in policy.order(view(items, step))]


def test_sixty_four_items_fit_and_one_more_takes_the_place_of_the_oldest() -> None:
    items = [item(seq) for seq in range(65)]
    assert add(items[:64], Bounded()).steps == ()
    plan = add(items, Bounded())
    assert left(plan) == [0]
    assert (plan.log, plan.level) == (
        "Working memory (65/64 items, 65/4000 tokens) over its limits - evicting 1",
        "info",
    )


@pytest.mark.parametrize(
    ("importance", "reason"),
    [
        (0.0, CAPACITY_LOW),
        (0.299, CAPACITY_LOW),
        (0.3, CAPACITY),
        (0.699, CAPACITY),
        (0.7, CAPACITY_PROTECTED),
        (1.0, CAPACITY_PROTECTED),
    ],
)
def test_the_bands_begin_at_three_and_at_seven_tenths(importance: float, reason: str) -> None:
    one = item(importance=importance)
    assert ordered([one], Bounded()) == [(0, reason)]
    assert Bounded().protects(one) is (reason == CAPACITY_PROTECTED)


def test_protected_ones_are_the_last_resort_expired_or_not() -> None:
    old = START - 2 * HOUR
    items = [item(0, importance=0.9), item(1, importance=0.9, created_at=old), item(2, importance=0.1)]
    assert ordered(items, Bounded()) == [(2, CAPACITY_LOW), (1, CAPACITY_PROTECTED), (0, CAPACITY_PROTECTED)]


def test_the_bound_wins_over_protection_oldest_first() -> None:
    items = [item(seq, importance=0.7 + seq / 100, created_at=START + seq * MINUTE) for seq in range(5)]
    plan = add(items, Bounded(max_items=3))
    assert [(step.item.seq, step.reason, step.rescue) for step in plan.steps] == [
        (0, CAPACITY_PROTECTED, True),
        (1, CAPACITY_PROTECTED, True),
    ]
    assert plan.level == "warning"


def test_a_new_item_may_be_its_own_victim() -> None:
    items = [*(item(seq, importance=0.9) for seq in range(3)), item(3, importance=0.69)]
    assert left(add(items, Bounded(max_items=3))) == [3]
    items[3] = item(3, importance=0.7)
    assert left(add(items, Bounded(max_items=3))) == [0]


def test_softly_forgotten_ones_are_the_first_to_leave() -> None:
    items = [item(0, importance=0.1), item(1, importance=0.9, state=State.HIDDEN), item(2)]
    plan = add(items, Bounded(max_items=2))
    assert [(step.item.seq, step.reason, step.rescue) for step in plan.steps] == [(1, FORGOTTEN, False)]


def test_age_alone_evicts_nothing_on_add_and_everything_expired_on_a_sweep() -> None:
    old = START - 2 * HOUR
    items = [
        item(0, created_at=old, importance=0.9),
        item(1, created_at=old),
        item(2, step_index=30),
        item(3, step_index=9, importance=0.1),
        item(4, created_at=old, state=State.HIDDEN),
        item(5, state=State.HIDDEN, step_index=30),
    ]
    assert add(items, Bounded()).steps == ()
    plan = Bounded().tick(view(items))
    assert left(plan) == [4, 3, 1, 0]
    assert {step.reason for step in plan.steps} == {"ttl_exceeded"}
    assert plan.log == "Working memory swept - 4 expired"
    assert Bounded().tick(view(items[2:3])).steps == ()
    assert Bounded().tick_seconds is None, "maintenance sweeps nothing by itself"


def test_the_published_scenario() -> None:
    """105 items come by step 20, 4,500 tokens; the low ones of the first steps make room. 64 items are the bound."""
    policy = Bounded(max_items=100)
    items: list[Item] = []
    for step, count, tokens in ((0, 10, 50), (5, 20, 50), (10, 30, 34), (15, 25, 40), (20, 20, 48)):
        for _ in range(count):
            low = step <= 5 and len(items) % 2
            items.append(item(len(items), step_index=step, token_count=tokens, importance=0.1 if low else 0.5))
            gone = add(items, policy).steps
            assert all(victim.item.importance < 0.3 and victim.item.step_index <= 5 for victim in gone)
            items = [one for one in items if one not in [victim.item for victim in gone]]
    assert sum(one.token_count for one in items) <= 4000
    assert sum(one.step_index == 20 for one in items) == 20


@pytest.mark.parametrize(
    ("count", "tokens", "percent", "status"),
    [
        (0, 0, 0.0, "healthy"),
        (32, 0, 50.0, "healthy"),
        (0, 3600, 90.0, "healthy"),
        (0, 3601, 90.025, "approaching"),
        (58, 0, 90.625, "approaching"),
    ],
)
def test_usage_is_that_of_the_nearer_limit(count: int, tokens: int, percent: float, status: str) -> None:
    usage = Bounded().usage(count, tokens)
    assert (*Bounded().limits, *usage) == (64, 4000, percent, status)


def test_thresholds_are_configuration() -> None:
    own = Bounded.of(
        {"importance_threshold_low": 0.5, "importance_threshold_high": 0.5, "recent_window": 0, "step_ttl": 1}
    )
    items = [item(0, importance=0.49, step_index=9), item(1, importance=0.5, step_index=10), item(2, step_index=8)]
    assert ordered(items, own) == [(0, CAPACITY_LOW), (2, CAPACITY_PROTECTED), (1, CAPACITY_PROTECTED)]
    with pytest.raises(UsageError, match=r"importance_threshold_low: 0\.8 is above importance_threshold_high, 0\.7"):
        Bounded.of({"importance_threshold_low": 0.8})
