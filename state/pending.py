"""Pending: how much of the scratch log no version has consumed, and how much of it one dream takes in."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from state.scratch import Note

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class PendingCount:
    """The pending notes: their number, characters and bytes, and the time of the earliest.

    `more`: there are further notes that are not counted; the figures are those of the oldest ones.
    """

    notes: int = 0
    characters: int = 0
    bytes: int = 0
    oldest: datetime | None = None
    more: bool = False

    def __str__(self) -> str:
        """Return the number of notes, `1,000+` if more were not counted."""
        return f"{self.notes:,}{'+' if self.more else ''}"


@dataclass(frozen=True, slots=True)
class Bite:
    """How much one dream takes in: at most `notes` notes, whose sizes by `size` add up to at most `room`."""

    notes: int
    room: int
    size: Callable[[Note], int]

    def of(self, found: Iterable[Found], note_of: Callable[[Found], Note]) -> list[Found]:
        """Return the first of these that fit, but always at least one."""
        taken, room = list[Found](), 0
        for one in found:
            room += self.size(note_of(one))
            if taken and (len(taken) == self.notes or room > self.room):
                break
            taken.append(one)
        return taken
