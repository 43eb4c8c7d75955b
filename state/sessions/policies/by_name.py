"""Policies by name: makes a policy of its name and settings. A fifth one is one file more, and one line here."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, cast

from state.errors import UsageError
from state.sessions.policies.bounded import Bounded
from state.sessions.policies.budget import PRESETS, Budget
from state.sessions.policies.hybrid import Hybrid
from state.sessions.policies.policy import Policy
from state.sessions.policies.settings import adapter, kinds_of, shown
from state.sessions.policies.ttl import Ttl

POLICIES: Mapping[str, type[Policy]] = {policy.name: policy for policy in (Ttl, Budget, Hybrid, Bounded)}
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
    for name, policy in POLICIES.items():
        for key, kind in kinds_of(cast("Any", policy)).items():
            policies = [str(settings[key]["description"])] if key in settings else []
            settings[key] = {**_lean(adapter(kind).json_schema()), "description": ", ".join([*policies, name])}
    return {"type": "object", "properties": settings, "additionalProperties": False}


def _lean(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without bounds: an agent reads it with every tool, and an error names the bound."""
    if "propertyNames" in schema:
        names = schema["propertyNames"]["enum"]
        return {"type": "object", "properties": dict.fromkeys(names, _lean(schema["additionalProperties"]))}
    items = {"items": _lean(schema["items"])} if "items" in schema else {}
    return {"type": schema["type"], **items}
