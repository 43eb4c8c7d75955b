"""A session's set in a list, and items with a clock that stands still until it is moved."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from state.sessions.item import Item, Priority, State
from state.sessions.policies.policy import EVERYTHING, Order, Range
from state.sessions.stats import Tally

START = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

_FIRST_TO_LAST: dict[Order, Callable[[Item], Any]] = {
    Order.OLDEST: lambda item: (item.created_at, item.seq),
    Order.LEAST_IMPORTANT: lambda item: (item.importance, item.created_at, item.seq),
    Order.EXPIRES_FIRST: lambda item: (item.expires_at, item.seq),
    Order.FIRST_IN: lambda item: item.seq,
}
_BACKWARDS = {Order.NEWEST: Order.OLDEST, Order.MOST_IMPORTANT: Order.LEAST_IMPORTANT}


@dataclass
class ListShelf:
    """Sorts and filters a list at each question, and counts what is read of the answers."""

    content: Sequence[Item]
    current_step: int | None = None
    read: int = 0

    @property
    def count(self) -> int:
        return len(self.content)

    @property
    def tokens(self) -> int:
        return sum(item.token_count for item in self.content)

    @property
    def step(self) -> int:
        highest = max((one.step_index for one in self.content), default=0)
        return highest if self.current_step is None else self.current_step

    def items(self, order: Order, only: Range = EVERYTHING) -> Iterator[Item]:
        found = [item for item in self.content if _asked(item, only)]
        if order is Order.EXPIRES_FIRST:
            found = [item for item in found if item.expires_at is not None]
        forwards = _BACKWARDS.get(order, order)
        for item in sorted(found, key=_FIRST_TO_LAST[forwards], reverse=order is not forwards):
            self.read += 1
            yield item

    def tallies(self) -> list[Tally]:
        return [
            Tally(one.priority, one.state is State.HIDDEN, one.promoted, one.access_count, 1, millionths(one))
            for one in self.content
        ]

    def expired_count(self, now: datetime) -> int:
        return sum(one.expired(now) for one in self.content)

    def unpromoted(self, priority: Priority, accesses: range) -> Iterator[Item]:
        for one in self.content:
            is_asked = one.priority is priority and one.access_count in accesses
            if is_asked and one.state is State.LIVE and not one.promoted:
                self.read += 1
                yield one


def millionths(one: Item) -> int:
    return round(one.importance_score * 1_000_000)


def item(seq: int = 0, **fields: Any) -> Item:
    """An item of one token, middling and new, as far as nothing else is said."""
    created = fields.get("created_at", START)
    usual: dict[str, Any] = {
        "id": f"item-{seq}",
        "session": "s",
        "seq": seq,
        "content": f"note {seq}",
        "priority": Priority.MEDIUM,
        "importance": 0.5,
        "token_count": 1,
        "created_at": created,
        "last_accessed_at": created,
    }
    return Item(**{**usual, **fields})


def seqs(items: Iterable[Item]) -> list[int]:
    return [one.seq for one in items]


def _asked(one: Item, only: Range) -> bool:
    return all(
        (
            only.state is None or one.state is only.state,
            only.importance_from is None or one.importance >= only.importance_from,
            only.importance_below is None or one.importance < only.importance_below,
            only.created_from is None or one.created_at >= only.created_from,
            only.created_before is None or one.created_at < only.created_before,
            only.step_from is None or one.step_index >= only.step_from,
            only.step_before is None or one.step_index < only.step_before,
        )
    )
