import json
from collections.abc import Mapping

import pytest

from state.errors import UsageError
from state.sessions.policies import DEFAULT, POLICIES, Bounded, Budget, Hybrid, Ttl, policy_of, settings_of


def test_there_are_four_and_their_defaults_are_the_published_ones() -> None:
    assert {name: policy_of(name, {}) for name in POLICIES} == {
        "ttl": Ttl(),
        "budget": Budget(),
        "hybrid": Hybrid(),
        "bounded": Bounded(),
    }
    assert all(policy_of(name, {}).name == name for name in POLICIES)
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


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("ttl", {"ttl_seconds": {"low": 5.5}}),
        ("budget", {"preset": "research", "protected_tags": []}),
        ("hybrid", {"max_tokens": 7}),
        ("bounded", {"wall_ttl": 60}),
    ],
)
def test_its_settings_make_the_same_policy_again_through_json(name: str, config: Mapping[str, object]) -> None:
    policy = policy_of(name, config)
    assert policy_of(name, json.loads(json.dumps(settings_of(policy)))) == policy


@pytest.mark.parametrize(
    ("name", "config", "told"),
    [
        ("lru", {}, "policy: 'lru' is none of ttl, budget, hybrid, bounded"),
        ("TTL", {}, "policy: 'TTL'"),
        ("hybrid", {"max_items": 5}, "'max_items' is not a setting of the hybrid policy; there are max_tokens"),
        ("hybrid", {"max_tokens": 0}, "max_tokens: 0: input should be greater than or equal to 1"),
        ("hybrid", {"max_tokens": "9"}, "max_tokens: '9': input should be a valid integer"),
        ("hybrid", {"max_tokens": True}, "max_tokens: True: input should be a valid integer"),
        ("hybrid", {"max_tokens": 9.0}, "max_tokens: 9.0: input should be a valid integer"),
        ("hybrid", {"max_tokens": None}, "max_tokens: None: input should be a valid integer"),
        (
            "hybrid",
            {"max_tokens": 10**5000},
            "max_tokens: a number of more than eighteen digits: input",
        ),
        ("budget", {"batch_size": 0}, "batch_size: 0"),
        ("budget", {"soft_limit": -1}, "soft_limit: -1"),
        ("budget", {"enabled": 1}, "enabled: 1: input should be a valid boolean"),
        ("budget", {"protected_tags": "insight"}, "protected_tags: 'insight': input should be a valid tuple"),
        ("budget", {"protected_tags": ["a", 5]}, "protected_tags.1: 5: input should be a valid string"),
        ("bounded", {"wall_ttl": float("nan")}, "wall_ttl: nan: input should be"),
        ("bounded", {"wall_ttl": float("inf")}, "wall_ttl: inf: input should be"),
        (
            "bounded",
            {"importance_threshold_high": 1.1},
            "importance_threshold_high: 1.1: input should be less",
        ),
        ("bounded", {"max_items": 0}, "max_items: 0"),
        ("ttl", {"ttl_seconds": 60}, "ttl_seconds: 60: input should be a valid dictionary"),
        (
            "ttl",
            {"ttl_seconds": {"lowest": 60}},
            "ttl_seconds.lowest: 'lowest': input should be 'low', 'medium'",
        ),
        ("ttl", {"ttl_seconds": {"low": 0}}, "ttl_seconds.low: 0: input should be greater than or equal to 1"),
        ("ttl", {"promote_accesses": {"high": 2.5}}, "promote_accesses.high: 2.5: input should be a valid integer"),
        ("ttl", {"preset": "research"}, "'preset' is not a setting of the ttl policy"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_key(name: str, config: Mapping[str, object], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        policy_of(name, config)
    assert str(refused.value).startswith(told)
    assert refused.value.code == "VALIDATION_ERROR"


def test_the_ends_of_what_is_possible_are_possible() -> None:
    assert policy_of("hybrid", {"max_tokens": 1}) == Hybrid(max_tokens=1)
    assert policy_of("bounded", {"wall_ttl": 0, "step_ttl": 0, "recent_window": 0}).name == "bounded"
    assert policy_of("bounded", {"importance_threshold_low": 0, "importance_threshold_high": 1}).name == "bounded"
