"""Summaries: a summary without a model: the most important items as they are, within a number of tokens.

The same session gives the same summary. An item that does not fit gives as many of its first sentences as do; one
that gives none is passed over for the next.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from state.errors import UsageError
from state.sessions.item import Item
from state.sessions.policies.bounded import Bounded
from state.sessions.policies.policy import LIVE, ItemView, Order, Range
from state.sessions.policies.settings import shown
from state.text.chunks import tokens

_BY_TAG = "by_tag:"
_SHORTEST = 4  # tokens of a line: the two brackets, the number, a word
# Where a sentence ends, after its closing quotes and brackets; scripts without spaces need none after it.
_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*(?= )|(?<=[。！？])")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which items are summarized; None lets everything pass."""

    importance_from: float | None = None
    step_from: int | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """One line an item: `[1] text`, the number being its place among the sources, from 1."""

    text: str
    tokens: int
    sources: tuple[Item, ...]


def scope_of(text: str, step: int, bounded: Bounded) -> Scope:
    """`all`, `recent` (the window of steps before this one), `important` (the high band) or `by_tag:x`.

    Raises UsageError for any other.
    """
    if text == "all":
        return Scope()
    if text == "recent":
        return Scope(step_from=step - bounded.recent_window)
    if text == "important":
        return Scope(importance_from=bounded.importance_threshold_high)
    tag = text.removeprefix(_BY_TAG)
    if tag == text or not tag:
        raise UsageError(f"scope: {shown(text)} is none of all, recent, important, by_tag:x")
    return Scope(tag=tag)


def summarize(view: ItemView, scope: Scope, token_limit: int, now: datetime) -> Summary:
    """The items of the scope, the most important first, then the newest; neither hidden nor expired ones.

    Raises UsageError.
    """
    if token_limit < 1:
        raise UsageError(f"token_limit: {shown(token_limit)} is below 1")
    lines: list[str] = []
    sources: list[Item] = []
    spent = 0
    for item in _within(view, scope, now):
        line = _line(len(sources) + 1, item.content, token_limit - spent)
        if line:
            lines.append(line)
            sources.append(item)
            spent += tokens(line)
        if token_limit - spent < _SHORTEST:
            break
    return Summary("\n".join(lines), spent, tuple(sources))


def _within(view: ItemView, scope: Scope, now: datetime) -> Iterator[Item]:
    only = Range(LIVE.state, importance_from=scope.importance_from, step_from=scope.step_from)
    for item in view.items(Order.MOST_IMPORTANT, only):
        if not item.expired(now) and (scope.tag is None or scope.tag in item.tags):
            yield item


def _line(number: int, content: str, room: int) -> str:
    """As much of the content as the room has, in whole sentences; empty when not even one, or when it is blank."""
    text = " ".join(content.split())
    label = f"[{number}] "
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
