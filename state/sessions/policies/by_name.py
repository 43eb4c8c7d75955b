"""Policies by name: makes a policy of its name and settings. A fifth one is one file more, and one line here."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, Protocol

from state.errors import UsageError
from state.sessions.policies.bounded import Bounded
from state.sessions.policies.budget import PRESETS, Budget
from state.sessions.policies.hybrid import Hybrid
from state.sessions.policies.policy import Policy
from state.sessions.policies.settings import Setting, shown
from state.sessions.policies.ttl import Ttl


class PolicyClass(Protocol):
    """A class of policies."""

    @property
    def settings(self) -> Mapping[str, Setting]:
        """What can be set, by its name."""

    def of(self, config: Mapping[str, object]) -> Policy:
        """One with these settings. Raises UsageError, which names the key."""


POLICIES: Mapping[str, PolicyClass] = {"ttl": Ttl, "budget": Budget, "hybrid": Hybrid, "bounded": Bounded}
# What a session has that was never opened.
DEFAULT = "ttl"


def policy_of(name: str, config: Mapping[str, object]) -> Policy:
    """The policy of this name with these settings; what is not set keeps its default.

    Raises UsageError, which names the key: a name or a key that is unknown, a wrong type, an impossible value.
    """
    if name not in POLICIES:
        raise UsageError(f"policy: {shown(name)} is none of {', '.join(POLICIES)}")
    return POLICIES[name].of(config)


def settings_of(policy: Policy) -> dict[str, object]:
    """All its settings, as JSON can hold them; `policy_of` makes the same policy of them."""
    if not is_dataclass(policy) or isinstance(policy, type):
        raise TypeError(f"{type(policy).__name__} is no dataclass: a policy's settings are its fields")
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(policy).items()}


def settings_schema() -> dict[str, Any]:
    """What a session can be opened with, as JSON schema: every policy's settings, each with who has it.

    A policy refuses those of another one.
    """
    settings: dict[str, dict[str, object]] = {"preset": {"enum": list(PRESETS), "description": "budget"}}
    for name, kind in POLICIES.items():
        for key, setting in kind.settings.items():
            policies = [str(settings[key]["description"])] if key in settings else []
            settings[key] = {**setting.schema, "description": ", ".join([*policies, name])}
    return {"type": "object", "properties": settings, "additionalProperties": False}
