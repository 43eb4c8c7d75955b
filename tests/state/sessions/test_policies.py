"""The four policies: their published defaults and examples, what they say, and what cannot be meant."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

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


# -------------------------------------------------------------------- hybrid


NAMES = ("random_note", "debug_log", "temp_calc", "user_pref", "architecture_decision")


@pytest.mark.parametrize(
    ("tokens", "limit", "gone"),
    [
        (5000, 8200, ["random_note", "temp_calc", "debug_log"]),
        (4100, 8200 + 500, ["random_note", "temp_calc"]),  # 3,600 have to go: exactly what the first two have
        (4101, 8200 + 500, ["random_note", "temp_calc", "debug_log"]),
        (8200, 8200, ["random_note", "temp_calc", "debug_log", "user_pref", "architecture_decision"]),
    ],
)
def test_hybrid_frees_the_deficit_as_in_the_published_figure(tokens: int, limit: int, gone: list[str]) -> None:
    """Importance is there from 0 to 10. The new one, however little it matters, is never its own victim."""
    figures = [
        (0.1, 2000, HOUR),
        (0.2, 1500, 2 * DAY),
        (0.15, 1600, 5 * DAY),
        (0.8, 100, 5 * DAY),
        (1.0, 3000, 3 * DAY),
    ]
    items = [
        item(seq, id=name, importance=importance, token_count=size, created_at=START - age)
        for seq, (name, (importance, size, age)) in enumerate(zip(NAMES, figures, strict=True))
    ]
    new = item(9, id="new", importance=0.0, token_count=tokens)
    plan = Hybrid(max_tokens=limit).admit(view([*items, new]), new.id)
    assert [step.item.id for step in plan.steps] == gone
    assert {(step.action, step.reason, step.leaves) for step in plan.steps} == {(Action.ARCHIVE, "token_limit", True)}
    if tokens == 5000:
        assert plan.log == "Working memory 5000 tokens over 8200 - evicting 3 items, 5100 tokens"


# ------------------------------------------------------------------- bounded


def test_bounded_takes_the_oldest_for_one_too_many_and_the_bound_wins_over_protection() -> None:
    items = [item(seq) for seq in range(65)]
    assert Bounded().admit(view(items[:64]), items[63].id).steps == ()
    plan = Bounded().admit(view(items), items[64].id)
    assert (left(plan), plan.level) == ([0], "info")
    assert plan.log == "Working memory (65/64 items, 65/4000 tokens) over its limits - evicting 1"
    dear = [item(seq, importance=0.7 + seq / 100, created_at=START + seq * MINUTE) for seq in range(5)]
    plan = Bounded(max_items=3).admit(view(dear), dear[-1].id)
    assert [(step.item.seq, step.reason, step.rescue) for step in plan.steps] == [
        (0, PROTECTED, True),
        (1, PROTECTED, True),
    ]
    assert plan.level == "warning"
    weak = [*dear[:3], item(3, importance=0.69)]
    assert left(Bounded(max_items=3).admit(view(weak), weak[-1].id)) == [3]  # a new item may be its own victim


def test_the_bands_begin_at_three_and_at_seven_tenths() -> None:
    for importance, reason in {0.299: LOW, 0.3: CAPACITY, 0.699: CAPACITY, 0.7: PROTECTED}.items():
        assert [step.reason for step in Bounded().order(view([item(importance=importance)]))] == [reason]


def test_the_published_scenario() -> None:
    """105 items come by step 20, 4,500 tokens; the low ones of the first steps make room. 64 items are the bound."""
    policy = Bounded(max_items=100)
    items: list[Item] = []
    for step, count, tokens in ((0, 10, 50), (5, 20, 50), (10, 30, 34), (15, 25, 40), (20, 20, 48)):
        for _ in range(count):
            low = step <= 5 and len(items) % 2
            items.append(item(len(items), step_index=step, token_count=tokens, importance=0.1 if low else 0.5))
            gone = policy.admit(view(items), items[-1].id).steps
            assert all(victim.item.importance < 0.3 and victim.item.step_index <= 5 for victim in gone)
            items = [one for one in items if one not in [victim.item for victim in gone]]
    assert sum(one.token_count for one in items) <= 4000
    assert sum(one.step_index == 20 for one in items) == 20
