"""Prose: Markdown, paragraphs, or speakers' lines, whose blocks become turns; the file is the session."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from daemon.ingest.formats.cleaning import clean
from daemon.ingest.formats.lines import CALL_BYTES, CALL_PROBLEMS, CALL_TURNS, LINE_BYTES, Line, Place, lines_from
from daemon.ingest.formats.speakers import FENCE, Floor
from daemon.ingest.formats.turn import Problem, Reading, Record, Turn, Watermark, memory
from state.crystals.crystal import Source
from state.errors import DocumentError
from state.trust import Trust

_BLOCK_CHARACTERS = 64 * 1024
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(\S.*?)\s*#*\s*$")
_ITEM = re.compile(r" {0,1}(?:[-*+]|\d{1,9}[.)])\s+(?=\S)")
_RULE = re.compile(r" {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$")
_SPEECH = re.compile(r"(?:\[[^\]\n]{1,40}\]\s*)?([^\W\d][\w.'’-]{0,30}(?: [\w.'’-]{1,30}){0,2}):\s+(?=\S)")


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


Blocks = Callable[[str, Iterator[Line], Record], Iterator[Block]]


def read(place: Place, blocks: Blocks) -> Reading:
    """The blocks from `place` on, up to the end or to about one call's worth.

    The last block may still grow, so the next reading of a longer file begins with it again.
    """
    start = place.start
    lines = _Lines(place)
    turns: list[Turn] = []
    last: Block | None = None
    for block in blocks(str(place.path), iter(lines), memory(start.carry)):
        if len(turns) >= CALL_TURNS or block.start - start.resume >= CALL_BYTES:
            mark = _mark(place, block, block.start, start.turns + len(turns))
            return Reading(tuple(turns), mark, tuple(lines.problems), complete=False)
        last = block
        turns.append(_turn(place, block, start.turns + len(turns)))
    if last:
        mark = _mark(place, last, lines.end, start.turns + len(turns) - 1)
    else:
        mark = Watermark(lines.end, start.resume, start.lines, start.turns, place.digest(lines.end), start.carry)
    return Reading(tuple(turns), mark, tuple(lines.problems))


class _Lines:
    """The lines from a place on that are short enough; the others are reported. `end`: offset that was reached."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.end = place.start.resume
        self.problems: list[Problem] = []

    def __iter__(self) -> Iterator[Line]:
        start = self._place.start
        for line in lines_from(self._place.file, start.resume, start.lines + 1):
            self.end = line.end
            if not line.too_long:
                yield line
            elif len(self.problems) < CALL_PROBLEMS:
                what = f"longer than {LINE_BYTES // 2**20} MiB"
                self.problems.append(Problem(str(self._place.path), line.number, what))


def _mark(place: Place, block: Block, end: int, turns: int) -> Watermark:
    return Watermark(end, block.start, block.first_line - 1, turns, place.digest(end), block.carry)


def _turn(place: Place, block: Block, position: int) -> Turn:
    source = Source(str(place.path), block.first_line, block.last_line, block.digest)
    session = str(place.path)
    return Turn(block.text, block.speaker, block.trust, place.file_time, session, position, source, block.heading)


def is_heading(line: str) -> bool:
    """Whether the line is an ATX heading."""
    return bool(_HEADING.match(line[:400]))


def markdown(file: str, lines: Iterator[Line], memory: Record) -> Iterator[Block]:
    """The blocks of a document from a place where `memory` (headings above it, open fence) holds.

    Raises DocumentError at a line that is no UTF-8.
    """
    path = list(_pairs(memory.get("path")))
    fence, floor = str(memory.get("fence") or ""), Floor.remembered(memory)

    def known() -> Record:
        return {"path": path, "fence": fence, **floor.memory()}

    gathered, trust = Gathering(known()), floor.trust
    for line in lines:
        text = decoded(file, line)
        opening = FENCE.match(text)
        heading = _HEADING.match(text[:400])
        before = {"path": path, "fence": fence, **floor.memory()}
        if floor.heard(text) and floor.trust is not trust:
            yield from gathered.take(before, _heading(path), trust=trust)
        if fence:
            gathered.add(line, text)
            if opening and opening[1].startswith(fence) and text.strip() == opening[1]:
                fence = ""
                yield from gathered.take(known(), _heading(path), trust=trust)
        elif _begins(text):
            yield from gathered.take(before, _heading(path), trust=trust)
            fence = opening[1] if opening else ""
            if heading:
                level = len(heading[1])
                path = [*(above for above in path if above[0] < level), (level, heading[2])]
                gathered.forget(known())
            elif first_text := _without_mark(text):
                gathered.add(line, first_text)
        else:
            gathered.add(line, text)
        trust = floor.trust
        if gathered.full:
            yield from gathered.take(known(), _heading(path), trust=trust)
    yield from gathered.take(known(), _heading(path), trust=trust)


def _begins(text: str) -> bool:
    """Whether a line ends the block before it: a fence, a heading, a blank line, a rule or an item."""
    match = FENCE.match(text) or _HEADING.match(text[:400]) or _RULE.match(text[:80]) or _ITEM.match(text)
    return bool(match) or not text.strip()


def _without_mark(text: str) -> str:
    """What is said on the first line of a block; nothing on a blank line and a rule."""
    item = None if _RULE.match(text[:80]) else _ITEM.match(text)
    return "" if _RULE.match(text[:80]) else text[item.end() :] if item else text.strip() and text


def _heading(path: list[tuple[int, str]]) -> str:
    return " > ".join(title for _, title in path)


def _pairs(carried: object) -> Iterator[tuple[int, str]]:
    """The headings of a watermark; what cannot be one, in a watermark that was damaged, is left out."""
    for pair in carried if isinstance(carried, list) else ():
        match pair:
            case [int(level), str(title)]:
                yield level, title


def is_conversation(lines: Sequence[str]) -> bool:
    """Whether at least six in ten lines begin with a name, and names come back: "Host: …" in a list does not."""
    texts = [line for line in lines if line.strip()]
    names = Counter(label[1] for line in texts if (label := _SPEECH.match(line[:120])))
    named = names.total()
    return named >= 4 and named >= 0.6 * len(texts) and named >= 2 * len(names)


def paragraphs(file: str, lines: Iterator[Line], memory: Record) -> Iterator[Block]:
    """The paragraphs of a text. Raises DocumentError at a line that is no UTF-8."""
    floor = Floor.remembered(memory)
    gathered = Gathering(floor.memory())
    trust = floor.trust
    for line in lines:
        before, text = floor.memory(), decoded(file, line)
        if floor.heard(text) and floor.trust is not trust:
            yield from gathered.take(before, trust=trust)
        trust = floor.trust
        if text.strip():
            gathered.add(line, text.strip())
        if not text.strip() or gathered.full:
            yield from gathered.take(floor.memory(), trust=trust)
    yield from gathered.take(floor.memory(), trust=trust)


def speeches(file: str, lines: Iterator[Line], memory: Record) -> Iterator[Block]:
    """What each speaker says, up to the next name. Raises DocumentError at a line that is no UTF-8."""
    speaker, floor = str(memory.get("speaker") or ""), Floor.remembered(memory)
    gathered = Gathering({"speaker": speaker, **floor.memory()})
    for line in lines:
        before, text = floor.memory(), decoded(file, line)
        label = _SPEECH.match(text) if floor.is_open(text) else None
        text = text.strip()
        if label:
            yield from gathered.take({"speaker": speaker, **before}, speaker=speaker, trust=floor.trust)
            speaker, text = label[1], text[label.end() :]
            floor.given_to(speaker)
        gathered.add(line, text)
        if gathered.full:
            yield from gathered.take({"speaker": speaker, **floor.memory()}, speaker=speaker, trust=floor.trust)
    yield from gathered.take({"speaker": speaker, **floor.memory()}, speaker=speaker, trust=floor.trust)
