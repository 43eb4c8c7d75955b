"""Blocks: consecutive lines of a document that belong together, and their place."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from daemon.ingest.formats.cleaning import clean
from daemon.ingest.formats.lines import Line
from daemon.ingest.formats.turn import Record
from state.errors import DocumentError
from state.trust import Trust

_BLOCK_CHARACTERS = 64 * 1024


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a list item, a code block or what one speaker says, in lines `first_line` to `last_line`.

    `trust` says whose word it is. `start` is its offset in bytes and `carry` what its reader knew there, as JSON:
    reading may begin at it again.
    """

    text: str
    first_line: int
    last_line: int
    start: int
    digest: str
    carry: str
    heading: str = ""
    speaker: str = ""
    trust: Trust = Trust.OWNER


class Gathering:
    """Lines that are becoming a block. `memory` is the reader's where the block begins."""

    def __init__(self, memory: Record) -> None:
        self.forget(memory)

    def forget(self, memory: Record) -> None:
        """Begin anew with what the reader knows now."""
        self._memory = json.dumps(memory)
        self._lines: list[Line] = []
        self._texts: list[str] = []
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether the block is long enough to be one, whatever follows."""
        return self._size >= _BLOCK_CHARACTERS

    def add(self, line: Line, text: str) -> None:
        self._lines.append(line)
        self._texts.append(text)
        self._size += len(text)

    def take(
        self, memory: Record, heading: str = "", speaker: str = "", trust: Trust = Trust.OWNER
    ) -> Iterator[Block]:
        """The block gathered so far, if it says anything; the next one begins with `memory`."""
        text = clean("\n".join(self._texts))
        if text and any(letter.isalnum() for letter in text):
            first, last = self._lines[0], self._lines[-1]
            digest = hashlib.sha256(b"".join(line.raw for line in self._lines)).hexdigest()
            yield Block(text, first.number, last.number, first.start, digest, self._memory, heading, speaker, trust)
        self.forget(memory)


def decoded(file: str, line: Line) -> str:
    """The text of a line without its line end. Raises DocumentError when it is no UTF-8."""
    try:
        return line.raw.decode("utf-8-sig" if line.start == 0 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{file}:{line.number}: byte 0x{line.raw[error.start]:02x} is not UTF-8",
            "convert the file to UTF-8, or leave it out",
        ) from error
