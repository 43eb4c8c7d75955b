"""Operations: what a synthesis asks of the lines of MEMORY.md, and why lines come and leave.

A model (or the extractive synthesis) answers with operations on lines by id, each citing the ids that justify it.
Code applies them; nothing else changes a document.
"""

from dataclasses import dataclass
from enum import StrEnum

from state.document.sections import SectionName


class Why(StrEnum):
    """Why lines of MEMORY.md come and leave; of a line that has left, its fate."""

    ADDED = "added"
    REVISED = "revised"
    MERGED = "merged"
    EVICTED = "evicted"
    DELETED = "deleted"
    ANSWERED = "answered"
    MOVED = "moved"
    RECALLED = "recalled"
    PINNED = "pinned"
    UNDONE = "undone"


class Action(StrEnum):
    """What an operation does."""

    ADD = "add"
    REVISE = "revise"
    MERGE = "merge"
    MOVE = "move"
    EVICT = "evict"
    CLOSE = "close"
    RECALL = "recall"
    LEARN = "learn"


@dataclass(frozen=True, slots=True)
class Operation:
    """What is asked. `lines` are the ids of the old lines (none for an addition), `cites` the ids that justify it.

    `text` is the new line; of an eviction the topic of its pointer, which leads to the line by `keywords` if these
    find it, and is not made without `pointer`. `section` is where the new line stands; for an eviction, where the old
    one stood. `until` is the last day (ISO 8601) on which the new line holds; empty: it has none.
    """

    action: Action
    section: SectionName
    text: str
    lines: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    importance: float | None = None
    until: str = ""
    keywords: str = ""
    pointer: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """A guard's refusal, with its figures: what was refused (`operation`, `section` or `dream`) and why."""

    guard: str
    scope: str
    figures: str
    operation: Operation | None = None
