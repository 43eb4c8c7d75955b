"""Prose: Markdown, paragraphs, or speakers' lines, whose blocks become turns; the file is the session.

A text is read whole: who has the floor in it, and under which heading, depends on all that stands above.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO

from daemon.ingest.formats.cleaning import clean
from daemon.ingest.formats.lines import CALL_PROBLEMS, CALL_TURNS, LINE_BYTES, Line, Place, lines_from
from daemon.ingest.formats.speakers import FENCE, Floor
from daemon.ingest.formats.turn import Problem, Reading, Turn, Watermark
from state.crystals.crystal import Source
from state.errors import DocumentError
from state.trust import Trust

TEXT_BYTES = 16 * 1024 * 1024
_BLOCK_CHARACTERS = 64 * 1024
_HEADING = re.compile(r" {0,3}(#{1,6})\s+(\S.*?)\s*#*\s*$")
_ITEM = re.compile(r" {0,1}(?:[-*+]|\d{1,9}[.)])\s+(?=\S)")
_RULE = re.compile(r" {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$")
_SPEECH = re.compile(r"(?:\[[^\]\n]{1,40}\]\s*)?([^\W\d][\w.'’-]{0,30}(?: [\w.'’-]{1,30}){0,2}):\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a list item, a code block or what a speaker says, and its lines. `trust`: whose word it is."""

    text: str
    lines: tuple[Line, ...]
    heading: str = ""
    speaker: str = ""
    trust: Trust = Trust.OWNER

    @property
    def raw(self) -> bytes:
        """Its lines as they stand in the file."""
        return b"".join(line.raw for line in self.lines)


class Gathering:
    """Lines that are becoming a block."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._lines: list[Line] = []
        self._texts: list[str] = []
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether the block is long enough to be one, whatever follows."""
        return self._size >= _BLOCK_CHARACTERS

    def add(self, line: Line, text: str) -> None:
        """Add a line, and what of it is said."""
        self._lines.append(line)
        self._texts.append(text)
        self._size += len(text)

    def take(self, trust: Trust, heading: str = "", speaker: str = "") -> Iterator[Block]:
        """Yield the block gathered so far, if it says anything, and begin anew."""
        text = clean("\n".join(self._texts))
        if text and any(letter.isalnum() for letter in text):
            yield Block(text, tuple(self._lines), heading, speaker, trust)
        self.forget()


Blocks = Callable[[Iterator[tuple[Line, str]]], Iterator[Block]]


def read(content: bytes, place: Place, start: Watermark, kind: str) -> Iterator[Reading]:
    """Yield the blocks of a text that were not read before, about one call's worth at a time.

    The last block may still grow, so the next reading of a longer file begins with it again. Raise DocumentError at
    a line that is no UTF-8.
    """
    carry = json.dumps({"as": kind})
    if start.memory().get("as", kind) != kind:  # its beginning reads otherwise now
        start = Watermark()
    turns, problems = list[Turn](), list[Problem]()
    last: Block | None = None
    for position, block in enumerate(BLOCKS[kind](_lines(content, place, start.lines, problems))):
        if position < start.turns:
            continue
        if len(turns) >= CALL_TURNS:
            mark = _mark(content[: block.lines[0].start], block, position, carry)
            yield Reading(tuple(turns), mark, tuple(problems), complete=False)
            turns.clear()
            problems.clear()
        last = block
        source = Source(place.name, block.lines[0].number, block.lines[-1].number, _digest(block.raw))
        turns.append(
            Turn(block.text, block.speaker, block.trust, place.at, place.name, position, source, block.heading)
        )
    mark = replace(start, bytes_read=len(content), digest=_digest(content), carry=carry)
    yield Reading(tuple(turns), _mark(content, last, turns[-1].position, carry) if last else mark, tuple(problems))


def _mark(content: bytes, block: Block, position: int, carry: str) -> Watermark:
    """Return the watermark after this content, before this block."""
    first = block.lines[0]
    return Watermark(len(content), first.start, first.number - 1, position, _digest(content), carry)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _lines(content: bytes, place: Place, known: int, problems: list[Problem]) -> Iterator[tuple[Line, str]]:
    """Yield the lines that are short enough, with their texts; of the others those beyond the known are problems."""
    for line in lines_from(BytesIO(content)):
        if not line.too_long:
            yield line, _decoded(place, line)
        elif line.number > known and len(problems) < CALL_PROBLEMS:
            problems.append(Problem(place.name, line.number, f"longer than {LINE_BYTES // 2**20} MiB"))


def _decoded(place: Place, line: Line) -> str:
    try:
        return line.raw.decode("utf-8-sig" if line.start == 0 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{place.name}:{line.number}: byte 0x{line.raw[error.start]:02x} is not UTF-8",
            "convert the file to UTF-8, or leave it out",
        ) from error


def is_heading(line: str) -> bool:
    """Return whether the line is an ATX heading."""
    return bool(_HEADING.match(line[:400]))


def is_conversation(lines: Sequence[str]) -> bool:
    """Return whether at least six in ten lines begin with a name that comes back: "Host: …" in a list does not."""
    texts = [line for line in lines if line.strip()]
    names = Counter(label[1] for line in texts if (label := _SPEECH.match(line[:120])))
    named = names.total()
    return named >= 4 and named >= 0.6 * len(texts) and named >= 2 * len(names)


def _markdown(lines: Iterator[tuple[Line, str]]) -> Iterator[Block]:
    """Yield the blocks of a document under their headings."""
    path, fence = list[tuple[int, str]](), ""
    floor, gathered = Floor(), Gathering()
    trust = floor.trust
    for line, text in lines:
        opening, heading = FENCE.match(text), _HEADING.match(text[:400])
        if floor.heard(text) and floor.trust is not trust:
            yield from gathered.take(trust, _under(path))
        if fence:
            gathered.add(line, text)
            if opening and opening[1].startswith(fence) and text.strip() == opening[1]:
                fence = ""
                yield from gathered.take(trust, _under(path))
        elif _begins(text):
            yield from gathered.take(trust, _under(path))
            fence = opening[1] if opening else ""
            if heading:
                level = len(heading[1])
                path = [*(above for above in path if above[0] < level), (level, heading[2])]
            elif first_text := _without_mark(text):
                gathered.add(line, first_text)
        else:
            gathered.add(line, text)
        trust = floor.trust
        if gathered.full:
            yield from gathered.take(trust, _under(path))
    yield from gathered.take(trust, _under(path))


def _begins(text: str) -> bool:
    """Return whether a line ends the block before it: a fence, a heading, a blank line, a rule or an item."""
    match = FENCE.match(text) or _HEADING.match(text[:400]) or _RULE.match(text[:80]) or _ITEM.match(text)
    return bool(match) or not text.strip()


def _without_mark(text: str) -> str:
    """Return what is said on the first line of a block; nothing on a blank line and a rule."""
    if _RULE.match(text[:80]) or not text.strip():
        return ""
    item = _ITEM.match(text)
    return text[item.end() :] if item else text


def _under(path: list[tuple[int, str]]) -> str:
    return " > ".join(title for _, title in path)


def _paragraphs(lines: Iterator[tuple[Line, str]]) -> Iterator[Block]:
    """Yield the paragraphs of a text."""
    floor, gathered = Floor(), Gathering()
    trust = floor.trust
    for line, text in lines:
        if floor.heard(text) and floor.trust is not trust:
            yield from gathered.take(trust)
        trust = floor.trust
        if text.strip():
            gathered.add(line, text.strip())
        if not text.strip() or gathered.full:
            yield from gathered.take(trust)
    yield from gathered.take(trust)


def _speeches(lines: Iterator[tuple[Line, str]]) -> Iterator[Block]:
    """Yield what each speaker says, up to the next name."""
    speaker, floor, gathered = "", Floor(), Gathering()
    for line, text in lines:
        label = _SPEECH.match(text) if floor.is_open(text) else None
        said = text.strip()
        if label:
            yield from gathered.take(floor.trust, speaker=speaker)
            speaker, said = label[1], said[label.end() :]
            floor.given_to(speaker)
        gathered.add(line, said)
        if gathered.full:
            yield from gathered.take(floor.trust, speaker=speaker)
    yield from gathered.take(floor.trust, speaker=speaker)


MARKDOWN, SPEECHES, PARAGRAPHS = "Markdown", "speakers' lines", "plain text"
BLOCKS: dict[str, Blocks] = {MARKDOWN: _markdown, SPEECHES: _speeches, PARAGRAPHS: _paragraphs}
