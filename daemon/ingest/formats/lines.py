"""Lines: reads lines with their offsets from a file that may be huge, growing or binary, and can resume."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

LINE_BYTES = 8 * 1024 * 1024
_STEP = 64 * 1024
# The approximate size of one call, so that a file of any size is read in bounded memory.
CALL_BYTES = 16 * 1024 * 1024
CALL_TURNS = 20_000
CALL_PROBLEMS = 1_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line: `raw` with its line end, from `start` to `end` (byte offsets); `number` counts from 1.

    If a line exceeds the cap, `raw` is only its beginning and `too_long` is True.
    """

    number: int
    start: int
    end: int
    raw: bytes
    too_long: bool = False

    @property
    def ended(self) -> bool:
        """Return whether the line has its line end; a last line without one may still be being written."""
        return self.raw.endswith(b"\n")

    def decoded(self) -> str:
        """Return the text, without a byte order mark at the start of the file. Raise UnicodeDecodeError."""
        return self.raw.decode("utf-8-sig" if self.start == 0 else "utf-8")


def lines_from(file: BinaryIO, start: int = 0, number: int = 1) -> Iterator[Line]:
    """Yield the lines of an open file from offset `start`, the beginning of line `number`."""
    file.seek(start)
    while raw := file.readline(LINE_BYTES):
        end = start + len(raw)
        too_long = len(raw) == LINE_BYTES and not raw.endswith(b"\n")
        if too_long:
            rest = b""
            while not rest.endswith(b"\n") and (rest := file.readline(_STEP)):
                end += len(rest)
            raw = raw[:200] + b"\n" * rest.endswith(b"\n")
        yield Line(number, start, end, raw, too_long)
        start, number = end, number + 1
