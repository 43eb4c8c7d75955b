"""Archive: a workspace in one file, a SQLite database that anybody can open.

    tables of state.db   every row; the full-text indexes are empty, and an import rebuilds them
    files                the text files of the workspace, unchanged: name, content, mtime_ns
    manifest             one row: when it was made, by which dreamd, and the SHA-256 of everything else

It omits what can be rebuilt (vector index, copies, locks, the checkpoints of a dream under way), and what must not
leave the machine: the originals of redacted texts with their key, and transcripts, which are not redacted.
"""

import fcntl
import hashlib
import io
import json
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from state.errors import DocumentError, DreamdError, NotFoundError, StorageError
from state.stores.database.connection import explained
from state.stores.database.copies import is_damage, write_copy
from state.stores.database.moments import to_text
from state.stores.database.opening import PAGE_BYTES
from state.stores.database.schema import INDEXES
from state.stores.database.table import layouts_of
from state.stores.disk.disk import LOCK_WAIT_SECONDS, LONGEST_LOG, Disk, opened, wait_for_lock
from state.stores.disk.strangers import Author, author_of
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import SCRATCH, Workspace
from state.stores.erasing.intent import ADVICE, UNFINISHED, is_unfinished
from state.stores.history.inbox import QUIET_SECONDS, end_of_lines
from state.stores.repair.check import faults

TABLES = {
    "files": "CREATE TABLE files (name TEXT NOT NULL, content BLOB NOT NULL, mtime_ns INTEGER NOT NULL)",
    "manifest": "CREATE TABLE manifest (at TEXT NOT NULL, dreamd TEXT NOT NULL, sha256 TEXT NOT NULL)",
}
"""The tables that an archive has in addition to those of state.db."""
FILES = ("MEMORY.md", "MEMORY.md.seed-backup", "GENOME.md", "memory/economics.json")
"""The files that a person may have written, except the log of notes."""
AddFile = Callable[[str, BinaryIO, int, int], None]
"""Adds a file, given as name, stream, size and mtime_ns. Raises StorageError if the stream is shorter."""

_BLOCK = 1024**2
_CONTENT = ("files", "content")  # streamed block by block
_LONGEST_REASON = 300
_MOST_READINGS = 100  # of a file that somebody is saving; then it is taken as it is
_POLL_SECONDS = 0.01
_LONGEST_LINE_SECONDS = 3.0  # a line that somebody types byte by byte for longer does not count as written


class ArchiveError(DocumentError):
    """A file that is no archive of a workspace, or a damaged or hostile one; nothing was imported."""


def plainly(what: str) -> str:
    """Return a foreign message as one short line without control characters."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in what[:_LONGEST_REASON]).split())


def place(workspace: Workspace, name: str) -> Path | None:
    """Return the path of an archive's file in a workspace; None for a name that no archive has."""
    return workspace.root / name if name == SCRATCH or name in FILES else None


def digest_of(connection: sqlite3.Connection) -> str:
    """Return the SHA-256 of every row and file of an archive, except its manifest."""
    digest = hashlib.sha256()
    for table in layouts_of(connection).values():
        if table.name == "manifest":
            continue
        columns = ", ".join(column for column in table.columns if (table.name, column) != _CONTENT)
        for row in connection.execute(f"SELECT {columns} FROM {table.name} ORDER BY {', '.join(table.key)}"):
            digest.update(json.dumps([table.name, *row], default=bytes.hex).encode())
    for (row,) in connection.execute("SELECT rowid FROM files ORDER BY rowid").fetchall():
        for block in content_of(connection, row):
            digest.update(block)
    return digest.hexdigest()


def content_of(connection: sqlite3.Connection, row: int) -> Generator[bytes, None, None]:
    """Yield the content of an archive's file, block by block."""
    with connection.blobopen(*_CONTENT, row, readonly=True) as blob:
        while block := blob.read(_BLOCK):
            yield block


@contextmanager
def making(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a new database in one file without journal or syncing; after an error the caller deletes it."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            yield connection
    except sqlite3.Error as error:
        if is_damage(error):
            raise
        raise explained(error, path) from error


def each_full_text(connection: sqlite3.Connection, command: str) -> None:
    """Run a command of FTS5 on every full-text index."""
    for index in INDEXES:
        connection.execute(f"INSERT INTO {index} ({index}) VALUES (?)", (command,))


def write_archive(workspace: Workspace, disk: Disk, target: Path, dreamd: str, now: datetime) -> int:
    """Write an archive to the new file `target`; return the number of text files in it. Nothing is synced.

    The caller holds the workspace's lock, so no version is made and no log is taken in or retired. state.db is read
    before the log: notes that are appended and absorbed meanwhile are in the log, where they are pending, and never
    in state.db alone. Raise DreamdError, also during a forgetting, whose text would be in the archive.
    """
    database = workspace.database
    write_copy(database, target)
    try:
        with making(target) as made:
            each_full_text(made, "delete-all")
            # Remove the deleted words from the indexes, and reset the count of schema changes.
            made.execute("PRAGMA schema_version = 1")
            made.execute("VACUUM")
            if is_unfinished(made):
                raise StorageError(
                    f"{database}: {UNFINISHED}, so an archive would hold it", f"{ADVICE}, and export then"
                )
            for fault in faults(made):
                advice = "a backup of that could not be imported, run 'dreamd doctor'"
                raise DreamdError(f"{database}: {plainly(fault)}", advice)
            for statement in TABLES.values():
                made.execute(statement)
            made.execute("BEGIN")
            add = partial(_add_file, made)
            _add_files(add, workspace, disk)
            add_log(add, workspace, disk)
            made.execute("INSERT INTO manifest VALUES (?, ?, ?)", (to_text(now), dreamd, digest_of(made)))
            made.execute("COMMIT")
            return int(made.execute("SELECT count(*) FROM files").fetchone()[0])
    except sqlite3.Error as error:
        raise explained(error, target) from error


def _add_file(made: sqlite3.Connection, name: str, source: BinaryIO, size: int, mtime_ns: int) -> None:
    if size > LONGEST_LOG:
        raise StorageError(f"{name} has {size:,} bytes, and {LONGEST_LOG:,} are read at most", "move it away")
    row = made.execute("INSERT INTO files VALUES (?, zeroblob(?), ?)", (name, size, mtime_ns)).lastrowid
    assert row is not None
    with made.blobopen(*_CONTENT, row) as blob:
        while (left := size - blob.tell()) > 0:
            if not (block := source.read(min(_BLOCK, left))):
                raise StorageError(f"{name} became shorter while it was read", "export again")
            blob.write(block)


def _add_files(add: AddFile, workspace: Workspace, disk: Disk) -> None:
    """Add the files that a person may have written, each whole and current; missing ones are left out.

    Left out are a stranger's rules and earnings as well, which whoever imports the archive would obey.
    """
    for name in FILES:
        path = workspace.root / name
        if path in (workspace.genome, workspace.economics) and author_of(workspace, path) is not Author.OWNER:
            continue
        content = disk.read_optional(path)
        for _ in range(_MOST_READINGS):
            again, content = content, disk.read_optional(path)
            if again == content:
                break
        with suppress(FileNotFoundError):
            if content is not None:
                add(name, io.BytesIO(content), len(content), path.stat().st_mtime_ns)


def add_log(add: AddFile, workspace: Workspace, disk: Disk) -> None:
    """Add scratch.md as of one moment, while agents keep appending.

    Every note appended before is in it; each note appended meanwhile is in it wholly or not at all.
    """
    path = workspace.scratch
    # A link that leads out of the workspace is refused. The file may be missing: nobody may have written a note.
    with suppress(NotFoundError), storage_errors(path), opened(disk.target(path)) as file:
        size = _settled_size(file, path)
        # Later appends are excluded by the size; the first bytes of a log do not change.
        add(SCRATCH, file, size, os.fstat(file.fileno()).st_mtime_ns)


def _settled_size(file: BinaryIO, path: Path) -> int:
    """Return how many bytes of a log are completely written: up to the end of a line.

    A last line without its newline is awaited until it has one, or until the file has been quiet for as long as a
    dream waits. Writers that lock the file (`Disk.append_locked`) are never caught halfway.
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
    """Return the size of the file at a moment when no dreamd appends to it."""
    wait_for_lock(file.fileno(), path, time.monotonic() + LOCK_WAIT_SECONDS)
    try:
        return os.fstat(file.fileno()).st_size
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
