"""Operations: what a synthesis asks of the lines of MEMORY.md, and why lines come and leave.

A model (or the extractive synthesis) answers with operations on lines by id, each citing the ids that justify it.
Code applies them; nothing else changes a document.
"""

from dataclasses import dataclass
from enum import StrEnum

from state.document.sections import SectionName


class Why(StrEnum):
    """Why a line was added or replaced, or left."""

    ADDED = "added"
    REVISED = "revised"
    MERGED = "merged"
    EVICTED = "evicted"
    DELETED = "deleted"
    ANSWERED = "answered"
    MOVED = "moved"
    WEIGHED = "weighed"
    RECALLED = "recalled"
    PINNED = "pinned"
    UNDONE = "undone"


class Action(StrEnum):
    """What an operation does."""

    ADD = "add"
    REVISE = "revise"
    MERGE = "merge"
    MOVE = "move"
    WEIGH = "weigh"
    EVICT = "evict"
    CLOSE = "close"
    RECALL = "recall"
    LEARN = "learn"


NO_END = "none"


@dataclass(frozen=True, slots=True)
class Operation:
    """A requested operation. `lines` are the ids of the old lines (none for an addition), `cites` its evidence.

    `text` is the new line. For an eviction it is the topic of the pointer, which uses `keywords` if they find the
    line; without `pointer` none is made. `section` is that of the new line, or of the evicted one; of a recall
    Crystal Pointers, if the line goes back to the section it came from. `until` is the last day (ISO 8601) on which
    the new line holds; empty: that of the old line, if there is one; NO_END: none. To weigh a line gives it another
    importance or last day. An addition that cites a line and no input says a part of that line.
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
    """A guard's refusal: the scope it refuses (`operation`, `section` or `dream`), and why, in `figures`."""

    guard: str
    scope: str
    figures: str
    operation: Operation | None = None
