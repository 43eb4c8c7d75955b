"""Archive writing: the files of a workspace whose lock is held, as of one moment, while agents go on appending."""

import fcntl
import gzip
import hashlib
import io
import os
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol, Self

from state.codec import encode
from state.errors import NotFoundError, StorageError
from state.stores.backup.database import snapshot
from state.stores.backup.manifest import (
    BLOCK,
    DATABASE,
    FORMAT,
    MANIFEST,
    MAX_MEMBERS,
    MAX_WHOLE_BYTES,
    SCRATCH,
    Manifest,
    Member,
    own_files,
)
from state.stores.disk.disk import LOCK_WAIT_SECONDS, Disk, opened, wait_for_lock
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import Workspace
from state.stores.history.notes import QUIET_SECONDS

_POLL_SECONDS = 0.01
# Somebody who writes a line byte by byte has not written it yet.
_LONGEST_LINE_SECONDS = 3.0
# Of a file that somebody is saving; after so many it is taken as it is.
_MOST_READINGS = 100


class Members(Protocol):
    """Who takes files in: an archive, or a generation."""

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int = 0) -> None:
        """Take so many bytes of the source. Raises StorageError when it has fewer."""


class ArchiveWriter:
    """An archive that is being written: the members, and at last the manifest. Use it as a context manager."""

    def __init__(self, file: BinaryIO) -> None:
        # No name and no time: what was packed, and when, the manifest says.
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)
        self._tar = tarfile.TarFile(fileobj=self._gzip, mode="w", format=tarfile.GNU_FORMAT, copybufsize=BLOCK)
        self._members: list[Member] = []

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int = 0) -> None:
        """Add so many bytes of the source. Raises StorageError when it has fewer."""
        if len(self._members) >= MAX_MEMBERS:
            raise StorageError(f"the workspace has more than {MAX_MEMBERS:,} files", "copy its folder instead")
        digested = _Digested(name, source)
        self._write(name, size, digested)
        self._members.append(Member(name, size, digested.sha256.hexdigest(), mtime_ns))

    def close(self, dreamd: str, schema: int, now: datetime) -> None:
        """Write the manifest; nothing is synced."""
        members = tuple(sorted(self._members, key=lambda one: one.name))
        content = encode(Manifest(FORMAT, dreamd, schema, now, members)).encode()
        self._write(MANIFEST, len(content), io.BytesIO(content))
        self._tar.close()
        self._gzip.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # After `close` there is nothing to do; without it the file is thrown away, whatever is in it.
        with suppress(OSError, ValueError):
            self._gzip.close()

    def _write(self, name: str, size: int, source: "BinaryIO | _Digested") -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = size, 0o600
        self._tar.addfile(entry, source)  # type: ignore[arg-type]


class _Digested:
    """The bytes of a file, as an archive takes them in, with their digest."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        self._name = name
        self._file = file
        self.sha256 = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """The next bytes, exactly so many. Raises StorageError when the file has become shorter."""
        block = self._file.read(size)
        if len(block) < size:
            raise StorageError(f"{self._name} became shorter while it was read", "export again")
        self.sha256.update(block)
        return block


def take_database(writer: ArchiveWriter, workspace: Workspace, temporary: Path) -> int:
    """Add state.db as it is now, through a temporary file; returns the version of its schema."""
    try:
        schema = snapshot(workspace.database, temporary)
        with storage_errors(temporary), temporary.open("rb") as file:
            writer.add(DATABASE, file, temporary.stat().st_size)
    finally:
        temporary.unlink(missing_ok=True)
    return schema


def take_files(writer: ArchiveWriter, workspace: Workspace, disk: Disk) -> None:
    """Add the files that a person may have written, each whole, as it is now; missing ones are left out."""
    for name, path in own_files(workspace):
        found = _whole(disk, path)
        if found is not None:
            writer.add(name, io.BytesIO(found[0]), len(found[0]), found[1])


def take_log(writer: Members, workspace: Workspace, disk: Disk) -> None:
    """Add scratch.md.

    Every note that was appended before this call is in it; of those that come meanwhile, each wholly or not at all.
    """
    with suppress(NotFoundError), _opened(disk, workspace.scratch) as file:  # nobody may have written to it
        size = _settled(file, workspace.scratch)
        # What is appended from here on is no part of it: the first bytes of a log do not change.
        writer.add(SCRATCH, file, size, os.fstat(file.fileno()).st_mtime_ns)


@contextmanager
def _opened(disk: Disk, path: Path) -> Iterator[BinaryIO]:
    """A regular file of the workspace, opened; a link that leads out of it is refused. Raises NotFoundError."""
    with storage_errors(path), opened(disk.target(path)) as file:
        yield file


def _whole(disk: Disk, path: Path) -> tuple[bytes, int] | None:
    """The bytes of a file that somebody may be saving, and its time; None when there is none."""
    for _ in range(_MOST_READINGS):
        try:
            with _opened(disk, path) as file:
                before = os.fstat(file.fileno())
                content = file.read(MAX_WHOLE_BYTES + 1)
                after = os.fstat(file.fileno())
        except NotFoundError:
            return None
        if len(content) > MAX_WHOLE_BYTES:
            raise StorageError(f"{path} is longer than {MAX_WHOLE_BYTES:,} bytes", "move it away and export again")
        if len(content) == after.st_size and before.st_mtime_ns == after.st_mtime_ns:
            break
    return content, after.st_mtime_ns


def _settled(file: BinaryIO, path: Path) -> int:
    """How many bytes of a log are written completely: up to the end of a line.

    A last line without its newline is waited for until it has one, or until the file has been quiet for as long as a
    dream waits; writers that lock the file (`Disk.append_locked`) are never met in the middle.
    """
    first = _locked_size(file, path)
    end, size = _end_of_lines(file, 0, first), first
    deadline = time.monotonic() + _LONGEST_LINE_SECONDS
    while end < first and time.monotonic() < deadline:
        if abs(time.time() - os.fstat(file.fileno()).st_mtime) >= QUIET_SECONDS:
            return size
        time.sleep(_POLL_SECONDS)
        size = _locked_size(file, path)
        end = max(end, _first_end(file, first, size))
    return end


def _locked_size(file: BinaryIO, path: Path) -> int:
    """The size of the file while no dreamd appends to it."""
    wait_for_lock(file.fileno(), path, time.monotonic() + LOCK_WAIT_SECONDS)
    try:
        return os.fstat(file.fileno()).st_size
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _end_of_lines(file: BinaryIO, start: int, end: int) -> int:
    """The place after the last newline before `end`; `start` when there is none."""
    while end > start:
        begin = max(start, end - BLOCK)
        found = os.pread(file.fileno(), end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return start


def _first_end(file: BinaryIO, start: int, end: int) -> int:
    """The place after the first newline from `start` on; 0 when there is none yet."""
    while start < end:
        block = os.pread(file.fileno(), min(BLOCK, end - start), start)
        if not block:
            return 0
        found = block.find(b"\n")
        if found >= 0:
            return start + found + 1
        start += len(block)
    return 0
