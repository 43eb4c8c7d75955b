"""Context: a session's items as one text for a model, within a number of tokens, by three strategies (after HTM)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from state.errors import UsageError
from state.sessions.importance import HOUR_SECONDS
from state.sessions.item import Item
from state.sessions.moments import seconds_between
from state.sessions.policies.policy import LIVE, ItemView, Order
from state.sessions.policies.settings import shown


class Strategy(StrEnum):
    """In which order items are taken."""

    RECENT = "recent"  # the newest first
    IMPORTANT = "important"  # the most important first, then the newest
    BALANCED = "balanced"  # importance / (1 + age in hours), the highest first


@dataclass(frozen=True, slots=True)
class Context:
    """What was taken, in order. Blank lines between items count no tokens."""

    text: str
    tokens: int
    items: tuple[Item, ...]


def strategy_of(name: str) -> Strategy:
    """The strategy of this name. Raises UsageError."""
    names = [strategy.value for strategy in Strategy]
    if name not in names:
        raise UsageError(f"strategy: {shown(name)} is none of {', '.join(names)}")
    return Strategy(name)


def assemble(view: ItemView, strategy: Strategy, max_tokens: int, now: datetime) -> Context:
    """Items in the order of the strategy, up to the first that does not fit; neither hidden nor expired ones.

    Raises UsageError.
    """
    if max_tokens < 1:
        raise UsageError(f"max_tokens: {shown(max_tokens)} is below 1")
    taken: list[Item] = []
    spent = 0
    for item in _ordered(view, strategy, now):
        if item.expired(now):
            continue
        if spent + item.token_count > max_tokens:
            break
        taken.append(item)
        spent += item.token_count
    return Context("\n\n".join(item.content for item in taken), spent, tuple(taken))


def balance(item: Item, now: datetime) -> float:
    """Its importance, halved when it is an hour old, a third after two."""
    return item.importance / (1 + seconds_between(item.created_at, now) / HOUR_SECONDS)


def _ordered(view: ItemView, strategy: Strategy, now: datetime) -> Iterator[Item]:
    if strategy is Strategy.RECENT:
        return view.items(Order.NEWEST, LIVE)
    if strategy is Strategy.IMPORTANT:
        return view.items(Order.MOST_IMPORTANT, LIVE)
    # Of equals the newest first: the sort keeps their order.
    return iter(sorted(view.items(Order.NEWEST, LIVE), key=lambda item: -balance(item, now)))
