"""Log file: one open log of notes, read as a stream from any byte of it; what was read, and a mark of how far."""

import fcntl
import hashlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from state.errors import StorageError
from state.scratch import BYTE_ORDER_MARK, Note, decode, notes_of_lines, render_note
from state.stores.disk.disk import LONGEST_LOG, Disk, opened
from state.stores.disk.syscalls import storage_errors

if TYPE_CHECKING:
    from state.forgetting.known import Known

# One line is read whole; what has longer ones is no log.
LONGEST_LINE = 16 * 1024**2
_CHUNK = 1 << 16
_FIRST = (b"-", b"*", b"+", b" -", b" *", b" +")


@dataclass(frozen=True, slots=True)
class PlacedNote:
    """A note with the byte where its first line begins and the one after its last line."""

    note: Note
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a file was read: its first `end` bytes, which end in those of `digest`.

    The last note in them begins at byte `start`, and is the one in the row `note` (0: in none).
    """

    end: int = 0
    digest: str = ""
    start: int = 0
    note: int = 0


@dataclass(frozen=True, slots=True)
class Unread:
    """A note of a file that is in no row yet; `grows` is the row of what stood there of it before, or 0."""

    note: Note
    digest: str
    grows: int = 0
    is_filed: bool = True

    def without(self, known: "Known") -> "Unread":
        """Return the note without what is known, as it is to be filed then; itself when it holds none of that."""
        if not any(map(known.found, self.note.texts)):
            return self
        replaces = "" if known.found(self.note.replaces) else self.note.replaces
        note = replace(self.note, text=known.without(self.note.text), replaces=replaces)
        return Unread(note, digest_of(note), self.grows, is_filed=False)


@dataclass(frozen=True, slots=True)
class Piece:
    """What was read on of one file: its notes, the digests of those that are rows already, and its marks.

    `last` is the digest of the last note (empty: it has none that is new).
    """

    path: Path
    notes: tuple[Unread, ...]
    known: tuple[str, ...]
    last: str
    before: Mark
    mark: Mark

    def without(self, known: "Known") -> "Piece":
        """Return the piece with its notes as they are without what is known."""
        notes = tuple(one.without(known) for one in self.notes)
        return replace(self, notes=notes, last=notes[-1].digest if notes else self.last)


@contextmanager
def open_log(disk: Disk, path: Path) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """Open a log for reading, with its status. Raise NotFoundError; StorageError for one that is too long."""
    with storage_errors(path), opened(disk.target(path)) as file:
        status = os.fstat(file.fileno())
        if status.st_size > LONGEST_LOG:  # a file of holes may be of any length
            told = f"{path} has {status.st_size:,} bytes, and {LONGEST_LOG:,} are read at most"
            raise StorageError(told, "move it away")
        yield file, status


def placed_notes(file: BinaryIO, path: Path, span: tuple[int, int], at: datetime) -> Iterator[PlacedNote]:
    """Yield the notes between two bytes of the file; `at` is the time of those without a stamp.

    A note is read when it is asked for, and nothing after it but the line that ends it. Raises StorageError for a
    line of more than 16 MiB.
    """
    start, end = span
    file.seek(start)
    ends: dict[int, int] = {}

    def lines() -> Iterator[str]:
        place, number = start, 1
        while place < end and (raw := file.readline(min(LONGEST_LINE + 1, end - place))):
            if len(raw) > LONGEST_LINE:
                raise StorageError(f"{path} has a line of more than {LONGEST_LINE:,} bytes", "move it away")
            place += len(raw)
            ends[number] = place
            number += 1
            line = decode(raw.removesuffix(b"\n"))
            yield line.removeprefix(BYTE_ORDER_MARK) if place == len(raw) else line

    for note in notes_of_lines(lines(), at):
        yield PlacedNote(note, ends.get(note.first_line - 1, start), ends[note.last_line])
        for number in [number for number in ends if number < note.last_line]:
            del ends[number]


def end_of_lines(file: BinaryIO, end: int) -> int:
    """Return the byte after the last line that ends before this one; 0 when there is none."""
    while end > 0:
        begin = max(0, end - _CHUNK)
        file.seek(begin)
        at = file.read(end - begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0


def is_whole(file: BinaryIO, end: int) -> bool:
    """Return whether the last line before this byte has its end."""
    if end <= 0:
        return False
    file.seek(end - 1)
    return file.read(1) == b"\n"


def entry_near_end(file: BinaryIO, start: int, end: int, most: int) -> int:
    """Return where the first bullet begins within the last `most` bytes of this span; the start of a shorter span.

    Without a bullet there, its end.
    """
    if end - start <= most:
        return start
    file.seek(end - most - 1)
    file.readline(most + 1)  # the rest of a line
    while (at := file.tell()) < end and (raw := file.readline(end - at)):
        if raw.startswith(_FIRST):
            return at
    return end


def bytes_before(file: BinaryIO, end: int, most: int) -> bytes:
    """Return the last bytes, at most `most`, before this one."""
    begin = max(0, end - most)
    file.seek(begin, os.SEEK_SET)
    return file.read(end - begin)


def overwrite(disk: Disk, path: Path, inode: int, end: int) -> bytes:
    """Overwrite the first bytes of this file in place, if it is this one, and return what stands there.

    Whoever appends meanwhile loses nothing.
    """
    with storage_errors(path):
        fd = disk.system.open(disk.target(path), os.O_RDWR)
        try:
            status = os.fstat(fd)
            blank = b" " * (min(end, status.st_size) - 1) + b"\n" if end and status.st_ino == inode else b""
            written = 0
            while written < len(blank):
                written += disk.system.pwrite(fd, blank[written:], written)
            disk.system.fsync(fd)
        finally:
            os.close(fd)
    return blank


def is_held_open(path: Path) -> bool:
    """Return whether any process has this file open; False where the file system cannot tell."""
    with storage_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        # The kernel grants a write lease only for a file that nobody else has open. Whoever opens it right
        # now sends us a signal, which must not be SIGIO: that would end this process.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def digest_of(note: Note) -> str:
    """Return the digest of a note's entry, as it is rendered."""
    return hashlib.sha256(render_note(note).encode("utf-8", "surrogatepass")).hexdigest()
