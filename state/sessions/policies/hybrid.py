"""`hybrid`: a number of tokens; the least important and oldest items make room, after HTM's ADR-007.

What was evicted is recalled from the cold archive, and makes room for itself when it comes back.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from state.sessions.item import Item
from state.sessions.policies.policy import FORGOTTEN, HIDDEN, LIVE, Action, ItemView, Order, Plan, Policy, Step, Usage
from state.sessions.policies.settings import Number

TOKEN_LIMIT = "token_limit"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Hybrid(Policy):
    """How many tokens fit."""

    max_tokens: Number = 128_000

    name: ClassVar[str] = "hybrid"

    def fits(self, tokens: int) -> str:
        """Refuses an item that is larger than the whole session may be."""
        return "" if tokens <= self.max_tokens else f"it has {tokens} tokens and the session holds {self.max_tokens}"

    def admit(self, new: Item, view: ItemView, now: datetime) -> Plan:
        """The deficit is evicted, item by item, and no more. The new item is never its own victim."""
        deficit = view.tokens - self.max_tokens
        steps: list[Step] = []
        freed = 0
        if deficit > 0:
            for step in self.order(view, now):
                if step.item.id == new.id:
                    continue
                steps.append(step)
                freed += step.item.token_count
                if freed >= deficit:
                    break
        if not steps:
            return Plan(log=f"Working memory fits ({view.tokens}/{self.max_tokens} tokens)")
        log = f"Working memory {deficit} tokens over {self.max_tokens} - evicting {len(steps)} items, {freed} tokens"
        return Plan(tuple(steps), log, "info")

    def usage(self, count: int, tokens: int) -> Usage:  # noqa: ARG002
        """In per cent of the tokens."""
        status = "approaching" if 100 * tokens > 90 * self.max_tokens else "healthy"
        return Usage(None, self.max_tokens, 100 * tokens / self.max_tokens, status)

    def order(self, view: ItemView, now: datetime) -> Iterator[Step]:  # noqa: ARG002
        """What is softly forgotten, then the least important, the oldest of those first."""
        for item in view.items(Order.LEAST_IMPORTANT, HIDDEN):
            yield Step(item, Action.ARCHIVE, FORGOTTEN)
        for item in view.items(Order.LEAST_IMPORTANT, LIVE):
            yield Step(item, Action.ARCHIVE, TOKEN_LIMIT)
