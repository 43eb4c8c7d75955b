"""Review view: a staged change as text for a person: old and new side by side, what it rests on, and why it waits."""

import textwrap
from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from state.text.word_diff import word_diff

if TYPE_CHECKING:
    from daemon.api.operations.changes import ChangeToReview, SaidBy

_LEAST_COLUMN = 24
_MIDDLE = " │ "
POINTER = "(leaves MEMORY.md: a pointer leads to it)"
NOTHING = "(nothing)"


def rows_of(change: "ChangeToReview", width: int) -> Iterator[tuple[str, str]]:
    """Yield the rows of a change, each with its style on a terminal of this width."""
    yield f"{change.number}  {heading(change)}", "bold"
    old, new = marked_texts(change)
    for row in side_by_side(old, new, width - 3):
        yield f"   {row}", ""
    for piece in change.evidence:
        yield f"   {cited(piece)}", "cyan"
    if change.why:
        yield f"   {change.why}", "yellow"
    if change.outdated:
        yield "   its lines are no longer what they were, so it cannot apply", "red"


def heading(change: "ChangeToReview") -> str:
    """Say what the change does, where, and until when it waits."""
    state = "applied" if change.decision == "applied" else f"waits until {change.until:%Y-%m-%d}"
    return f"{change.action} · {change.section} · {state}"


def cited(piece: "SaidBy") -> str:
    """Say who said it, when, and what."""
    who = f"{piece.trust} ({piece.speaker})" if piece.speaker else piece.trust.value
    heard = f", heard: {piece.heard}" if piece.heard else ""
    return f"{who}{heard}, {piece.at:%Y-%m-%d}: {piece.text}"


def marked_texts(change: "ChangeToReview") -> tuple[str, str]:
    """Return old and new with the words that changed in [-…-] and {+…+}."""
    old = "\n".join(change.old)
    if change.action == "evict":
        return old, POINTER
    if not old:
        return NOTHING, change.new
    return marked(old, change.new)


def marked(old: str, new: str) -> tuple[str, str]:
    """Return both texts, with the words that only one of them has marked."""
    before, after = word_diff(old, new)
    return (
        "".join(_in_marks(part.text, "[-", "-]") if part.changed else part.text for part in before),
        "".join(_in_marks(part.text, "{+", "+}") if part.changed else part.text for part in after),
    )


def _in_marks(text: str, begin: str, end: str) -> str:
    """Return the text in marks, but for the space around it and its line breaks."""
    rows = text.split("\n")
    return "\n".join(
        row.replace(row.strip(), f"{begin}{row.strip()}{end}", 1) if row.strip() else row for row in rows
    )


def side_by_side(old: str, new: str, width: int) -> list[str]:
    """Lay out two texts in two columns of a width; one below the other where there is no room for that."""
    column = (width - len(_MIDDLE)) // 2
    if column < _LEAST_COLUMN:
        return [*(f"- {row}" for row in old.split("\n")), *(f"+ {row}" for row in new.split("\n"))]
    pairs = zip_longest(_wrapped(old, column), _wrapped(new, column), fillvalue="")
    return [f"{_padded(left, column)}{_MIDDLE}{right}".rstrip() for left, right in pairs]


def _wrapped(text: str, width: int) -> list[str]:
    # Wide characters take two columns: a row of nothing else holds half as many.
    narrow = width // 2 if _cells(text) > 1.5 * len(text) else width
    return [row for one in text.split("\n") for row in textwrap.wrap(one, narrow) or [""]]


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - _cells(text))


def _cells(text: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)
