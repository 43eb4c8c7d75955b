"""Search: which items of a session match a query of the tools, or an agent's prompt."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from state.sessions.importance import PLACES
from state.sessions.item import Item, Priority
from state.sessions.policies.policy import LIVE, ItemView, Order
from state.sessions.policies.settings import Texts, read
from state.text.words import content_terms

_FULL_ACCESSES = 10
_FILTERS: Mapping[str, Any] = {
    "tags": Texts,
    "priority": Annotated[Priority, Field(strict=False)],
    "agent_id": str,
    "source": str,
}


@dataclass(frozen=True, slots=True)
class ItemFilters:
    """What an item must have; empty lets everything pass. Of the tags, any one; all compared exactly."""

    tags: tuple[str, ...] = ()
    priority: Priority | None = None
    agent: str = ""
    source: str = ""

    def let(self, item: Item) -> bool:
        """Whether it passes."""
        return (
            (not self.tags or not set(self.tags).isdisjoint(item.tags))
            and self.priority in (None, item.priority)
            and self.agent in ("", item.agent)
            and self.source in ("", item.source)
        )


@dataclass(frozen=True, slots=True)
class ItemMatch:
    """One result of a search; `relevance` is in [0, 1]."""

    item: Item
    relevance: float


def filters_of(config: Mapping[str, object]) -> ItemFilters:
    """From `tags`, `priority`, `agent_id` and `source`. Raises UsageError, which names the key."""
    values = read("memory_remember", _FILTERS, config)
    return ItemFilters(
        tags=values.get("tags", ()),
        priority=values.get("priority"),
        agent=values.get("agent_id", ""),
        source=values.get("source", ""),
    )


def search(items: Iterable[Item], query: str, filters: ItemFilters) -> tuple[ItemMatch, ...]:
    """Those that hold the query, in any case, by relevance; the oldest first of equals. Empty: all of them."""
    wanted = folded(query)
    matches = [
        ItemMatch(item, relevance)
        for item in items
        if filters.let(item) and (relevance := _relevance(item, wanted)) is not None
    ]
    return tuple(sorted(matches, key=lambda one: (-one.relevance, one.item.created_at, one.item.id)))


def folded(text: str) -> str:
    """The form in which the case of letters does not count."""
    return text.casefold()


def matching_items(view: ItemView, prompt: str, filters: ItemFilters, now: datetime) -> Iterator[Item]:
    """Those that a prompt is about, by importance, then the newest first; an empty prompt is about all.

    An item matches that holds the prompt in any case, or shares a word with it that carries meaning. Neither hidden
    nor expired ones are remembered.
    """
    wanted, words = folded(prompt.strip()), content_terms(prompt)
    hints = tuple(word[:-1] or word for word in words) + (("n't",) if "not" in words else ())
    for item in view.items(Order.MOST_IMPORTANT, LIVE):
        if item.expired(now) or not filters.let(item):
            continue
        content = folded(item.content)
        if wanted in content or (_may_share(content, hints) and not words.isdisjoint(content_terms(item.content))):
            yield item


def _may_share(content: str, hints: tuple[str, ...]) -> bool:
    """Whether a word may be in it: cutting into words is a hundred times slower than looking for their beginnings.

    An English word begins as its stem does, but for the stem's last letter (berries, berry).
    """
    return not content.isascii() or any(hint in content for hint in hints)


def _relevance(item: Item, wanted: str) -> float | None:
    """.6·(1 − position/length) + .2·min(access/10, 1) + .2·importance_score; None: the query is not in it."""
    content = folded(item.content) if wanted else ""
    place = content.find(wanted)
    if place < 0:
        return None
    early = 1 - place / len(content) if wanted else 1.0
    used = min(item.access_count / _FULL_ACCESSES, 1.0)
    return round(0.6 * early + 0.2 * used + 0.2 * item.importance_score, PLACES)
