"""The write-ahead log of notes: appended to scratch.md, taken as numbered segments, consumed exactly once.

    memory/scratch.md --take--> segments/000007.md --retire--> segments/retired/000007.4711.md --sweep--> gone
                                segments/000007.json: {"consumed": bytes} while it stands; then the name says it

Nothing is copied: a segment is the very file that was appended to, so that a late write through a descriptor
that was open before lands in it and is seen, because the file is then longer than what was consumed.
Appending needs no lock of the workspace; `take`, `retire` and `sweep` are for its owner. Each of them may be cut
off anywhere and repeated. Once a dream has decided what it consumed, that is retired (again) before `pending` is
read for the next one.
"""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from state.errors import NotFoundError
from state.scratch import (
    HEADER,
    Bite,
    Note,
    PendingCount,
    admitted,
    count_notes,
    decode,
    parse_notes,
    render_note,
)
from state.secrets.policy import DEFAULT, Redaction
from state.stores.disk.disk import LONGEST_LOG, Disk
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import STATE_FOLDER, Workspace
from state.stores.history.log_file import (
    changed_rows,
    end_of_lines,
    entry_near_end,
    is_held_open,
    is_whole,
    lines_before,
    numbered_files,
    open_log,
    placed_notes,
    write_all,
)

if TYPE_CHECKING:
    from state.forgetting.cutting import Finder

KEEP_DAYS = 30.0
QUIET_SECONDS = 1.0
# Beyond so many, pending notes are not counted; and of the newest ones, so many bytes are read.
MOST_COUNTED = 1_000
NEWEST_BYTES = 256 * 1024
_LEFTOVER_AGE = timedelta(hours=1)
_HEAD = f"{HEADER}\n\n".encode()
_SEGMENT = re.compile(r"([0-9]{6,12})\.md")
_SIDECAR = re.compile(r"([0-9]{6,12})\.json")
_RETIRED = re.compile(r"([0-9]{6,12})\.([0-9]{1,18})\.md")


@dataclass(frozen=True, slots=True)
class Segment:
    """What is pending of one segment: its bytes from `start` (consumed before) to `end`, read as notes.

    `file` is the name that it was given when it was taken; the notes' lines count in that file.
    """

    number: int
    file: str
    start: int
    end: int
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest pending notes, the oldest of them first; `more`: there are older ones, which were not read."""

    notes: tuple[Note, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A file that has notes which no dream has consumed: its bytes from `start` on; `name` as in `Segment.file`."""

    path: Path
    start: int
    status: os.stat_result
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A segment's file as it is now, and how many of its bytes were consumed."""

    number: int
    path: Path
    consumed: int
    status: os.stat_result

    @property
    def size(self) -> int:
        return self.status.st_size


class Segments:
    """The write-ahead log of one workspace."""

    def __init__(self, workspace: Workspace, disk: Disk | None = None) -> None:
        self._workspace = workspace
        self._disk = disk or workspace.disk()

    def append(self, note: Note, redaction: Redaction = DEFAULT) -> Note:
        """Append the note to scratch.md without its secrets, durably, and return it as it stands there.

        Raises UsageError for a note that cannot be admitted (`state.scratch.admitted`);
        StorageError or BusyError when it could not be written: it is then not in the log.
        """
        stored = admitted(note)
        if (text := redaction.of(stored.text)) != stored.text:
            from state.stores.history.originals import Originals

            text = Originals(self._workspace, self._disk).redacted(stored.text, redaction, "note", stored.at)
        stored = replace(stored, text=text, replaces=redaction.of(stored.replaces) if stored.replaces else "")
        self._disk.append_locked(self._workspace.scratch, render_note(stored).encode(), _HEAD)
        return stored

    def take(self) -> int | None:
        """Make scratch.md the next segment and start a new one; the segment's number, or None without notes."""
        scratch = self._workspace.scratch
        with storage_errors(scratch):
            if not scratch.exists():
                return None
        with self._disk.locked(scratch, _HEAD) as fd:
            if next(self._notes_of(scratch), None) is None:
                return None
            with storage_errors(scratch):
                self._disk.system.fsync(fd)  # a plain `>>` synced nothing
            number = self._move_to_next_number()
            with suppress(FileExistsError):  # an agent's `>>` was faster
                self._disk.write_new(scratch, _HEAD)
            return number

    def pending(self, now: datetime, bite: Bite | None = None) -> tuple[Segment, ...]:
        """What no dream has consumed of the segments, oldest first; retired ones that grew are among them.

        A last line without its newline counts only when the file has been quiet for a second. With `bite` the oldest
        notes that it holds, at least one, and each segment as far as they reach: what is behind them is not read.
        """
        segments: list[Segment] = []
        holds = bite.counter() if bite else lambda _: True
        for kept in self._pending_files():
            notes: list[Note] = []
            full = False
            with open_log(self._disk, kept.path) as (file, status):
                upto, end = kept.consumed, _end(file, status, now)
                line = lines_before(file, upto) + 1 if upto < end else 1
                for placed in placed_notes(file, kept.path, (upto, end), _time(status), line):
                    full = not holds(placed.note)
                    if full:
                        break
                    notes.append(placed.note)
                    upto = placed.end
            end = upto if full else end
            if kept.consumed < end:
                segments.append(Segment(kept.number, self._name(kept.number), kept.consumed, end, tuple(notes)))
            if full:
                break
        return tuple(segments)

    def pending_notes(self) -> tuple[Note, ...]:
        """Every note that no dream has consumed, in segments and in scratch.md, oldest first; takes no lock."""
        return tuple(self.each_pending())

    def each_pending(self) -> Iterator[Note]:
        """Every note that no dream has consumed, oldest first, read as far as it is asked for."""
        with ExitStack() as stack:
            # scratch.md is opened first: if it is taken meanwhile it is met again as a segment, and recognised.
            scratch: tuple[BinaryIO, os.stat_result] | None = None
            with suppress(NotFoundError):
                scratch = stack.enter_context(open_log(self._disk, self._workspace.scratch))
            taken = False
            for kept in self._kept():
                taken |= scratch is not None and os.path.samestat(kept.status, scratch[1])
                if kept.consumed < kept.size:
                    yield from self._notes_of(kept.path, kept.consumed)
            if scratch and not taken:
                file, status = scratch
                span = (0, status.st_size)
                for placed in placed_notes(file, self._workspace.scratch, span, _time(status)):
                    yield placed.note

    def count(self, most: int = MOST_COUNTED) -> PendingCount:
        """How much is pending; beyond `most` notes nothing is read. Takes no lock."""
        return count_notes(self.each_pending(), most)

    def newest(self, most_bytes: int = NEWEST_BYTES) -> Newest:
        """The newest pending notes, by where they stand, from so many bytes at the end of the logs; takes no lock."""
        found: list[tuple[Note, ...]] = []
        files = list(self.pending_files())
        while files and most_bytes > 0:
            last = files.pop()
            # One that is not there any more was retired: it is consumed.
            with suppress(NotFoundError), open_log(self._disk, last.path) as (file, status):
                begin = entry_near_end(file, last.start, status.st_size, most_bytes)
                span = (begin, status.st_size)
                found.append(tuple(one.note for one in placed_notes(file, last.path, span, _time(status))))
                most_bytes -= status.st_size - last.start
        return Newest(tuple(note for notes in reversed(found) for note in notes), most_bytes < 0 or bool(files))

    def _notes_of(self, path: Path, start: int = 0) -> Iterator[Note]:
        with suppress(NotFoundError), open_log(self._disk, path) as (file, status):  # else it was retired: consumed
            for placed in placed_notes(file, path, (start, status.st_size), _time(status)):
                yield placed.note

    def pending_files(self) -> tuple[PendingFile, ...]:
        """Where pending notes stand, the oldest first and scratch.md last; nothing is opened. Takes no lock."""
        # scratch.md is looked at first: if it is taken meanwhile it is met again as a segment, and once is enough.
        scratch: PendingFile | None = None
        with suppress(NotFoundError):
            scratch = PendingFile(self._workspace.scratch, 0, self._status(self._workspace.scratch))
        files = [
            PendingFile(kept.path, kept.consumed, kept.status, self._name(kept.number))
            for kept in self._pending_files()
        ]
        if scratch and not any(os.path.samestat(file.status, scratch.status) for file in files):
            files.append(scratch)
        return tuple(files)

    def blank(self, file: PendingFile, found: "Finder") -> int:
        """Take what is found out of the pending notes of this file, in place; returns how many notes held some.

        Whoever appends meanwhile loses nothing: spaces take its place, and the file keeps its length.
        """
        from state.forgetting.in_place import blanked  # whoever only takes a note does not wait for it

        with suppress(NotFoundError), storage_errors(file.path):
            fd = self._disk.system.open(self._disk.target(file.path), os.O_RDWR | os.O_NONBLOCK)
            try:
                # Before a note is read whole it may be blanked whole: half of a last line is none of it.
                content = os.pread(fd, min(os.fstat(fd).st_size, LONGEST_LOG), 0)
                line = content.count(b"\n", 0, file.start) + 1
                notes = parse_notes(decode(content[file.start :]), _time(os.fstat(fd)), line)
                matching = [note for note in notes if any(map(found, note.texts))]
                new = blanked(content, matching, found)
                for at, row in changed_rows(content, new):
                    write_all(self._disk, fd, row, at)
                if matching:
                    self._disk.system.fsync(fd)
                return len(matching)
            finally:
                os.close(fd)
        return 0

    def retire(self, number: int, consumed: int) -> bool:
        """Record that the segment's first `consumed` bytes were consumed, and retire it unless it has more.

        Returns whether nothing of it is pending. Fewer bytes than were recorded before change nothing, and a
        segment that is gone (swept) is retired.
        """
        kept = next((kept for kept in self._kept() if kept.number == number), None)
        if kept is None:
            return True
        # Never past the end: bytes that are not there yet were not consumed.
        consumed = max(kept.consumed, min(consumed, kept.size))
        retired = self._workspace.retired / f"{number:06d}.{consumed}.md"
        if kept.path.parent == self._workspace.segments:
            if consumed > kept.consumed:
                record = b'{"consumed": %d}' % consumed
                self._disk.write_atomic(self._sidecar(number), record)
            if self._status(kept.path).st_size > consumed:
                return False
        if kept.path != retired:
            self._disk.rename(kept.path, retired)
        return self._status(retired).st_size <= consumed

    def revive(self, number: int, start: int = 0) -> bool:
        """Make a segment pending again from this byte on, retired or not; False when it is gone (swept)."""
        kept = next((kept for kept in self._kept() if kept.number == number), None)
        if kept is None:
            return False
        start = min(start, kept.consumed)
        if kept.path.parent == self._workspace.segments:
            self._disk.write_atomic(self._sidecar(number), b'{"consumed": %d}' % start)
        elif kept.consumed > start:
            self._disk.rename(kept.path, self._workspace.retired / f"{number:06d}.{start}.md")
        return True

    def sweep(self, now: datetime, keep_days: float = KEEP_DAYS) -> int:
        """Delete segments that were retired so long ago, and what killed writers left; how many segments went.

        One that is not wholly consumed stays; one that a process holds open may yet grow, so it stays too.
        """
        swept = 0
        before = now - timedelta(days=keep_days)
        for kept in self._kept():
            if kept.consumed < kept.size:
                continue
            if kept.path.parent == self._workspace.segments:
                self.retire(kept.number, kept.consumed)  # a retirement was cut off before its renaming
            elif kept.status.st_ctime < before.timestamp() and not is_held_open(kept.path):  # renamed: ctime
                self._disk.remove(kept.path)
                swept += 1
        self._forget_sidecars()
        workspace = self._workspace
        for folder in (
            workspace.root, workspace.scratch.parent, workspace.state, workspace.segments, workspace.index,
        ):  # fmt: skip
            self._disk.remove_leftovers(folder, (now - _LEFTOVER_AGE).timestamp())
        return swept

    def _forget_sidecars(self) -> None:
        """Drop the records that retirement made needless, but for the last one: no number is given twice."""
        numbers = sorted(numbered_files(self._workspace.segments, _SIDECAR))
        for number in numbers[:-1]:
            if not self._segment_path(number).exists():
                self._disk.remove(self._sidecar(number))

    def _pending_files(self) -> list[_Kept]:
        return [kept for kept in self._kept() if kept.consumed < kept.size]

    def _kept(self) -> list[_Kept]:
        """Every segment that is kept, oldest first."""
        found: dict[int, _Kept] = {}
        # Standing ones first: one that is retired meanwhile is met twice, not missed.
        for number, path in numbered_files(self._workspace.segments, _SEGMENT).items():
            with suppress(NotFoundError):
                found[number] = _Kept(number, path, self._consumed(number), self._status(path))
        for number, path in numbered_files(self._workspace.retired, _RETIRED).items():
            with suppress(NotFoundError):
                found[number] = _Kept(number, path, int(path.name.split(".")[1]), self._status(path))
        return [found[number] for number in sorted(found)]

    def _move_to_next_number(self) -> int:
        while True:
            number = self._next_number()
            with suppress(FileExistsError):  # an owner that was displaced and does not know it took this one
                self._disk.rename_new(self._workspace.scratch, self._segment_path(number))
                return number

    def _next_number(self) -> int:
        workspace = self._workspace
        folders = ((workspace.segments, _SEGMENT), (workspace.segments, _SIDECAR), (workspace.retired, _RETIRED))
        return max((number for folder, name in folders for number in numbered_files(folder, name)), default=0) + 1

    def _segment_path(self, number: int) -> Path:
        return self._workspace.segments / f"{number:06d}.md"

    def _name(self, number: int) -> str:
        return f"{STATE_FOLDER}/segments/{number:06d}.md"

    def _sidecar(self, number: int) -> Path:
        return self._workspace.segments / f"{number:06d}.json"

    def _consumed(self, number: int) -> int:
        """Bytes consumed of a standing segment; 0 when the record is damaged: better read twice than never."""
        written = self._disk.read_optional(self._sidecar(number))
        if written is None:
            return 0
        import json

        try:
            return max(0, int(json.loads(written)["consumed"]))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return 0

    def _status(self, path: Path) -> os.stat_result:
        with storage_errors(path):
            return path.stat()


def _time(status: os.stat_result) -> datetime:
    return datetime.fromtimestamp(status.st_mtime, UTC)


def _end(file: BinaryIO, status: os.stat_result, now: datetime) -> int:
    """How far a log may be read: not to a last line that is being written."""
    quiet = abs(now.timestamp() - status.st_mtime) >= QUIET_SECONDS
    return status.st_size if quiet or is_whole(file, status.st_size) else end_of_lines(file, status.st_size)
