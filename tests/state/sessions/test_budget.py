from dataclasses import replace

import pytest

from state.errors import UsageError
from state.sessions.item import Item, State
from state.sessions.policies import FORGOTTEN, Action, Budget, Plan
from tests.state.sessions.items import MINUTE, START, item, left, view

HARD_LIMIT, SOFT_LIMIT = "hard_limit", "soft_limit"
BUDGET = Budget()
PROTECTED_TAGS = BUDGET.protected_tags


def many(count: int, protected: tuple[int, ...] = ()) -> list[Item]:
    """So many, a minute apart; the protected ones have a tag of those that protect."""
    return [
        item(seq, created_at=START + seq * MINUTE, tags=("todo", "insight") if seq in protected else ("todo",))
        for seq in range(count)
    ]


def check(items: list[Item], budget: Budget = BUDGET) -> Plan:
    plan = budget.tick(view(items))
    assert budget.admit(view(items), items[-1].id) == plan, "a tick and an add check alike"
    return plan


def test_below_the_soft_limit_nothing_leaves() -> None:
    assert check(many(34)) == Plan((), "Working memory within budget (34/35/50)", "debug")
    assert check(many(28)).log == "Working memory within budget (28/35/50)"


def test_at_the_soft_limit_the_oldest_ten_become_permanent() -> None:
    plan = check(many(35))
    assert left(plan) == list(range(10))
    assert {(step.action, step.reason, step.leaves, step.rescue) for step in plan.steps} == {
        (Action.PROMOTE, SOFT_LIMIT, True, False)
    }
    assert plan.level == "info"
    assert check(many(37)).log == "Working memory at soft limit (37/35) - making oldest 10 permanent"


def test_protected_ones_are_passed_over_at_the_soft_limit() -> None:
    plan = check(many(49, protected=(0, 3)))
    assert left(plan) == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11]
    few = check(many(37, protected=tuple(range(29))))
    assert left(few) == [29, 30, 31, 32, 33, 34, 35, 36]
    assert few.log == "Working memory at soft limit (37/35) - making oldest 8 permanent"
    none = check(many(37, protected=tuple(range(37))))
    assert left(none) == []
    assert none.log == "Working memory at soft limit (37/35) - all are protected, nothing leaves"


def test_at_the_hard_limit_the_oldest_ten_are_archived_and_protected_ones_flagged() -> None:
    plan = check(many(50, protected=(0, 3, 20)))
    assert left(plan) == list(range(10))
    assert [step.item.seq for step in plan.steps if step.rescue] == [0, 3]
    assert {(step.action, step.reason, step.leaves) for step in plan.steps} == {(Action.ARCHIVE, HARD_LIMIT, True)}
    assert plan.level == "warning"
    assert check(many(52)).log == "Working memory at hard limit (52/50) - archiving oldest 10"


@pytest.mark.parametrize("tag", PROTECTED_TAGS)
def test_the_six_tags_protect_in_exactly_this_case(tag: str) -> None:
    assert BUDGET.protects(item(tags=("other", tag)))
    assert not BUDGET.protects(item(tags=(tag.capitalize(), tag.upper(), f"{tag} ", f"{tag}s")))


def test_protection_can_be_switched_off_and_changed() -> None:
    assert not BUDGET.model_copy(update={"tag_aware_archival": False}).protects(item(tags=("insight",)))
    own = Budget.of({"protected_tags": ["keep"]})
    assert own.protects(item(tags=("keep",)))
    assert not own.protects(item(tags=("insight",)))


def test_softly_forgotten_ones_leave_first_and_never_become_permanent() -> None:
    items = [replace(one, state=State.HIDDEN) if one.seq in (20, 30) else one for one in many(35)]
    plan = check(items)
    assert left(plan) == [20, 30, *range(8)]
    assert [(step.action, step.reason) for step in plan.steps[:3]] == [
        (Action.ARCHIVE, FORGOTTEN),
        (Action.ARCHIVE, FORGOTTEN),
        (Action.PROMOTE, SOFT_LIMIT),
    ]
    assert plan.log == "Working memory at soft limit (35/35) - making oldest 8 permanent, archiving 2 forgotten"


def test_switched_off_it_takes_nothing() -> None:
    off = Budget.of({"enabled": False})
    assert check(many(60), off).steps == ()
    assert list(off.order(view(many(60)))) == []


@pytest.mark.parametrize(
    ("count", "utilisation", "status"),
    [
        (0, 0.0, "healthy"),
        (28, 80.0, "healthy"),
        (31, 3100 / 35, "healthy"),
        (32, 3200 / 35, "approaching"),
        (34, 3400 / 35, "approaching"),
        (35, 100.0, "soft_limit"),
        (49, 140.0, "soft_limit"),
        (50, 5000 / 35, "hard_limit"),
    ],
)
def test_the_status_is_told_from_counts(count: int, utilisation: float, status: str) -> None:
    usage = BUDGET.usage(count, 10**6)
    assert (*BUDGET.limits, *usage) == (50, None, utilisation, status)


@pytest.mark.parametrize(
    ("preset", "limits"), [("production", (25, 40)), ("interactive", (35, 50)), ("research", (50, 75))]
)
def test_presets_set_both_limits(preset: str, limits: tuple[int, int]) -> None:
    budget = Budget.of({"preset": preset})
    assert (budget.soft_limit, budget.hard_limit, budget.batch_size) == (*limits, 10)


def test_limits_that_contradict_each_other_are_refused() -> None:
    assert Budget.of({"soft_limit": 50}).soft_limit == 50
    with pytest.raises(UsageError, match="soft_limit: 51 is above hard_limit, 50"):
        Budget.of({"soft_limit": 51})
    with pytest.raises(UsageError, match="preset: 'huge' is none of interactive, production, research"):
        Budget.of({"preset": "huge"})
    with pytest.raises(UsageError, match="preset"):
        Budget.of({"preset": ["production"]})


def test_it_is_checked_every_thirty_seconds() -> None:
    assert BUDGET.tick_seconds == 30
    assert BUDGET.lifetime("medium") is None
    assert BUDGET.earned(view([item()])) == ()
