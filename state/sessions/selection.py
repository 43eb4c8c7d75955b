"""Selection: which items of a session a query, prompt, context, summary or instruction selects."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from state.errors import NotFoundError, UnsupportedInstructionError, UsageError
from state.sessions.checks import Priority, Tags, Text, shown
from state.sessions.item import PLACES, Item, State
from state.sessions.policies import Bounded
from state.text.chunks import tokens
from state.text.words import content_terms, stop_words, terms

_HOUR = timedelta(hours=1)
_SHORTEST_LINE = 4  # tokens: two brackets, the number, a word
_MOST_WORDS = 64  # of a query
# The end of a sentence, after closing quotes and brackets; scripts without spaces need no space after it.
_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*(?= )|(?<=[。！？])")
_NUMBERED = re.compile(r"(position:|before:step_)(-?)0*([0-9]+)")
_arrival = attrgetter("created_at", "seq")
_worth = attrgetter("importance", "created_at", "seq")


class Filters(BaseModel):
    """What an item must have; of the tags, any one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tags: Tags | None = None
    priority: Priority | None = None
    agent_id: Text | None = None
    source: Text | None = None

    def let(self, item: Item) -> bool:
        """Return whether this item matches."""
        wanted = (self.priority, item.priority), (self.agent_id, item.agent_id), (self.source, item.source)
        is_tagged = not self.tags or not set(self.tags).isdisjoint(item.tags)
        return is_tagged and all(not one or one == has for one, has in wanted)


class Excerpt(NamedTuple):
    """A text made of items, its tokens, and the items in order."""

    text: str
    token_count: int
    items: tuple[Item, ...]


def visible_items(items: Iterable[Item], now: datetime) -> list[Item]:
    """Return the items that are neither hidden nor expired, most important first, then newest."""
    found = [item for item in items if item.state == State.LIVE and not item.is_expired(now)]
    return sorted(found, key=_worth, reverse=True)


# ------------------------------------------------------------------------------------------------ queries


def relevance(item: Item, query: str) -> float | None:
    """Return .6·(1 − position/length) + .2·min(access/10, 1) + .2·importance_score; None without the query."""
    content, wanted = item.content.casefold(), query.casefold()
    place = content.find(wanted)
    if place < 0:
        return None
    early = 1 - place / len(content) if wanted else 1.0
    return round(0.6 * early + 0.2 * min(item.access_count / 10, 1.0) + 0.2 * item.importance_score, PLACES)


def query_words(query: str) -> list[str]:
    """Return the content words of a query, or all its words if it has none; at most 64."""
    found = list(dict.fromkeys(terms(query)))
    return ([word for word in found if word not in stop_words()] or found)[:_MOST_WORDS]


def is_about(prompt: str) -> Callable[[Item], bool]:
    """Return a test for items that contain the prompt in any case, or share a content word with it.

    An empty prompt matches everything. Content is only split into words if it contains the beginning of a wanted
    word: splitting is a hundred times slower than that search. An English word begins like its stem, except for the
    stem's last letter (berries, berry).
    """
    wanted, words = prompt.strip().casefold(), content_terms(prompt)
    hints = tuple(word[:-1] or word for word in words) + (("n't",) if "not" in words else ())

    def test(item: Item) -> bool:
        content = item.content.casefold()
        if wanted in content:
            return True
        likely = not content.isascii() or any(hint in content for hint in hints)
        return likely and not words.isdisjoint(content_terms(item.content))

    return test


# ------------------------------------------------------------------------------------------------ texts


def context_of(items: Sequence[Item], strategy: str, max_tokens: int | None, now: datetime) -> Excerpt:
    """Join items in the order of the strategy, up to the first that does not fit (after HTM).

    `balanced` divides the importance by 1 + age in hours. Without `max_tokens` all items fit.
    """
    room = sum(item.token_count for item in items) if max_tokens is None else max_tokens
    ordered = visible_items(items, now)
    if strategy != "important":
        ordered.sort(key=_arrival, reverse=True)
    if strategy == "balanced":
        # The sort is stable: among equals the newest stays first.
        ordered.sort(key=lambda one: -one.importance / (1 + max(0.0, (now - one.created_at) / _HOUR)))
    taken, spent = list[Item](), 0
    for item in ordered:
        if spent + item.token_count > room:
            break
        taken.append(item)
        spent += item.token_count
    return Excerpt("\n\n".join(item.content for item in taken), spent, tuple(taken))


def summary_of(
    items: Sequence[Item], scope: str, token_limit: int, step: int, bounded: Bounded, now: datetime
) -> Excerpt:
    """Summarize without a model: one line `[1] text` per item of the scope, most important first.

    If an item does not fit, as many of its first sentences as fit are used; if none fits, it is skipped.
    """
    room, lines, sources = token_limit, list[str](), list[Item]()
    for item in filter(_scope(scope, step, bounded), visible_items(items, now)):
        if line := _line(len(sources) + 1, item.content, room):
            lines.append(line)
            sources.append(item)
            room -= tokens(line)
        if room < _SHORTEST_LINE:
            break
    return Excerpt("\n".join(lines), token_limit - room, tuple(sources))


def _scope(scope: str, step: int, bounded: Bounded) -> Callable[[Item], bool]:
    tag = scope.removeprefix("by_tag:")
    if scope == "all":
        return lambda _: True
    if scope == "recent":
        return lambda item: item.step_index >= step - bounded.recent_window
    if scope == "important":
        return lambda item: item.importance >= bounded.importance_threshold_high
    if tag == scope or not tag:
        raise UsageError(f"scope: {shown(scope)} is none of all, recent, important, by_tag:x")
    return lambda item: tag in item.tags


def _line(number: int, content: str, room: int) -> str:
    """Return as much of the content as fits, in whole sentences; "" if none fits or the content is blank."""
    text, label = " ".join(content.split()), f"[{number}] "
    room -= tokens(label)
    if tokens(text) <= room:
        return f"{label}{text}" if text else ""
    end = spent = 0
    for sentence in _END.finditer(text):
        spent += tokens(text[end : sentence.end()])
        if spent > room:
            break
        end = sentence.end()
    return f"{label}{text[:end]}" if end else ""


# ------------------------------------------------------------------------------------------------ forgetting


def select_items(instruction: str, items: Sequence[Item], mode: str) -> list[Item]:
    """Return the items that an instruction selects: oldest, least important, position:N, before:step_N.

    A soft instruction selects items that are not hidden yet. Positions count hidden items too. Raise
    UnsupportedInstructionError, and NotFoundError if it selects none.
    """
    chosen = items if mode == "hard" else [item for item in items if item.state == State.LIVE]
    numbered = _NUMBERED.fullmatch(instruction)
    # Python refuses to parse very long numbers; no session has items beyond nine digits.
    number = int(numbered[2] + numbered[3][:9]) if numbered else 0
    if instruction == "oldest":
        found = list(chosen[:1])
    elif instruction == "least important":
        found = sorted(chosen, key=_worth)[:1]
    elif numbered and numbered[1] == "position:":
        found = list(items[number : number + 1]) if number >= 0 else []
    elif numbered:
        found = [item for item in chosen if item.step_index < number]
    else:
        raise UnsupportedInstructionError(
            f"{shown(instruction)} is not an instruction",
            "use 'oldest', 'least important', 'position:N', 'before:step_N' or 'id:MEMORY_ID'",
        )
    if not found:
        raise NotFoundError(f"there is nothing for {instruction}", f"the session has {len(items)} items")
    return found
