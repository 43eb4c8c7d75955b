"""Pending count: how many notes of a workspace no dream has consumed, counted on as the log grows.

A file is known by its device and inode, which it keeps when it becomes a segment. What was counted of it is compared
by a digest; what follows is parsed, from the last note but one on: the last one may grow, or turn out to be more of
the one before. So an append costs a few notes, however many wait, and a file that was changed elsewhere is counted
anew.
"""

import hashlib
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import BinaryIO

from state.errors import NotFoundError
from state.scratch import Note, PendingCount
from state.stores.disk.disk import Disk
from state.stores.disk.stamp import Stamp, is_settled
from state.stores.disk.workspace import Workspace
from state.stores.history.log_file import open_log, placed_notes
from state.stores.history.segments import MOST_COUNTED, PendingFile, Segments

_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class _Tally:
    """Of some notes: how much they are, the earliest stamp, and whether one has none: its time is the file's."""

    notes: int = 0
    characters: int = 0
    bytes: int = 0
    oldest: datetime | None = None
    unstamped: bool = False

    def plus(self, note: Note) -> "_Tally":
        oldest = self.oldest
        if note.stamped:
            oldest = note.at if oldest is None else min(oldest, note.at)
        return _Tally(
            self.notes + 1,
            self.characters + len(note.text),
            self.bytes + len(note.text.encode("utf-8", "surrogatepass")),
            oldest,
            self.unstamped or not note.stamped,
        )


@dataclass(frozen=True, slots=True)
class _Counted:
    """A file as it was counted: its pending notes, at most so many; `more`: there are others behind them.

    `settled` is the tally of the notes before the byte `place`, where the last of them but one begins; `digest` is
    that of the bytes from `start` to `end`, where the last one does.
    """

    stamp: Stamp | None
    start: int
    most: int
    tally: _Tally
    more: bool
    settled: _Tally
    place: int
    end: int
    digest: bytes


class PendingCounter:
    """Counts the pending notes of one workspace, again and again; for one thread at a time."""

    def __init__(self, workspace: Workspace, disk: Disk | None = None) -> None:
        self._disk = disk or workspace.disk()
        self._segments = Segments(workspace, self._disk)
        self._counted: dict[tuple[int, int], _Counted] = {}

    def count(self, most: int = MOST_COUNTED) -> PendingCount:
        """What `Segments.count` counts; beyond `most` notes nothing is read. Raises StorageError."""
        before, self._counted = self._counted, {}
        total, more = PendingCount(), False
        for file in self._segments.pending_files():
            known = before.get((file.status.st_dev, file.status.st_ino))
            with suppress(NotFoundError):  # else it was retired: consumed
                one = self._count_file(file, most - total.notes, known)
                self._counted[file.status.st_dev, file.status.st_ino] = one
                total, more = _plus(total, one.tally, file), one.more
            if more:
                break
        return replace(total, more=more)

    def _count_file(self, file: PendingFile, most: int, known: _Counted | None) -> _Counted:
        """Its notes, at most so many, beginning with what is known of it. Raises NotFoundError."""
        began = time.time_ns()
        stamp = Stamp.from_status(file.status)
        if known is not None and (known.stamp, known.start, known.most) == (stamp, file.start, most):
            return known
        with open_log(self._disk, file.path) as (log, status):
            before = last = (_Tally(), file.start)  # where the last two notes begin, and the tally before each
            if known is not None and known.start == file.start and known.settled.notes <= most:
                same = _digest(log, file.start, known.end) == known.digest
                before = last = (known.settled, known.place) if same else last
            tally, more = last[0], False
            for placed in placed_notes(log, file.path, (last[1], status.st_size), datetime.now(UTC)):
                if tally.notes == most:
                    more = True
                    break
                before, last = last, (tally, placed.start)
                tally = tally.plus(placed.note)
            digest = _digest(log, file.start, last[1])
            is_same = Stamp.from_status(os.fstat(log.fileno())) == stamp
        # What was written while it was read is counted anew; what may yet be in the same tick of the clock, read on.
        is_sure = is_same and is_settled((stamp,), began)
        return _Counted(
            stamp if is_sure else None, file.start, most, tally, more, *before, last[1], digest if is_same else b""
        )


def _digest(log: BinaryIO, start: int, end: int) -> bytes:
    """The digest of these bytes, or of so many as there are."""
    digest = hashlib.blake2b()
    log.seek(start)
    while start < end and (chunk := log.read(min(_CHUNK, end - start))):
        digest.update(chunk)
        start += len(chunk)
    return digest.digest()


def _plus(total: PendingCount, tally: _Tally, file: PendingFile) -> PendingCount:
    """The total with the notes of this file."""
    moments = [one for one in (total.oldest, tally.oldest) if one is not None]
    if tally.unstamped:
        moments.append(datetime.fromtimestamp(file.status.st_mtime, UTC))
    return PendingCount(
        total.notes + tally.notes,
        total.characters + tally.characters,
        total.bytes + tally.bytes,
        min(moments, default=None),
    )
