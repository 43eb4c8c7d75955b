"""Lines: those of a file that may be huge, growing or binary, with their places, and where reading goes on."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

LINE_BYTES = 8 * 1024 * 1024
_STEP = 64 * 1024
# One call reads about so much, so that a file of any size is read in bounded memory.
CALL_BYTES = 16 * 1024 * 1024
CALL_TURNS = 20_000
CALL_PROBLEMS = 1_000


@dataclass(frozen=True, slots=True)
class Line:
    """`raw` with its line end, from `start` up to `end` (offsets in bytes); `number` counts from 1.

    Of a line longer than the cap `raw` is the beginning and `too_long` is True.
    """

    number: int
    start: int
    end: int
    raw: bytes
    too_long: bool = False

    @property
    def ended(self) -> bool:
        """Whether the line has its line end: an unended last line may still be being written."""
        return self.raw.endswith(b"\n")


def lines_from(file: BinaryIO, start: int = 0, number: int = 1) -> Iterator[Line]:
    """Yield the lines of an open file from offset `start`, which is the beginning of line `number`."""
    file.seek(start)
    while raw := file.readline(LINE_BYTES):
        end = start + len(raw)
        too_long = len(raw) == LINE_BYTES and not raw.endswith(b"\n")
        if too_long:
            end, ended = _skip(file, end)
            raw = raw[:200] + (b"\n" if ended else b"")
        yield Line(number, start, end, raw, too_long)
        start, number = end, number + 1


def _skip(file: BinaryIO, end: int) -> tuple[int, bool]:
    """Read on to the end of a line; return its offset, and whether the line has a line end."""
    while rest := file.readline(_STEP):
        end += len(rest)
        if rest.endswith(b"\n"):
            return end, True
    return end, False


@dataclass(frozen=True, slots=True)
class Place:
    """A file by its name, and the time at which it was changed."""

    name: str
    at: datetime
