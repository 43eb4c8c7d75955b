from dataclasses import replace

import pytest

from state.sessions.item import Item, State
from state.sessions.policies import FORGOTTEN, Action, Hybrid, Plan
from tests.state.sessions.items import DAY, HOUR, START, item, view

TOKEN_LIMIT = "token_limit"
NAMES = ("random_note", "debug_log", "temp_calc", "user_pref", "architecture_decision")


def published() -> list[Item]:
    """The working memory of the source's figure; importance is there from 0 to 10."""
    figures = [
        (0.1, 2000, HOUR),
        (0.2, 1500, 2 * DAY),
        (0.15, 1600, 5 * DAY),
        (0.8, 100, 5 * DAY),
        (1.0, 3000, 3 * DAY),
    ]
    return [
        item(seq, id=name, importance=importance, token_count=tokens, created_at=START - age)
        for seq, (name, (importance, tokens, age)) in enumerate(zip(NAMES, figures, strict=True))
    ]


def add(items: list[Item], new: Item, max_tokens: int) -> Plan:
    return Hybrid(max_tokens=max_tokens).admit(view([*items, new]), new.id)


def evicted(plan: Plan) -> list[str]:
    return [step.item.id for step in plan.steps]


def test_five_thousand_tokens_are_freed_as_in_the_figure() -> None:
    new = item(9, id="new", importance=0.7, token_count=5000)
    plan = add(published(), new, max_tokens=8200)
    assert evicted(plan) == ["random_note", "temp_calc", "debug_log"]
    assert {(step.action, step.reason, step.leaves) for step in plan.steps} == {(Action.ARCHIVE, TOKEN_LIMIT, True)}
    assert plan.log == "Working memory 5000 tokens over 8200 - evicting 3 items, 5100 tokens"


def test_only_the_deficit_is_freed() -> None:
    # Use case 1: 127,500 of 128,000 are taken, 5,000 come: 4,500 have to go.
    rest = item(8, id="rest", importance=1.0, token_count=127_500 - 8200)
    new = item(9, id="new", importance=0.7, token_count=5000)
    assert evicted(add([*published(), rest], new, 128_000)) == ["random_note", "temp_calc", "debug_log"]
    smaller = replace(new, token_count=4100)  # 3,600 have to go: exactly what the first two have
    assert evicted(add([*published(), rest], smaller, 128_000)) == ["random_note", "temp_calc"]
    larger = replace(new, token_count=4101)
    assert evicted(add([*published(), rest], larger, 128_000)) == ["random_note", "temp_calc", "debug_log"]


def test_a_new_item_is_never_its_own_victim() -> None:
    new = item(9, id="new", importance=0.0, token_count=8200)
    assert sorted(evicted(add(published(), new, 8200))) == sorted(NAMES)


def test_softly_forgotten_ones_go_first() -> None:
    items = [replace(one, state=State.HIDDEN) if one.id == "architecture_decision" else one for one in published()]
    plan = add(items, item(9, id="new", token_count=3001), 8200)
    assert evicted(plan) == ["architecture_decision", "random_note"]
    assert [step.reason for step in plan.steps] == [FORGOTTEN, TOKEN_LIMIT]


def test_time_alone_evicts_nothing() -> None:
    hybrid = Hybrid()
    assert hybrid.tick_seconds is None
    assert hybrid.tick(view(published(), now=START + 1000 * DAY)) == Plan()
    assert hybrid.lifetime("medium") is None
    assert hybrid.earned(view(published())) == ()


@pytest.mark.parametrize(("tokens", "status"), [(0, "healthy"), (900, "healthy"), (901, "approaching")])
def test_usage_is_in_per_cent_of_the_tokens(tokens: int, status: str) -> None:
    hybrid = Hybrid(max_tokens=1000)
    assert (*hybrid.limits, *hybrid.usage(3, tokens)) == (None, 1000, tokens / 10, status)
