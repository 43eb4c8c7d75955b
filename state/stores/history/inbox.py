"""NoteInbox: the files in which notes arrive, until they are rows of state.db and in a verified copy of it.

    inbox.md             beside state.db: a note is acknowledged once it is synced here
    inbox.000017.md      the inbox until copy 17 of state.db was made
    memory/scratch.md    shows every pending note; agents append to it with a plain `>>`
    .scratch.md.3.4711.displaced    a scratch.md that was rewritten when its first 4,711 bytes had been read: late
                         writes go into it, and are noticed

Appending needs neither the database nor the workspace's lock. Everything else is done by the workspace's owner.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from state.errors import BusyError, NotFoundError, ReadOnlyError, StorageError, UsageError
from state.scratch import BYTE_ORDER_MARK, HEADER, Note, admitted, decode, normal_note, notes_of_lines, render_note
from state.secrets.policy import DEFAULT, Redaction
from state.stores.disk.disk import LONGEST_LOG, Disk, opened
from state.stores.disk.looked_through import LookedThrough
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace

# Session starts only look at files: they load nothing that forgets.
if TYPE_CHECKING:
    from state.forgetting.known import Known

HEAD = f"{HEADER}\n\n".encode()
QUIET_SECONDS = 1.0
"""Until a file was quiet for this long, somebody may still be writing its last line, which lacks a newline."""
# Lines are read whole; a file with longer ones is no log.
LONGEST_LINE = 16 * 1024**2
_SHOWN_WITHIN = 0.5  # seconds
_LIFT = "'dreamd forget --lift' with the words lets it be noted again"
_BUSY_MS = 100  # no process that works in the database may block a note
_CHUNK = 1 << 16  # also the number of bytes before a mark that must be unchanged for the mark to hold
_BULLETS = (b"-", b"*", b"+", b" -", b" *", b" +")
_ROTATED = re.compile(r"inbox\.([0-9]{6,12})\.md")
_DISPLACED = re.compile(r"\.scratch\.md\.([0-9]{1,12})\.([0-9]{1,18})\.displaced")


class Written(NamedTuple):
    """A note as it was written, and whether something forgotten was left out; without text nothing was written."""

    note: Note
    forgotten: bool = False

    def required(self) -> Note:
        """Return the note. Raise UsageError if nothing was written."""
        if not self.note.text:
            raise UsageError("nothing was noted: all that the note says was forgotten by its owner", _LIFT)
        return self.note

    @property
    def notices(self) -> tuple[str, ...]:
        """Return what to tell whoever wrote the note."""
        return (f"what the owner has forgotten was left out of the note; {_LIFT}",) if self.forgotten else ()


class NoteInbox:
    """The files of one workspace's notes."""

    def __init__(self, workspace: Workspace, disk: Disk | None = None) -> None:
        self.workspace = workspace
        self.disk = disk or workspace.disk()

    def append(self, note: Note, redaction: Redaction = DEFAULT) -> Written:
        """Append the note without its secrets and what is forgotten, durably, and return it as written.

        Raise UsageError for a note that cannot be admitted (`state.scratch.admitted`), and StorageError or BusyError
        if it could not be written; it is then in no file.
        """
        given = admitted(note)
        without = _forgetting(self.workspace.database)
        spared = stored = _spared(given, without)
        if (text := redaction.of(stored.text)) != stored.text:
            from state.stores.history.originals import Originals

            text = Originals(self.workspace).redacted(stored.text, redaction, "note", stored.at)
        redacted = stored._replace(text=text, replaces=redaction.of(stored.replaces) if stored.replaces else "")
        stored = _spared(redacted, without)  # what was forgotten may have been redacted before
        written = Written(stored, forgotten=spared != given or stored != redacted)
        if not stored.text:
            return written
        entry = render_note(stored).encode()
        try:
            self.disk.append_locked(self.workspace.inbox, entry, b"")
        except ReadOnlyError:  # an agent's sandbox: scratch.md serves as an inbox too
            self.disk.append_locked(self.workspace.scratch, entry, HEAD)
            return written
        LookedThrough(self.workspace, redaction).keep(stored.text)
        # Agents read scratch.md. The note is kept even if it cannot be shown there.
        with suppress(StorageError, BusyError):
            self.disk.make_folder(self.workspace.scratch.parent)
            # Wait only briefly: the process that rewrites scratch.md may be waiting for the caller's transaction.
            self.disk.append_locked(self.workspace.scratch, entry, HEAD, durable=False, wait_seconds=_SHOWN_WITHIN)
        return written

    def file(self, entries: Iterable[Note]) -> None:
        """Append notes from scratch.md, which is not in the user's own folder, durably to the inbox."""
        if block := "".join(map(render_note, entries)):
            self.disk.append_locked(self.workspace.inbox, block.encode(), b"")

    def files(self) -> list[Path]:
        """Return the files that hold notes, in the order in which they are read."""
        scratch, inbox = self.workspace.scratch, self.workspace.inbox
        found = [*self.displaced().values(), scratch, *self.rotated().values(), inbox]
        return [path for path in found if os.path.lexists(path)]

    def is_inbox(self, path: Path) -> bool:
        """Return whether the file is in the user's own folder."""
        return path.parent == self.workspace.state

    def displaced(self) -> dict[int, Path]:
        """Return the former scratch.md files by number, oldest first."""
        return _numbered(self.workspace.scratch.parent, _DISPLACED)

    def rotated(self) -> dict[int, Path]:
        """Return the former inboxes by the number of the copy that includes them, oldest first."""
        return _numbered(self.workspace.state, _ROTATED)

    def shown(self) -> tuple[Note, ...] | None:
        """Return the notes in scratch.md; None if there is no such file."""
        with suppress(NotFoundError), open_log(self.disk, self.workspace.scratch) as log:
            return tuple(one.note for one in log.entries(0, log.size))
        return None


def _spared(note: Note, without: Callable[[str], str]) -> Note:
    """Return the note without what is forgotten; no words that name what it replaces are cut."""
    text, replaces = without(note.text), without(note.replaces)
    if (text, replaces) == (note.text, note.replaces):
        return note
    return normal_note(note._replace(text=text, replaces=replaces if replaces == note.replaces else ""))


def _forgetting(database: Path) -> Callable[[str], str]:
    """Return a function that leaves out what is forgotten; it changes nothing if the database cannot be read now.

    Then the note loses its forgotten words when it becomes a row. Loading what recognises a text takes as long as
    noting it, so it happens only if something is forgotten.
    """
    if not os.path.lexists(database):
        return str
    import sqlite3

    from state.stores.database.connection import open_unmigrated

    with suppress(sqlite3.Error, StorageError), open_unmigrated(database) as connection:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        if connection.execute("SELECT EXISTS (SELECT 1 FROM forgotten)").fetchone()[0]:
            from state.stores.database.tombstones import TombstoneStore

            return TombstoneStore(connection).tombstones().anywhere.without
    return str


def _numbered(folder: Path, name: re.Pattern[str]) -> dict[int, Path]:
    """Return the files in the folder whose whole name matches, by the number in the name."""
    with suppress(NotFoundError), storage_errors(folder):
        matches = [name.fullmatch(entry) for entry in os.listdir(folder)]  # noqa: PTH208 - names are enough
        found = {int(match[1]): folder / match[0] for match in matches if match}
        return dict(sorted(found.items()))
    return {}


def displaced_at(path: Path) -> tuple[int, int]:
    """Return the number of a former scratch.md and how many of its bytes were in rows; (0, 0) for other files."""
    match = _DISPLACED.fullmatch(path.name)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def has_grown(path: Path) -> bool:
    """Return whether the file is longer than its name, if it is a former scratch.md, says. Raise NotFoundError.

    Any other file may have grown: True.
    """
    number, read = displaced_at(path)
    with storage_errors(path):
        return not number or path.lstat().st_size > read


def digest_of(note: Note) -> str:
    """Return the digest of a note's rendered entry."""
    return _sha256(render_note(note).encode("utf-8", "surrogatepass"))


class Entry(NamedTuple):
    """A note in a file with its digest, the byte where its first line begins and the byte after its last line.

    `grows` is the row of the note whose entry it extends, or 0.
    """

    note: Note
    digest: str
    start: int = 0
    end: int = 0
    grows: int = 0
    is_filed: bool = True


class Log:
    """One open file of notes, streamed from any byte."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file = file
        self._status = os.fstat(file.fileno())
        self.size, self.inode = self._status.st_size, self._status.st_ino
        if self.size > LONGEST_LOG:  # a sparse file may have any length
            told = f"{path} has {self.size:,} bytes, and {LONGEST_LOG:,} are read at most"
            raise StorageError(told, "move it away")

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        """Yield the notes between two bytes of the file; notes without a stamp get the file's time.

        Notes are read lazily, each with only the line that ends it. Raise StorageError for a line over 16 MiB.
        """
        self._file.seek(start)
        ends = {0: start}  # where the lines of the current note end, by their numbers

        def lines() -> Iterator[str]:
            place, number = start, 0
            while place < end and (raw := self._file.readline(min(LONGEST_LINE + 1, end - place))):
                if len(raw) > LONGEST_LINE:
                    told = f"{self.path} has a line of more than {LONGEST_LINE:,} bytes"
                    raise StorageError(told, "move it away")
                place += len(raw)
                number += 1
                ends[number] = place
                line = decode(raw.removesuffix(b"\n"))
                yield line.removeprefix(BYTE_ORDER_MARK) if place == len(raw) else line

        with storage_errors(self.path):
            for note in notes_of_lines(lines(), datetime.fromtimestamp(self._status.st_mtime, UTC)):
                yield Entry(note, digest_of(note), ends[note.first_line - 1], ends[note.last_line])
                for number in [number for number in ends if number < note.last_line]:
                    del ends[number]

    def whole(self, now: datetime) -> int:
        """Return how far the log may be read: not into a last line that is still being written."""
        if abs(now.timestamp() - self._status.st_mtime) >= QUIET_SECONDS:
            return self.size
        return end_of_lines(self._file, self.size)

    def bullet_near_end(self, start: int, most: int) -> int:
        """Return where the first bullet within the last `most` bytes begins, but not before `start`.

        Without such a bullet, return the end.
        """
        if self.size - start <= most:
            return start
        self._file.seek(self.size - most - 1)
        self._file.readline(most + 1)  # skip the rest of a line
        while (at := self._file.tell()) < self.size and (raw := self._file.readline(self.size - at)):
            if raw.startswith(_BULLETS):
                return at
        return self.size

    def digest(self, end: int) -> str:
        """Return the digest of the end of the first `end` bytes, with the number if it is a former scratch.md."""
        begin = max(0, end - _CHUNK)
        self._file.seek(begin)
        return digest_before(self._file.read(end - begin), displaced_at(self.path)[0])


def digest_before(content: bytes, number: int = 0) -> str:
    """Return the digest of the end of this content, with the number of a former scratch.md unless it is 0."""
    digest = _sha256(content[-_CHUNK:])
    return f"{digest}.{number}" if number else digest


def _sha256(content: bytes) -> str:
    import hashlib  # imported late: taking a note does not need it

    return hashlib.sha256(content).hexdigest()


@contextmanager
def open_log(disk: Disk, path: Path) -> Iterator[Log]:
    """Open a log for reading. Raise NotFoundError, or StorageError if it is too long."""
    with storage_errors(path), opened(disk.target(path)) as file:
        yield Log(path, file)


def end_of_lines(file: BinaryIO, end: int) -> int:
    """Return the byte after the last complete line before `end`; 0 if there is none."""
    while end > 0:
        begin = max(0, end - _CHUNK)
        file.seek(begin)
        if (at := file.read(end - begin).rfind(b"\n")) >= 0:
            return begin + at + 1
        end = begin
    return 0


# What was read of notes, from rows and files


class Pending(NamedTuple):
    """A note that no version has consumed: its row, its crystal's row, and its content."""

    key: int
    crystal: int
    note: Note


class Newest(NamedTuple):
    """The newest pending notes, oldest first; `more` says that there are older ones, which were not read."""

    notes: tuple[Note, ...]
    more: bool


class Mark(NamedTuple):
    """How far a file was read: its first `end` bytes; `digest` is that of the last of them.

    The last note in them begins at byte `start` and has the row `note` (0: none).
    """

    end: int = 0
    digest: str = ""
    start: int = 0
    note: int = 0


class Piece(NamedTuple):
    """What was newly read from one file: its notes, the digests of notes that are rows already, and its marks.

    `last` is the digest of the last note if it is new; empty if there is none or it is known. `is_strangers`: git
    tracks the file, so whoever can push to the repository may have written these notes.
    """

    path: Path
    notes: tuple[Entry, ...]
    known: tuple[str, ...]
    last: str
    before: Mark
    mark: Mark
    is_strangers: bool = False

    def without(self, known: "Known") -> "Piece":
        """Return the piece with its notes as they are to be filed, without texts that are known to be forgotten."""
        notes = tuple(_without(one, known) for one in self.notes)
        return self._replace(notes=notes, last=notes[-1].digest if self.last else "")


def _without(one: Entry, known: "Known") -> Entry:
    if not any(map(known.found, one.note.texts)):
        return one
    replaces = "" if known.found(one.note.replaces) else one.note.replaces
    note = one.note._replace(text=known.without(one.note.text), replaces=replaces)
    return one._replace(note=note, digest=digest_of(note), is_filed=False)
