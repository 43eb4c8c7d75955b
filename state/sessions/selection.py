"""Selection: which items of a session a query, a prompt, a context, a summary or an instruction takes."""

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
_SHORTEST_LINE = 4  # tokens: the two brackets, the number, a word
_MOST_WORDS = 64  # of a query
# Where a sentence ends, after its closing quotes and brackets; scripts without spaces need none after it.
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
        """Return whether this item passes."""
        wanted = (self.priority, item.priority), (self.agent_id, item.agent_id), (self.source, item.source)
        is_tagged = not self.tags or not set(self.tags).isdisjoint(item.tags)
        return is_tagged and all(not one or one == has for one, has in wanted)


class Excerpt(NamedTuple):
    """A text made of items, its tokens, and the items in order."""

    text: str
    token_count: int
    items: tuple[Item, ...]


def standing(items: Iterable[Item], now: datetime) -> list[Item]:
    """Return the items that are neither hidden nor expired, the most important first, then the newest."""
    found = [item for item in items if item.state == State.LIVE and not item.is_expired(now)]
    return sorted(found, key=_worth, reverse=True)


# ------------------------------------------------------------------------------------------------ queries


def relevance(item: Item, query: str) -> float | None:
    """Return .6·(1 − position/length) + .2·min(access/10, 1) + .2·importance_score; None: the query is not in it."""
    content, wanted = item.content.casefold(), query.casefold()
    place = content.find(wanted)
    if place < 0:
        return None
    early = 1 - place / len(content) if wanted else 1.0
    return round(0.6 * early + 0.2 * min(item.access_count / 10, 1.0) + 0.2 * item.importance_score, PLACES)


def query_words(query: str) -> list[str]:
    """Return the words of a query that carry meaning, or all of them if none does; at most 64."""
    found = list(dict.fromkeys(terms(query)))
    return ([word for word in found if word not in stop_words()] or found)[:_MOST_WORDS]


def is_about(prompt: str) -> Callable[[Item], bool]:
    """Return a test for items that hold the prompt in any case, or share a word with it that carries meaning.

    An empty prompt is about everything. Content is cut into words only where a word may be in it: that is a hundred
    times slower than looking for how the words begin. An English word begins as its stem does, but for the stem's
    last letter (berries, berry).
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

    `balanced` divides the importance by 1 + the age in hours. Without a number of tokens the set's own is the limit.
    """
    room = sum(item.token_count for item in items) if max_tokens is None else max_tokens
    ordered = standing(items, now)
    if strategy != "important":
        ordered.sort(key=_arrival, reverse=True)
    if strategy == "balanced":
        # Of equals the newest stays first: the sort is stable.
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
    """Summarize without a model: a line `[1] text` for each item of the scope, the most important first.

    An item that does not fit gives as many of its first sentences as do; one that gives none is passed over.
    """
    room, lines, sources = token_limit, list[str](), list[Item]()
    for item in filter(_scope(scope, step, bounded), standing(items, now)):
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
    """Return as much of the content as fits, in whole sentences; empty if not even one does, or it is blank."""
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


def meant(instruction: str, items: Sequence[Item], mode: str) -> list[Item]:
    """Return the items of the set that an instruction means: oldest, least important, position:N, before:step_N.

    A soft instruction means items that are not hidden yet. Positions are those of the set, hidden items included.
    Raise UnsupportedInstructionError, and NotFoundError if there is none.
    """
    chosen = items if mode == "hard" else [item for item in items if item.state == State.LIVE]
    numbered = _NUMBERED.fullmatch(instruction)
    # Python refuses to read the longest numbers; nine digits are more than any session has.
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
