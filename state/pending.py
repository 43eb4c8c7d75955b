"""Pending: how much of the scratch log no version has consumed, and how much of it one dream takes in."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from state.scratch import Note

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class PendingCount:
    """How much is pending: notes, their characters and bytes, and the earliest of their stamps.

    `more`: there are more notes than these, which are not counted; the figures are those of the oldest ones.
    """

    notes: int = 0
    characters: int = 0
    bytes: int = 0
    oldest: datetime | None = None
    more: bool = False

    def __str__(self) -> str:
        """Write the number of notes, `1,000+` where more were not counted."""
        return f"{self.notes:,}{'+' if self.more else ''}"


@dataclass(frozen=True, slots=True)
class Bite:
    """How much a dream takes in: so many notes, which need no more room together than `room`, as `size` has it."""

    notes: int
    room: int
    size: Callable[[Note], int]

    def of(self, found: Iterable[Found], note_of: Callable[[Found], Note]) -> list[Found]:
        """Return the first of these, as many as it holds; the first one always is among them."""
        taken, room = list[Found](), 0
        for one in found:
            room += self.size(note_of(one))
            if taken and (len(taken) == self.notes or room > self.room):
                break
            taken.append(one)
        return taken
