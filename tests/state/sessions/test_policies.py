"""The four policies: their published defaults and examples, and who leaves, against the published keys."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import UsageError
from state.sessions.item import Item, State
from state.sessions.policies import (
    DEFAULT,
    FORGOTTEN,
    POLICIES,
    Action,
    Bounded,
    Budget,
    Hybrid,
    Policy,
    Ttl,
    policy_of,
    settings_of,
)
from tests.state.sessions.items import DAY, HOUR, MINUTE, START, item, left, view

CAPACITY = "capacity_exceeded"

LOW, PROTECTED = f"{CAPACITY}_low", f"{CAPACITY}_protected"

MICROSECOND = timedelta(microseconds=1)

TTL, BUDGET = Ttl(), Budget()


# ------------------------------------------------------------------ settings
def test_there_are_four_and_their_defaults_are_the_published_ones() -> None:
    assert [policy_of(name, {}) for name in POLICIES] == [Ttl(), Budget(), Hybrid(), Bounded()]
    assert [policy_of(name, {}).name for name in POLICIES] == list(POLICIES)
    assert DEFAULT == "ttl"
    assert settings_of(Budget()) == {
        "enabled": True,
        "soft_limit": 35,
        "hard_limit": 50,
        "batch_size": 10,
        "tag_aware_archival": True,
        "protected_tags": ["insight", "permanent", "personal", "decision", "architecture", "important"],
    }
    assert settings_of(Hybrid()) == {"max_tokens": 128_000}
    assert settings_of(Bounded()) == {
        "max_items": 64,
        "max_tokens": 4_000,
        "step_ttl": 20,
        "wall_ttl": 3_600.0,
        "importance_threshold_low": 0.3,
        "importance_threshold_high": 0.7,
        "recent_window": 5,
    }
    assert settings_of(Ttl())["ttl_seconds"] == {"low": 3600, "medium": 14400, "high": 43200, "critical": 86400}
    assert settings_of(Ttl())["promote_accesses"] == {"low": 10, "medium": 15, "high": 20, "critical": 10}
    presets = [Budget.of({"preset": name}) for name in ("production", "interactive", "research")]
    assert [(one.soft_limit, one.hard_limit, one.batch_size) for one in presets] == [
        (25, 40, 10),
        (35, 50, 10),
        (50, 75, 10),
    ]


@pytest.mark.parametrize(
    ("name", "config", "told"),
    [
        ("lru", {}, "policy: 'lru' is none of ttl, budget, hybrid, bounded"),
        ("hybrid", {"max_items": 5}, "'max_items' is not a setting of the hybrid policy; there are max_tokens"),
        ("hybrid", {"max_tokens": 0}, "max_tokens: 0: input should be greater than or equal to 1"),
        ("hybrid", {"max_tokens": 10**5000}, "max_tokens: a number of more than eighteen digits: input"),
        ("budget", {"protected_tags": ["a", 5]}, "protected_tags.1: 5: input should be a valid string"),
        ("budget", {"soft_limit": 51}, "soft_limit: 51 is above hard_limit, 50"),
        ("budget", {"preset": "huge"}, "preset: 'huge' is none of interactive, production, research"),
        ("bounded", {"wall_ttl": float("nan")}, "wall_ttl: nan: input should be"),
        (
            "bounded",
            {"importance_threshold_low": 0.8},
            "importance_threshold_low: 0.8 is above importance_threshold_h",
        ),
        ("ttl", {"ttl_seconds": {"lowest": 60}}, "ttl_seconds.lowest: 'lowest': input should be 'low', 'medium'"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_key(name: str, config: Mapping[str, object], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        policy_of(name, config)
    assert str(refused.value).startswith(told)
    assert refused.value.code == "VALIDATION_ERROR"


@pytest.mark.parametrize(
    ("policy", "count", "tokens", "percent", "status"),
    [
        (TTL, 10_000, 10**9, 0.0, "healthy"),
        (BUDGET, 32, 0, 3200 / 35, "approaching"),
        (BUDGET, 35, 0, 100.0, "soft_limit"),
        (BUDGET, 50, 0, 5000 / 35, "hard_limit"),
        (Hybrid(max_tokens=1000), 3, 900, 90.0, "healthy"),
        (Hybrid(max_tokens=1000), 3, 901, 90.1, "approaching"),
        (Bounded(), 0, 3600, 90.0, "healthy"),
        (Bounded(), 0, 3601, 90.025, "approaching"),
    ],
)
def test_the_status_is_told_from_counts(policy: Policy, count: int, tokens: int, percent: float, status: str) -> None:
    found, called = policy.usage(count, tokens)
    assert (found == pytest.approx(percent), called) == (True, status)


# ----------------------------------------------------------------------- ttl
def added(seq: int = 0, **fields: object) -> Item:
    one = item(seq, **fields)
    return replace(one, expires_at=one.created_at + timedelta(seconds=TTL.ttl_seconds[one.priority]))  # type: ignore[index]


def test_the_priority_says_how_long_an_item_lives() -> None:
    hours = {"low": 1, "medium": 4, "high": 12, "critical": 24}
    assert {one: TTL.lifetime(one) for one in hours} == {one: count * 3600 for one, count in hours.items()}
    one = item(expires_at=START + HOUR)
    assert [one.is_expired(START + HOUR - MICROSECOND), one.is_expired(START + HOUR)] == [False, True]


# high: .36 + .3·(1 − age/12 h) + .15 + .0x; with 9 accesses and 200 characters: .83 − .3·age/12 h
OFTEN = item(priority="high", access_count=9, content="x" * 200)

OWN = Ttl.of({"ttl_seconds": {"low": 60}, "promote_accesses": {"low": 2}, "promote_age_seconds": 30,
              "promote_age_accesses": 1, "promote_score": 0.5})  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "one", "seconds", "reason"),
    [
        # Old, so that it is not the score; below six hours, so that it is not the age.
        (TTL, item(priority="low", access_count=10), 5 * 3600, "access_count"),
        (TTL, item(priority="low", access_count=9), 5 * 3600, ""),
        (TTL, item(priority="medium", access_count=15), 5 * 3600, "access_count"),
        (TTL, item(priority="high", access_count=19), 5 * 3600, ""),
        (TTL, item(priority="critical"), 0, "critical_and_accessed"),
        (TTL, item(priority="high"), 0, ""),
        (TTL, item(priority="critical", access_count=10), 5 * 3600, "access_count"),
        # .3 / 43,200 s is a 144,000th a second: .07 s is less than half a millionth, .08 s more
        (TTL, OFTEN, 1.2 * 3600 + 0.07, "importance_score"),
        (TTL, OFTEN, 1.2 * 3600 + 0.08, ""),
        (TTL, item(priority="high", access_count=5), 6 * 3600, ""),
        (TTL, item(priority="high", access_count=5), 6 * 3600 + 1e-6, "aged_and_active"),
        (TTL, item(priority="high", access_count=4), 6 * 3600 + 1e-6, ""),
        (OWN, item(priority="low", access_count=2), 20, "access_count"),
        (OWN, item(priority="low"), 31, "aged_and_active"),
        (OWN, item(priority="low"), 30, ""),
        (OWN, item(priority="high", content="x" * 100), 0, "importance_score"),  # .5
        (OWN, item(priority="high", content="x" * 99), 0, ""),
        (TTL.model_copy(update={"promote_critical_accesses": 2}), item(priority="critical"), 0, ""),
    ],
)
def test_what_makes_an_item_eligible(policy: Ttl, one: Item, seconds: float, reason: str) -> None:
    assert policy.eligible(one, START + timedelta(seconds=seconds)) == reason


def test_cleanup_promotes_what_is_eligible_and_drops_what_is_expired() -> None:
    items = [
        added(1),
        added(2, priority="critical"),
        added(3, priority="low", created_at=START - HOUR),
        added(4, priority="low", access_count=10, created_at=START - HOUR),
        added(5, priority="critical", promoted_to_id="c", created_at=START - DAY),
        added(6, priority="critical", promoted_to_id="c"),
        added(7, priority="critical", state=State.HIDDEN, created_at=START - DAY),
    ]
    plan = TTL.tick(view(items))
    assert [(step.item.seq, step.action, step.reason, step.leaves) for step in plan.steps] == [
        (3, Action.ARCHIVE, "expired", True),
        (4, Action.PROMOTE, "access_count", True),
        (5, Action.ARCHIVE, "expired", True),
        (7, Action.ARCHIVE, "expired", True),
        (2, Action.PROMOTE, "critical_and_accessed", False),
    ]
    assert (plan.log, plan.level) == ("Working memory cleanup - promoting 2, 4 expired", "info")
    assert TTL.tick(view(items[:1])).level == "debug"
    preview = [added(0, priority="high"), added(1, priority="low"), added(2), added(3)]
    assert [step.item.seq for step in TTL.order(view(preview))] == [1, 2, 3, 0]


# -------------------------------------------------------------------- budget
def many(count: int, protected: tuple[int, ...] = (), hidden: tuple[int, ...] = ()) -> list[Item]:
    """So many, a minute apart; the protected ones have a tag of those that protect."""
    return [
        item(
            seq,
            created_at=START + seq * MINUTE,
            tags=("todo", "insight") if seq in protected else ("todo",),
            state=State.HIDDEN if seq in hidden else State.LIVE,
        )
        for seq in range(count)
    ]


SOFT, HARD = "Working memory at soft limit ({}/35) - {}", "Working memory at hard limit ({}/50) - {}"


@pytest.mark.parametrize(
    ("items", "gone", "log"),
    [
        (many(34), [], "Working memory within budget (34/35/50)"),
        (many(35), range(10), SOFT.format(35, "making oldest 10 permanent")),
        (many(49, (0, 3)), [1, 2, *range(4, 12)], SOFT.format(49, "making oldest 10 permanent")),
        (many(37, tuple(range(29))), range(29, 37), SOFT.format(37, "making oldest 8 permanent")),
        (many(37, tuple(range(37))), [], SOFT.format(37, "all are protected, nothing leaves")),
        (
            many(35, (), (20, 30)),
            [20, 30, *range(8)],
            SOFT.format(35, "making oldest 8 permanent, archiving 2 forgotten"),
        ),
        (many(52, (0, 3, 20)), range(10), HARD.format(52, "archiving oldest 10")),
    ],
    ids=["below", "soft", "two protected", "few", "all protected", "forgotten", "hard"],
)
def test_a_budget_takes_a_batch_and_says_so(items: list[Item], gone: list[int], log: str) -> None:
    plan = BUDGET.tick(view(items))
    assert BUDGET.admit(view(items), items[-1].id) == plan, "a tick and an add check alike"
    assert (left(plan), plan.log) == (list(gone), log)
    hard = len(items) >= 50
    assert plan.level == ("warning" if hard else "info" if len(items) >= 35 else "debug")
    for step in plan.steps:
        hidden = step.item.state is State.HIDDEN
        promotes = not hidden and not hard
        assert step.action is (Action.PROMOTE if promotes else Action.ARCHIVE)
        assert step.reason == (FORGOTTEN if hidden else "hard_limit" if hard else "soft_limit")
        assert (step.leaves, step.rescue) == (True, hard and BUDGET.protects(step.item))


def test_six_tags_protect_in_exactly_this_case_unless_it_is_configured() -> None:
    for tag in BUDGET.protected_tags:
        assert BUDGET.protects(item(tags=("other", tag)))
        assert not BUDGET.protects(item(tags=(tag.capitalize(), tag.upper(), f"{tag} ", f"{tag}s")))
    own = Budget.of({"protected_tags": ["keep"]})
    assert [own.protects(item(tags=(tag,))) for tag in ("keep", "insight")] == [True, False]
    assert not Budget.of({"tag_aware_archival": False}).protects(item(tags=("insight",)))
    off = Budget.of({"enabled": False})
    assert (off.tick(view(many(60))).steps, list(off.order(view(many(60))))) == ((), [])


# ------------------------------------------------------------------- bounded
def test_the_bands_begin_at_three_and_at_seven_tenths() -> None:
    for importance, reason in {0.299: LOW, 0.3: CAPACITY, 0.699: CAPACITY, 0.7: PROTECTED}.items():
        assert [step.reason for step in Bounded().order(view([item(importance=importance)]))] == [reason]


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
def test_bounded_takes_by_the_published_key_as_few_as_keep_both_limits_and_sweeps_what_is_expired(
    items: list[Item], policy: Bounded
) -> None:
    seen = view(items)
    ranked = sorted(items, key=lambda one: published_key(policy, one, seen.step, START))
    assert [step.item for step in policy.order(seen)] == ranked
    gone = policy.admit(seen, items[-1].id).steps

    def fits(kept: list[Item]) -> bool:
        return len(kept) <= policy.max_items and sum(one.token_count for one in kept) <= policy.max_tokens

    needed = next(count for count in range(len(items) + 1) if fits(ranked[count:]))
    assert [step.item for step in gone] == ranked[:needed]
    last_resort = [step for step in gone if step.reason == PROTECTED]
    assert all(policy.protects(step.item) and step.rescue for step in last_resort)
    assert not last_resort or all(policy.protects(one) for one in ranked[needed:]), (
        "and nothing else was left to take"
    )
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
