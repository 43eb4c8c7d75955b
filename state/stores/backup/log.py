"""Log: the notes of a workspace as of one moment, while agents go on appending.

Every note that was appended before is taken; of those that come meanwhile, each wholly or not at all.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from state.errors import NotFoundError
from state.stores.disk.disk import LOCK_WAIT_SECONDS, Disk, opened, wait_for_lock
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import SCRATCH, Workspace
from state.stores.history.inbox import QUIET_SECONDS, end_of_lines

_POLL_SECONDS = 0.01
# Somebody who writes a line byte by byte has not written it yet.
_LONGEST_LINE_SECONDS = 3.0


class Members(Protocol):
    """Who takes files in: an archive, or a generation."""

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int = 0) -> None:
        """Take so many bytes of the source. Raise StorageError if it has fewer."""


def take_log(members: Members, workspace: Workspace, disk: Disk) -> None:
    """Add scratch.md."""
    with suppress(NotFoundError), _opened(disk, workspace.scratch) as file:  # nobody may have written to it
        size = _settled(file, workspace.scratch)
        # What is appended from here on is no part of it: the first bytes of a log do not change.
        members.add(SCRATCH, file, size, os.fstat(file.fileno()).st_mtime_ns)


@contextmanager
def _opened(disk: Disk, path: Path) -> Iterator[BinaryIO]:
    """Open a regular file of the workspace; a link that leads out of it is refused. Raise NotFoundError."""
    with storage_errors(path), opened(disk.target(path)) as file:
        yield file


def _settled(file: BinaryIO, path: Path) -> int:
    """Return how many bytes of a log are written completely: up to the end of a line.

    A last line without its newline is waited for until it has one, or until the file has been quiet for as long as a
    dream waits. Writers that lock the file (`Disk.append_locked`) are never met in the middle.
    """
    first = size = _locked_size(file, path)
    deadline = time.monotonic() + _LONGEST_LINE_SECONDS
    while (end := end_of_lines(file, size)) < first and time.monotonic() < deadline:
        if abs(time.time() - os.fstat(file.fileno()).st_mtime) >= QUIET_SECONDS:
            end = size
            break
        time.sleep(_POLL_SECONDS)
        size = _locked_size(file, path)
    file.seek(0)
    return end


def _locked_size(file: BinaryIO, path: Path) -> int:
    """Return the size of the file while no dreamd appends to it."""
    wait_for_lock(file.fileno(), path, time.monotonic() + LOCK_WAIT_SECONDS)
    try:
        return os.fstat(file.fileno()).st_size
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
