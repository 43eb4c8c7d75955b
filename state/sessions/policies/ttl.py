"""`ttl`: the priority says how long an item lives; what is used enough becomes a crystal before it would be dropped.

The fifteen working_memory_* tools, after NEXS-MCP. Nothing leaves for want of room, and nothing is decided inside
add: a new critical item is pending, and is promoted at its first get.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Self

from state.sessions.importance import BASE_TTL_SECONDS, HOUR_SECONDS, PLACES, accesses_for, score
from state.sessions.item import Item, Priority, State
from state.sessions.moments import after, seconds_between
from state.sessions.policies.policy import Action, ItemView, Order, Plan, Policy, Step
from state.sessions.policies.settings import Lifetimes, Number, Numbers, Seconds, Share, settings_in

EXPIRED = "expired"
ENOUGH_ACCESSES = "access_count"
IMPORTANT_ENOUGH = "importance_score"
CRITICAL_AND_ACCESSED = "critical_and_accessed"
AGED_AND_ACTIVE = "aged_and_active"

_ACCESSES: Numbers = {"low": 10, "medium": 15, "high": 20, "critical": 10}
_CLEANUP_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Ttl(Policy):
    """How long items live, and from when on they are worth keeping for good."""

    ttl_seconds: Lifetimes = field(default_factory=lambda: {**BASE_TTL_SECONDS})
    promote_accesses: Numbers = field(default_factory=lambda: {**_ACCESSES})
    promote_score: Share = 0.8
    promote_critical_accesses: Number = 1
    promote_age_seconds: Seconds = 6 * HOUR_SECONDS
    promote_age_accesses: Number = 5

    name: ClassVar[str] = "ttl"
    tick_seconds: ClassVar[float | None] = _CLEANUP_SECONDS

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Self:
        """With these settings; a priority that a table lacks keeps its default. Raises UsageError."""
        values, defaults = settings_in(cls, config), cls()
        for key in values.keys() & {"ttl_seconds", "promote_accesses"}:
            values[key] = {**getattr(defaults, key), **values[key]}
        return cls(**values)

    def lifetime(self, item: Item) -> float | None:
        """As its priority says."""
        return self.ttl_seconds[item.priority.value]

    def extended(self, item: Item, now: datetime) -> datetime:
        """When it expires after one more time to live, counted from its expiry, or from now when that is past."""
        return after(max(now, item.expires_at or now), self.ttl_seconds[item.priority.value])

    def eligible(self, item: Item, now: datetime) -> str:
        """By which rule it is worth keeping for good; empty: by none."""
        if item.access_count >= self.promote_accesses[item.priority.value]:
            return ENOUGH_ACCESSES
        if score(item, now, self.ttl_seconds[item.priority.value]) >= round(self.promote_score, PLACES):
            return IMPORTANT_ENOUGH
        if item.priority is Priority.CRITICAL and item.access_count >= self.promote_critical_accesses:
            return CRITICAL_AND_ACCESSED
        aged = seconds_between(item.created_at, now) > self.promote_age_seconds
        return AGED_AND_ACTIVE if aged and item.access_count >= self.promote_age_accesses else ""

    def tick(self, view: ItemView, now: datetime) -> Plan:
        """What is eligible is promoted, and stays until it expires; what is expired leaves, promoted or not."""
        steps = tuple(
            step for step in self.order(view, now) if step.action is Action.PROMOTE or step.item.expired(now)
        )
        promoted = sum(step.action is Action.PROMOTE for step in steps)
        expired = sum(step.leaves for step in steps)
        log = f"Working memory cleanup - promoting {promoted}, {expired} expired"
        return Plan(steps, log, "info" if steps else "debug")

    def on_access(self, item: Item, now: datetime) -> Plan:
        """Promotes it when it is eligible; it remains accessible until it expires."""
        why = self._promotable(item, now)
        return Plan((Step(item, Action.PROMOTE, why, leaves=False),)) if why else Plan()

    def earning(self, priority: Priority) -> tuple[int, int]:
        """By the rules of `eligible`: those that count accesses alone always do."""
        always = self.promote_accesses[priority.value]
        if priority is Priority.CRITICAL:
            always = min(always, self.promote_critical_accesses)
        scored = accesses_for(round(self.promote_score, PLACES), priority)
        return min(always, self.promote_age_accesses, always if scored is None else scored), always

    def order(self, view: ItemView, now: datetime) -> Iterator[Step]:
        """By expiry; an eligible one is promoted first, and leaves only when it is expired."""
        for item in view.items(Order.EXPIRES_FIRST):
            why = self._promotable(item, now)
            if why:
                yield Step(item, Action.PROMOTE, why, leaves=item.expired(now))
            else:
                yield Step(item, Action.ARCHIVE, EXPIRED)

    def _promotable(self, item: Item, now: datetime) -> str:
        """Softly forgotten items are never made permanent."""
        return "" if item.promoted or item.state is State.HIDDEN else self.eligible(item, now)
