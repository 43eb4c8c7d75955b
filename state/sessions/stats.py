"""Stats: the counts and the capacity of a session, the same for every policy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Protocol

from state.sessions.importance import PLACES
from state.sessions.item import Item, Priority
from state.sessions.policies.by_name import settings_of
from state.sessions.policies.policy import Action, ItemView, Policy

_NEXT = 5


@dataclass(frozen=True, slots=True)
class Tally:
    """So many items of the set that are alike in this, and the sum of their computed importance, in millionths."""

    priority: Priority
    hidden: bool
    promoted: bool
    accesses: int
    items: int
    importance: int


class CountedView(ItemView, Protocol):
    """The set of a session with what is kept about it."""

    def tallies(self) -> Sequence[Tally]:
        """All items of the set, by what they are alike in."""

    def expired_count(self, now: datetime) -> int:
        """How many are expired."""

    def unpromoted(self, priority: Priority, accesses: range) -> Iterator[Item]:
        """Those of this priority, neither hidden nor promoted, that were accessed so often."""


@dataclass(frozen=True, slots=True)
class Leaver:
    """An item that is among the next to leave, what becomes of it, and why."""

    id: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """What fits, and what is left. None: the policy has no such limit."""

    policy: str
    items: int
    tokens: int
    max_items: int | None
    max_tokens: int | None
    available_items: int | None
    available_tokens: int | None
    utilisation: float
    status: str
    settings: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SessionStats:
    """Counts of the set: active and expired ones make up the total; hidden, promoted and pending ones are among both.

    `avg_importance` is of the computed importance, as of each item's last access.
    """

    session_id: str
    total_count: int
    active_count: int
    expired_count: int
    hidden_count: int
    promoted_count: int
    pending_promotion: int
    avg_access_count: float
    avg_importance: float
    by_priority: Mapping[str, int]
    step: int
    capacity: Capacity
    next_to_leave: tuple[Leaver, ...]


def capacity(policy: Policy, count: int, tokens: int) -> Capacity:
    """How full a session of this policy is."""
    usage = policy.usage(count, tokens)
    return Capacity(
        policy=policy.name,
        items=count,
        tokens=tokens,
        max_items=usage.max_items,
        max_tokens=usage.max_tokens,
        available_items=None if usage.max_items is None else max(0, usage.max_items - count),
        available_tokens=None if usage.max_tokens is None else max(0, usage.max_tokens - tokens),
        utilisation=usage.utilisation,
        status=usage.status,
        settings=settings_of(policy),
    )


def session_stats(session: str, policy: Policy, view: CountedView, now: datetime) -> SessionStats:
    """From what is kept of the set, the preview's beginning, and those items that may wait for promotion."""
    tallies = view.tallies()
    total, expired = sum(one.items for one in tallies), view.expired_count(now)
    accesses, importance = sum(one.accesses * one.items for one in tallies), sum(one.importance for one in tallies)
    return SessionStats(
        session_id=session,
        total_count=total,
        active_count=total - expired,
        expired_count=expired,
        hidden_count=sum(one.items for one in tallies if one.hidden),
        promoted_count=sum(one.items for one in tallies if one.promoted),
        pending_promotion=sum(_pending(policy, priority, tallies, view, now) for priority in Priority),
        avg_access_count=round(accesses / total, PLACES) if total else 0.0,
        avg_importance=round(importance / 10**PLACES / total, PLACES) if total else 0.0,
        by_priority={
            priority.value: sum(one.items for one in tallies if one.priority is priority) for priority in Priority
        },
        step=view.step,
        capacity=capacity(policy, view.count, view.tokens),
        next_to_leave=tuple(
            Leaver(step.item.id, step.action.value, step.reason) for step in islice(policy.order(view, now), _NEXT)
        ),
    )


def _pending(policy: Policy, priority: Priority, tallies: Sequence[Tally], view: CountedView, now: datetime) -> int:
    """How many items of this priority would be promoted at their next access; those in doubt alone are looked at."""
    earning = policy.earning(priority)
    if earning is None:
        return 0
    of = [one for one in tallies if one.priority is priority and not (one.hidden or one.promoted)]
    doubtful = range(*earning)
    sure = sum(one.items for one in of if one.accesses >= doubtful.stop)
    if not any(one.accesses in doubtful for one in of):
        return sure
    return sure + sum(
        any(step.action is Action.PROMOTE for step in policy.on_access(item, now).steps)
        for item in view.unpromoted(priority, doubtful)
    )
