"""Snapshot: the files of a workspace as a crash at one moment would leave them, while notes and short writes go on.

A commit writes state.db, MEMORY.md and scratch.md; none is made meanwhile, and what one that was cut off has
left to do the next owner's `recover` does, as after a crash. The checkpoints of a dream come first of all: they know
less than state.db then, never more. Notes that were appended before are here, and of those that come meanwhile each
wholly or not at all.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from state.errors import BusyError, NotFoundError, StorageError
from state.stores.backup.log import take_log
from state.stores.database.connection import explained, open_unmigrated
from state.stores.disk.disk import below, opened
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import SCRATCH, STATE_FOLDER, contained
from state.stores.generations.belonging import CHECKPOINTS, DATABASES, DOCUMENT, STATE_DB, belongs

Identity = tuple[int, ...]
"""Size, time of the last change and inode of a file; of a database, those of its log as well."""

_TIME = 1  # where it stands in an identity
_MOST_READINGS = 20


class Sink(Protocol):
    """Who takes the files of a snapshot."""

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int, known: Identity | None) -> None:
        """Take so many bytes of the source; `known`: the identity by which it may be recognised the next time."""

    def repeats(self, name: str, known: Identity) -> bool:
        """Take the file as it was taken the last time, if it is still that one; False: it has to be added."""

    def drop(self, name: str) -> None:
        """Forget what was taken under this name: it changed under the reading."""


def identity(root: Path, name: str) -> Identity | None:
    """Return what tells the regular file of this name from what it is after any change; None if there is none."""
    found = _identity(root / name)
    if found is None or name not in DATABASES:
        return found
    log = _identity(root / f"{name}-wal")
    return found + log if log is not None and log[0] else found  # an empty one is whoever reads


def _identity(path: Path) -> Identity | None:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return identity_of(status) if stat.S_ISREG(status.st_mode) else None


def identity_of(status: os.stat_result) -> Identity:
    """Return the identity of an open file, unless it is a database."""
    return (status.st_size, status.st_mtime_ns, status.st_ino)


def take(root: Path, sink: Sink) -> None:
    """Give the sink every file of this workspace's folder that belongs to a generation.

    Never inside a commit. Raise BusyError if MEMORY.md was written meanwhile, and StorageError.
    """
    workspace = contained(root)
    disk = workspace.disk()
    document = identity(workspace.root, DOCUMENT)
    with suppress(sqlite3.DatabaseError):  # a damaged one is begun anew: an answer is paid for again
        _take_database(workspace.root, CHECKPOINTS, sink)
    try:
        _take_database(workspace.root, STATE_DB, sink)
    except sqlite3.Error as error:
        raise explained(error, workspace.database) from error
    take_log(_Log(sink), workspace, disk)
    for name in _others(workspace.root):
        _take_file(workspace.root, name, sink)
    # Every commit writes MEMORY.md after state.db: the file must not be newer than the copy of that.
    if identity(workspace.root, DOCUMENT) != document:
        raise BusyError(f"{workspace.root}: MEMORY.md was written while it was read", "put it again")


class _Log:
    """The sink as the log is given to it, with names as an archive has them."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int = 0) -> None:
        name = name if name == SCRATCH else f"{STATE_FOLDER}/{name}"
        known = identity_of(os.fstat(source.fileno()))
        # What was appended since has its own time: the file as it is taken here is then none that can be recognised.
        mine = known if known[0] == size and known[1] == mtime_ns else None
        if mine is None or not self._sink.repeats(name, mine):
            self._sink.add(name, source, size, mtime_ns, mine)


def _take_database(root: Path, name: str, sink: Sink) -> None:
    """Copy it by SQLite's own means, in one go: others may write; pages keep their places."""
    path = root / name
    known = identity(root, name)
    if known is None or not known[0] or sink.repeats(name, known):
        return
    copy = root / STATE_FOLDER / f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.dreamd-tmp"
    try:
        with storage_errors(copy):
            os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with open_unmigrated(path) as source, closing(sqlite3.connect(copy, isolation_level=None)) as made:
            made.execute("PRAGMA journal_mode = OFF")
            made.execute("PRAGMA synchronous = OFF")
            source.backup(made)
        with storage_errors(copy), opened(copy) as file:
            sink.add(name, file, os.fstat(file.fileno()).st_size, known[_TIME], known)
    finally:
        copy.unlink(missing_ok=True)


def _take_file(root: Path, name: str, sink: Sink) -> None:
    """Take a file that somebody may be saving; one that goes on changing is taken as it is in the end."""
    for reading in range(_MOST_READINGS):
        if reading:
            sink.drop(name)
        elif (seen := identity(root, name)) is not None and sink.repeats(name, seen):
            return
        try:
            with storage_errors(root / name), opened(root / name) as file:
                known = identity_of(os.fstat(file.fileno()))
                sink.add(name, file, known[0], known[_TIME], known)
                if identity_of(os.fstat(file.fileno())) == known:
                    return
        except NotFoundError:  # removed since the folder was listed
            return
        except StorageError:
            # It became shorter: whoever writes it in place is not done.
            if reading == _MOST_READINGS - 1:
                raise


def _others(root: Path) -> Iterator[str]:
    with storage_errors(root):
        for path in below(root):
            name = str(path.relative_to(root))
            if belongs(name) and name not in DATABASES and name != SCRATCH and _is_regular(path):
                yield name


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
