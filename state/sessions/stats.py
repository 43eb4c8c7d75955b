"""Stats: the counts and the capacity of a session, the same for every policy."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from state.sessions.importance import PLACES
from state.sessions.item import Priority, State
from state.sessions.policies.by_name import settings_of
from state.sessions.policies.policy import Action, ItemView, Order, Policy

_NEXT = 5


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


def session_stats(session: str, policy: Policy, view: ItemView, now: datetime) -> SessionStats:
    """One pass over the set, and the preview's beginning."""
    counts: Counter[str] = Counter()
    priorities = Counter({priority.value: 0 for priority in Priority})
    importance = 0.0
    for item in view.items(Order.FIRST_IN):
        counts["total"] += 1
        counts["expired"] += item.expired(now)
        counts["hidden"] += item.state is State.HIDDEN
        counts["promoted"] += item.promoted
        counts["pending"] += any(step.action is Action.PROMOTE for step in policy.on_access(item, now).steps)
        counts["accesses"] += item.access_count
        priorities[item.priority.value] += 1
        importance += item.importance_score
    total = counts["total"]
    return SessionStats(
        session_id=session,
        total_count=total,
        active_count=total - counts["expired"],
        expired_count=counts["expired"],
        hidden_count=counts["hidden"],
        promoted_count=counts["promoted"],
        pending_promotion=counts["pending"],
        avg_access_count=round(counts["accesses"] / total, PLACES) if total else 0.0,
        avg_importance=round(importance / total, PLACES) if total else 0.0,
        by_priority=dict(priorities),
        step=view.step,
        capacity=capacity(policy, view.count, view.tokens),
        next_to_leave=tuple(
            Leaver(step.item.id, step.action.value, step.reason) for step in islice(policy.order(view, now), _NEXT)
        ),
    )
