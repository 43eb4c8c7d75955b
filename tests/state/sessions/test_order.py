"""Who leaves, against the published keys, sorted the slow way."""

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from state.sessions.item import Item, State
from state.sessions.policies import Action, Bounded, Budget, Hybrid
from tests.state.sessions.items import START, item, view

CAPACITY_PROTECTED = "capacity_exceeded_protected"
WORTH = st.sampled_from([0.0, 0.1, 0.29, 0.3, 0.5, 0.69, 0.7, 0.9, 1.0]) | st.floats(0, 1)
# Around an hour, to the microsecond, and anywhere; the future is a clock that was set back.
AGES = st.sampled_from([3_600.0, 3_600.000001, 3_599.999999, 0.0, 7_200.0, -60.0]) | st.floats(-100, 100_000)


@st.composite
def sets(draw: st.DrawFn) -> list[Item]:
    """Items in any order of creation, step and arrival."""
    numbers = draw(st.lists(st.integers(0, 10_000), unique=True, min_size=1, max_size=30))
    return [
        item(
            seq,
            importance=draw(WORTH),
            token_count=draw(st.integers(1, 50)),
            step_index=draw(st.integers(0, 40)),
            created_at=START - timedelta(seconds=draw(AGES)),
            tags=draw(st.sampled_from([(), ("insight",), ("todo", "decision"), ("Insight",)])),
            state=draw(st.sampled_from([State.LIVE, State.LIVE, State.LIVE, State.HIDDEN])),
        )
        for seq in numbers
    ]


@st.composite
def bounds(draw: st.DrawFn) -> Bounded:
    low, high = sorted((draw(WORTH), draw(WORTH)))
    return draw(
        st.just(Bounded())
        | st.builds(
            Bounded,
            max_items=st.integers(1, 40),
            max_tokens=st.integers(50, 1_000),
            step_ttl=st.integers(0, 40),
            wall_ttl=st.sampled_from([0.0, 3_600.0, 10_000.0]),
            importance_threshold_low=st.just(low),
            importance_threshold_high=st.just(high),
            recent_window=st.integers(0, 40),
        )
    )


def published_key(policy: Bounded, one: Item, step: int, now: datetime) -> tuple[object, ...]:
    """(protected, not expired, band, recent, seq), after what is softly forgotten."""
    if one.state == State.HIDDEN:
        return (0, one.seq)
    protected = one.importance >= policy.importance_threshold_high
    age = (now - one.created_at).total_seconds()
    expired = step - one.step_index > policy.step_ttl or age > policy.wall_ttl
    band = 0 if one.importance < policy.importance_threshold_low else 2 if protected else 1
    recent = step - one.step_index <= policy.recent_window
    return (1, protected, not expired, 2 if protected else band, recent, one.seq)


@given(sets(), bounds())
def test_bounded_items_leave_in_the_order_of_the_published_key(items: list[Item], policy: Bounded) -> None:
    seen = view(items)
    order = [step.item for step in policy.order(seen)]
    assert order == sorted(items, key=lambda one: published_key(policy, one, seen.step, START))


@given(sets(), bounds())
def test_bounded_takes_the_shortest_beginning_that_keeps_both_limits(items: list[Item], policy: Bounded) -> None:
    seen = view(items)
    gone = policy.admit(seen, items[-1].id).steps
    ranked = sorted(items, key=lambda one: published_key(policy, one, seen.step, START))

    def fits(kept: list[Item]) -> bool:
        return len(kept) <= policy.max_items and sum(one.token_count for one in kept) <= policy.max_tokens

    needed = next(count for count in range(len(items) + 1) if fits(ranked[count:]))
    assert [step.item for step in gone] == ranked[:needed]
    last_resort = [step for step in gone if step.reason == CAPACITY_PROTECTED]
    assert all(policy.protects(step.item) and step.rescue for step in last_resort)
    assert not last_resort or all(policy.protects(one) for one in ranked[needed:]), (
        "and nothing else was left to take"
    )


@given(sets(), bounds())
def test_a_sweep_takes_exactly_what_is_expired(items: list[Item], policy: Bounded) -> None:
    seen = view(items)
    swept = [step.item for step in policy.tick(seen).steps]
    assert sorted(one.seq for one in swept) == sorted(
        one.seq for one in items if not published_key(policy, replace(one, state=State.LIVE), seen.step, START)[2]
    )


@given(sets(), st.integers(1, 1_500))
def test_hybrid_takes_the_shortest_beginning_that_covers_the_deficit(items: list[Item], limit: int) -> None:
    new = items[-1]
    policy = Hybrid(max_tokens=max(limit, new.token_count))
    ranked = sorted(items, key=lambda one: (one.state == State.LIVE, one.importance, one.created_at, one.seq))
    assert [step.item for step in policy.order(view(items))] == ranked
    deficit = sum(one.token_count for one in items) - policy.max_tokens
    others = [one for one in ranked if one is not new]
    needed = next(count for count in range(len(items)) if sum(one.token_count for one in others[:count]) >= deficit)
    assert [step.item for step in policy.admit(view(items), new.id).steps] == others[:needed]


@given(sets(), st.integers(1, 20), st.integers(0, 20), st.integers(1, 20))
def test_budget_takes_one_batch_of_the_oldest(items: list[Item], soft: int, above: int, batch: int) -> None:
    policy = Budget(soft_limit=soft, hard_limit=soft + above, batch_size=batch)
    steps = policy.tick(view(items)).steps
    oldest = sorted(items, key=lambda one: (one.state == State.LIVE, one.created_at, one.seq))
    protected = {one.seq for one in items if {"insight", "decision"} & set(one.tags) and one.state == State.LIVE}
    if len(items) >= policy.hard_limit:
        assert [step.item for step in steps] == oldest[:batch]
        assert all(step.action is Action.ARCHIVE for step in steps)
        assert {step.item.seq for step in steps if step.rescue} == protected & {step.item.seq for step in steps}
    elif len(items) >= soft:
        assert [step.item for step in steps] == [one for one in oldest if one.seq not in protected][:batch]
        assert all((step.action is Action.PROMOTE) == (step.item.state is State.LIVE) for step in steps)
    else:
        assert steps == ()
