"""`bounded`: a number of items and of tokens, after the Working Memory Store.

Who leaves is decided by (protected, not expired, band, recent, seq), the smallest first. The bound always wins:
protected items are the last resort. Age only ranks when room is needed; an explicit sweep takes what is expired.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import merge
from itertools import product
from typing import ClassVar, Self

from state.errors import UsageError
from state.sessions.item import Item
from state.sessions.moments import after
from state.sessions.policies.policy import (
    FORGOTTEN,
    HIDDEN,
    LIVE,
    Action,
    ItemView,
    Order,
    Plan,
    Policy,
    Range,
    Step,
    Usage,
    meet,
)
from state.sessions.policies.settings import Number, NumberOrNone, Seconds, Share, settings_in

TTL_EXCEEDED = "ttl_exceeded"
CAPACITY_EXPIRED = "capacity_exceeded_expired"
CAPACITY_LOW = "capacity_exceeded_low"
CAPACITY = "capacity_exceeded"
CAPACITY_PROTECTED = "capacity_exceeded_protected"


@dataclass(frozen=True, slots=True)
class _Class:
    """The items that share their first four places of the key: those in any of these ranges, by `seq`."""

    ranges: tuple[Range, ...]
    reason: str
    expired: bool
    rescue: bool = False

    def items(self, view: ItemView) -> Iterator[Item]:
        return merge(*(view.items(Order.FIRST_IN, only) for only in self.ranges), key=lambda item: item.seq)


@dataclass(frozen=True, slots=True)
class Bounded(Policy):
    """The limits, the two ages, and where the bands of importance begin. `wall_ttl` is in seconds."""

    max_items: Number = 64
    max_tokens: Number = 4_000
    step_ttl: NumberOrNone = 20
    wall_ttl: Seconds = 3_600.0
    importance_threshold_low: Share = 0.3
    importance_threshold_high: Share = 0.7
    recent_window: NumberOrNone = 5

    name: ClassVar[str] = "bounded"

    @classmethod
    def of(cls, config: Mapping[str, object]) -> Self:
        """With these settings. Raises UsageError."""
        policy = cls(**settings_in(cls, config))
        if policy.importance_threshold_low > policy.importance_threshold_high:
            raise UsageError(
                f"importance_threshold_low: {policy.importance_threshold_low:g} is above importance_threshold_high, "
                f"{policy.importance_threshold_high:g}"
            )
        return policy

    def protects(self, item: Item) -> bool:
        """Whether it is the last resort."""
        return item.importance >= self.importance_threshold_high

    def recent(self, item: Item, step: int) -> bool:
        """Whether it was added within the window before this step."""
        return item.step_index >= step - self.recent_window

    def outlived(self, item: Item, step: int, now: datetime) -> bool:
        """Whether it is older than the steps or the time that it has."""
        return item.step_index < step - self.step_ttl or item.created_at < after(now, -self.wall_ttl)

    def fits(self, tokens: int) -> str:
        """Refuses an item that is larger than the whole session may be."""
        return "" if tokens <= self.max_tokens else f"it has {tokens} tokens and the session holds {self.max_tokens}"

    def admit(self, new: Item, view: ItemView, now: datetime) -> Plan:  # noqa: ARG002
        """Items leave until both limits hold. The new one may be its own victim."""
        count, tokens = view.count, view.tokens
        filled = f"Working memory ({count}/{self.max_items} items, {tokens}/{self.max_tokens} tokens)"
        steps: list[Step] = []
        if self._holds(count, tokens):
            return Plan(log=f"{filled} within its limits")
        for step in self.order(view, now):
            steps.append(step)
            count, tokens = count - 1, tokens - step.item.token_count
            if self._holds(count, tokens):
                break
        lost = any(step.reason == CAPACITY_PROTECTED for step in steps)
        log = f"{filled} over its limits - evicting {len(steps)}"
        return Plan(tuple(steps), log, "warning" if lost else "info")

    def tick(self, view: ItemView, now: datetime) -> Plan:
        """A sweep: every item leaves that is older than it may be, protected or not."""
        hidden = (item for item in view.items(Order.FIRST_IN, HIDDEN) if self.outlived(item, view.step, now))
        steps = [Step(item, Action.ARCHIVE, TTL_EXCEEDED) for item in hidden]
        for part in self._classes(view, now):
            if part.expired:
                steps += (Step(item, Action.ARCHIVE, TTL_EXCEEDED) for item in part.items(view))
        return Plan(tuple(steps), f"Working memory swept - {len(steps)} expired", "info" if steps else "debug")

    def usage(self, count: int, tokens: int) -> Usage:
        """In per cent of the limit that is nearer."""
        percent = max(100 * count / self.max_items, 100 * tokens / self.max_tokens)
        return Usage(self.max_items, self.max_tokens, percent, "approaching" if percent > 90 else "healthy")

    def order(self, view: ItemView, now: datetime) -> Iterator[Step]:
        """What is softly forgotten, then by the key."""
        for item in view.items(Order.FIRST_IN, HIDDEN):
            yield Step(item, Action.ARCHIVE, FORGOTTEN)
        for part in self._classes(view, now):
            for item in part.items(view):
                yield Step(item, Action.ARCHIVE, part.reason, rescue=part.rescue)

    def _holds(self, count: int, tokens: int) -> bool:
        return count <= self.max_items and tokens <= self.max_tokens

    def _classes(self, view: ItemView, now: datetime) -> Iterator[_Class]:
        """The classes in the order of the key, without those that cannot have an item."""
        low, high = self.importance_threshold_low, self.importance_threshold_high
        bands = {
            CAPACITY_LOW: Range(importance_below=low),
            CAPACITY: Range(importance_from=low, importance_below=high),
            CAPACITY_PROTECTED: Range(importance_from=high),
        }
        bands = {band: only for band, only in bands.items() if _any(view, Order.LEAST_IMPORTANT, only)}
        unprotected = tuple(band for band in bands if band != CAPACITY_PROTECTED)
        protected = tuple(band for band in bands if band == CAPACITY_PROTECTED)
        ages = self._ages(view, now)
        window = view.step - self.recent_window
        recency = (Range(step_before=window), Range(step_from=window))
        for part, expired in product((unprotected, protected), (True, False)):
            for band, recent in product(part, recency):
                met = (meet(LIVE, bands[band], age, recent) for age in ages[expired])
                rescue = band == CAPACITY_PROTECTED
                reason = CAPACITY_EXPIRED if expired and not rescue else band
                yield _Class(tuple(only for only in met if only), reason, expired, rescue)

    def _ages(self, view: ItemView, now: datetime) -> Mapping[bool, tuple[Range, ...]]:
        """The ranges that are expired (True) and that are not; they do not overlap."""
        moment, stale = after(now, -self.wall_ttl), view.step - self.step_ttl
        if not _any(view, Order.OLDEST, Range(created_before=moment)):
            return {True: (Range(step_before=stale),), False: (Range(step_from=stale),)}
        by_clock, younger = Range(created_before=moment), Range(created_from=moment)
        by_steps = replace(younger, step_before=stale)
        return {True: (by_clock, by_steps), False: (replace(younger, step_from=stale),)}


def _any(view: ItemView, order: Order, only: Range) -> bool:
    """Whether a live item is in this range, asked in the order in which an index answers at once."""
    met = meet(LIVE, only)
    return met is not None and next(view.items(order, met), None) is not None
