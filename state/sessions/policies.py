"""The policies by name. A fifth is one file more, and one line here."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Protocol

from state.errors import UsageError
from state.sessions.bounded import Bounded
from state.sessions.budget import Budget
from state.sessions.hybrid import Hybrid
from state.sessions.policy import Policy
from state.sessions.settings import shown
from state.sessions.ttl import Ttl


class Kind(Protocol):
    """A class of policies."""

    def of(self, config: Mapping[str, object]) -> Policy:
        """One with these settings. Raises UsageError, which names the key."""


POLICIES: Mapping[str, Kind] = {"ttl": Ttl, "budget": Budget, "hybrid": Hybrid, "bounded": Bounded}
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
