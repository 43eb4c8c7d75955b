"""Scratch log: renders and parses the notes of the write-ahead log.

    # Scratch Buffer (Working Memory WAL)

    - [2026-03-12T14:30:00Z] (importance: 0.8) first line of the note
      its second line
    - [2026-03-12T14:31:00Z] (importance: 0.7) [AUTO] written by the daemon
    - [2026-03-12T14:32:00Z] (importance: 0.7) (replaces: L12) instead of a line or memory
    - a bullet without a stamp, by hand or by `>>`

Anything that cannot be read as a stamp or as a mark after it stays text; everything is a note except the header,
blank lines and rules (`---`). `plain_text` lists what the text of a note cannot contain.
"""

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from state.errors import UsageError

HEADER = "# Scratch Buffer (Working Memory WAL)"
MAX_NOTE_BYTES = 16 * 1024
MAX_REPLACES = 1_000
DEFAULT_IMPORTANCE = 0.7
AUTO = "[AUTO]"
BYTE_ORDER_MARK = "\ufeff"

_HEADER = re.compile(r"#+\s*Scratch Buffer(?:\s*\([^()]*\))?\s*", re.IGNORECASE)
_HEADING = re.compile(r"#{1,6}\s")
_RULE = re.compile(r" ?([-*_])(?:[ \t]*\1){2,}[ \t]*")
_BULLET = re.compile(r" ?[-*+](?:[ \t]+|$)")
_INDENT = re.compile(r"  |\t")
_STAMP = re.compile(r"\[(\d{4}-\d{2}-\d{2}[^\]\n]{0,40})\][ \t]*")
_IMPORTANCE = re.compile(r"\(importance:[ \t]*([^()\n]{1,40})\)[ \t]*", re.IGNORECASE)
# A line id, a crystal id or words; in quotes, it may contain parentheses.
_REPLACES = re.compile(
    r'\(replaces:[ \t]*(?:"((?:[^"\\\n]|\\["\\]){1,2000})"|([^()"\n][^()\n]{0,999}))\)[ \t]*', re.IGNORECASE
)
_AUTO = re.compile(r"\[AUTO\](?=\s|$)")


class Note(NamedTuple):
    """One entry of the write-ahead log.

    `text` has no stamp, no [AUTO] and no indentation, and may contain newlines. `replaces` names the line or memory
    that the note replaces: an id, or words of it (empty: none). `stamped` is False for a note written by hand; its
    time is then the file's. Line numbers count from 1 in the file that the note was read from.
    """

    text: str
    at: datetime
    importance: float = DEFAULT_IMPORTANCE
    auto: bool = False
    replaces: str = ""
    stamped: bool = True
    first_line: int = 0
    last_line: int = 0

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the texts that somebody wrote: the note's text, and `replaces`."""
        return (self.text, self.replaces) if self.replaces else (self.text,)


def plain_text(text: str) -> str:
    r"""Return the text in the form that a note can hold; idempotent.

    Surrounding white space is removed, `\r\n` and `\r` become newlines, a line of white space becomes empty. NUL and
    lone surrogates, which neither UTF-8 nor SQLite can store, become the escapes `\x00` and `\udcff`.
    """
    if text.isascii() and text.isprintable():
        return text.strip()
    sound = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", r"\x00")
    lines = sound.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line if line.strip() else "" for line in lines).strip()


def normal_note(note: Note) -> Note:
    """Return the note as it reads back after writing.

    The text is in the form of `plain_text`, `replaces` on one line, the time in whole seconds UTC, importance to
    0.01.
    """
    return Note(
        text=plain_text(note.text),
        at=note.at.astimezone(UTC).replace(microsecond=0),
        importance=_clamped(note.importance),
        auto=note.auto,
        replaces=" ".join(plain_text(note.replaces).split()),
    )


def admitted(note: Note) -> Note:
    """Validate a note for a log and return it in its normal form.

    Raise UsageError if it is empty, longer than 16 KiB, has an importance outside [0, 1], or its `replaces` is longer
    than 1,000 characters.
    """
    if not (math.isfinite(note.importance) and 0 <= note.importance <= 1):
        raise UsageError(f"importance {note.importance} is impossible", "give a number from 0 to 1")
    normal = normal_note(note)
    if not normal.text:
        raise UsageError("the note is empty", "give it some text")
    size = len(normal.text.encode())
    if size > MAX_NOTE_BYTES:
        raise UsageError(f"the note has {size} bytes and {MAX_NOTE_BYTES} fit", "split it, or ingest it as a file")
    if len(normal.replaces) > MAX_REPLACES:
        raise UsageError(
            f"replaces has {len(normal.replaces)} characters and {MAX_REPLACES} fit", "name the id, or fewer words"
        )
    return normal


def render_note(note: Note) -> str:
    """Render the note as one entry that ends in a newline; `parse_notes` returns `normal_note(note)`."""
    normal = normal_note(note)
    stamp = normal.at.isoformat(timespec="seconds").replace("+00:00", "Z")
    marks = [f"- [{stamp}]", f"(importance: {normal.importance:g})"]
    lines = normal.text.split("\n")
    if normal.replaces:
        marks.append(f"(replaces: {_quoted(normal.replaces)})")
    if normal.auto:
        marks.append(AUTO)
    elif _AUTO.match(lines[0]) or _REPLACES.match(lines[0]):
        # On the first line it would be read as a mark; below, it is text.
        lines.insert(0, "")
    entry = [" ".join([*marks, lines[0]] if lines[0] else marks)]
    entry += [f"  {line}" if line else "" for line in lines[1:]]
    return "\n".join(entry) + "\n"


def decode(raw: bytes) -> str:
    r"""Decode the bytes of a log: UTF-8; an invalid byte stays readable as `\xe9`.

    NUL bytes are dropped: after a loss of power, a file that was being appended to contains them.
    """
    return raw.replace(b"\0", b"").decode("utf-8", "backslashreplace")


def parse_notes(text: str, file_time: datetime) -> tuple[Note, ...]:
    """Return every note in the text of a log, in order; notes without a stamp get `file_time`.

    An entry is a bullet or paragraph with the indented lines below it and the blank lines between them. A heading
    other than the header is a note of its own.
    """
    return tuple(notes_of_lines(text.removeprefix(BYTE_ORDER_MARK).split("\n"), file_time))


def notes_of_lines(lines: Iterable[str], file_time: datetime) -> Iterator[Note]:
    """Yield the notes in lines without line ends; reads only as many lines as the next note needs."""
    notes = (entry.note(file_time) for entry in _entries(lines))
    return (note for note in notes if note.text)


def _entries(lines: Iterable[str]) -> "Iterator[_Entry]":
    current: _Entry | None = None
    blank_before = False
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r")
        if not line.strip():
            blank_before = True
            continue
        if _HEADER.fullmatch(line) or _RULE.fullmatch(line):
            if current:
                yield current
            current = None
        elif current and (_INDENT.match(line) or current.goes_on_with(line, blank_before=blank_before)):
            current.add(number, _INDENT.sub("", line, count=1))
        else:
            if current:
                yield current
            current = _Entry(number, line)
        blank_before = False
    if current:
        yield current


class _Entry:
    """Lines that form one note; a paragraph that would exceed MAX_NOTE_BYTES continues in another."""

    def __init__(self, number: int, line: str) -> None:
        self.first = self.last = number
        self.paragraph = not (_BULLET.match(line) or _HEADING.match(line))
        self.lines = [_BULLET.sub("", line, count=1)]
        self.bytes = len(line.encode("utf-8", "replace"))

    def goes_on_with(self, line: str, *, blank_before: bool) -> bool:
        """Return whether this unindented line continues the paragraph."""
        if blank_before or not self.paragraph or _BULLET.match(line) or _HEADING.match(line):
            return False
        return self.bytes + len(line) < MAX_NOTE_BYTES

    def add(self, number: int, line: str) -> None:
        self.lines += [""] * (number - self.last - 1)
        self.lines.append(line)
        self.last = number
        self.bytes += len(line.encode("utf-8", "replace")) + 1

    def note(self, file_time: datetime) -> Note:
        body = "\n".join(self.lines)
        stamp = None if self.paragraph else _STAMP.match(body)
        at = _moment(stamp[1]) if stamp else None
        importance, replaces, auto = DEFAULT_IMPORTANCE, "", None
        if stamp and at:
            body = body[stamp.end() :]
            if (given := _IMPORTANCE.match(body)) and (value := _number(given[1])) is not None:
                importance, body = value, body[given.end() :]
            if named := _REPLACES.match(body):
                replaces, body = _named(named), body[named.end() :]
            if auto := _AUTO.match(body):
                body = body[auto.end() :]
        at, is_stamped = at or file_time.astimezone(UTC), at is not None
        return Note(plain_text(body), at, importance, auto is not None, replaces, is_stamped, self.first, self.last)


def _quoted(value: str) -> str:
    """Render the value of a mark, in quotes if it would not read back without them."""
    bare = _REPLACES.fullmatch(f"(replaces: {value})")
    if bare and bare[2] == value:
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _named(mark: re.Match[str]) -> str:
    value = mark[2] if mark[1] is None else re.sub(r"\\(.)", r"\1", mark[1])
    return " ".join(plain_text(value).split())


def _moment(text: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    return None


def _number(text: str) -> float | None:
    with suppress(ValueError):
        return _clamped(value) if math.isfinite(value := float(text)) else None
    return None


def _clamped(importance: float) -> float:
    return round(min(1.0, max(0.0, importance)), 2) + 0.0  # + 0.0 turns -0.0 into 0.0
