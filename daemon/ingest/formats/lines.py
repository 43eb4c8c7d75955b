"""Lines: reads lines with their offsets from a file that may be huge, growing or binary, and can resume."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

LINE_BYTES = 8 * 1024 * 1024
_STEP = 64 * 1024
# Of a JSON record beyond LINE_BYTES, at most this much of each text is kept, and nothing of a picture in it.
_TEXT_BYTES = 1024 * 1024
_DATA = re.compile(rb"(?:data:[\w/+.;-]+,)?(?:[A-Za-z0-9+/=_-]|\\[nr/])*")
# A quotation mark, a run of other characters, or an escape that ends in the next step.
_TOKEN = re.compile(rb'"|(?:[^"\\]+|\\(?:u[0-9a-fA-F]{4}|[^u]))++|(\\(?:u[0-9a-fA-F]{0,3})?)\Z')
# The approximate size of one call, so that a file of any size is read in bounded memory.
CALL_BYTES = 16 * 1024 * 1024
CALL_TURNS = 20_000
CALL_PROBLEMS = 1_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line: `raw` with its line end, from `start` to `end` (byte offsets); `number` counts from 1.

    Of a JSON record that exceeds the cap, `raw` has the texts but no pictures (`is_cut`). If that is too long, or the
    line is no record, `raw` is only its beginning and `too_long` is True.
    """

    number: int
    start: int
    end: int
    raw: bytes
    too_long: bool = False
    is_cut: bool = False

    @property
    def ended(self) -> bool:
        """Return whether the line has its line end; a last line without one may still be being written."""
        return self.raw.endswith(b"\n")

    def decoded(self) -> str:
        """Return the text, without a byte order mark at the start of the file. Raise UnicodeDecodeError."""
        # A text may have been cut within a character.
        errors = "ignore" if self.is_cut else "strict"
        return self.raw.decode("utf-8-sig" if self.start == 0 else "utf-8", errors)


def lines_from(file: BinaryIO, start: int = 0, number: int = 1) -> Iterator[Line]:
    """Yield the lines of an open file from offset `start`, the beginning of line `number`."""
    file.seek(start)
    while raw := file.readline(LINE_BYTES):
        end = start + len(raw)
        too_long = is_cut = len(raw) == LINE_BYTES and not raw.endswith(b"\n")
        if too_long:
            kept = _Shortened(raw)
            while not kept.last.endswith(b"\n") and (step := file.readline(_STEP)):
                end += len(step)
                kept.add(step)
            too_long = len(kept.record) > LINE_BYTES
            raw = raw[:200] + b"\n" * kept.last.endswith(b"\n") if too_long else bytes(kept.record)
        yield Line(number, start, end, raw, too_long, is_cut and not too_long)
        start, number = end, number + 1


class _Shortened:
    """A JSON record read in steps, without its pictures and the rest of endless texts; `last` is the last step."""

    def __init__(self, begins: bytes) -> None:
        self.record, self.last = bytearray(), b""
        self._is_record = begins.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
        self._unfinished, self._text, self._dropping = b"", -1, False  # `_text`: where the open text begins
        for at in range(0, len(begins), _STEP):
            self.add(begins[at : at + _STEP])

    def add(self, step: bytes) -> None:
        """Add the next part, which is dropped if the record is too long already."""
        self.last, step, self._unfinished = step, self._unfinished + step, b""
        for token in _TOKEN.finditer(step):
            if token[1]:
                self._unfinished = token[1]
            else:
                self._take(token[0])

    def _take(self, token: bytes) -> None:
        if len(self.record) > LINE_BYTES:
            return
        if token == b'"':
            self._text, self._dropping = (len(self.record) + 1 if self._text < 0 else -1), False
        elif self._dropping:
            return
        self.record += token
        size = len(self.record) - self._text if self._text >= 0 and self._is_record else 0
        if size >= _STEP and _DATA.fullmatch(self.record, self._text):
            del self.record[self._text :]
            self._dropping = True
        elif size > _TEXT_BYTES:
            self.record += " …".encode()
            self._dropping = True
