"""Archive: a workspace in one file, a SQLite database that anybody can open.

    tables of state.db   every row; the full-text indexes are empty, and an import builds them anew
    files                the text files of the workspace, each as it was: name, content, mtime_ns
    manifest             one row: when it was made, by which dreamd, and the SHA-256 of all the rest

What can be made again is left out (vector index, copies, locks, the checkpoints of a dream under way), and so is what
must not leave the machine: the originals of redacted texts with their key, and transcripts, which are not redacted.
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
from state.stores.database.connection import explained, to_text
from state.stores.database.copies import is_damage, write_copy
from state.stores.database.schema import INDEXES
from state.stores.database.table import layouts_of
from state.stores.disk.disk import LOCK_WAIT_SECONDS, LONGEST_LOG, Disk, opened, wait_for_lock
from state.stores.disk.syscalls import storage_errors
from state.stores.disk.workspace import SCRATCH, Workspace
from state.stores.erasing.intent import ADVICE, UNFINISHED, is_unfinished
from state.stores.history.inbox import QUIET_SECONDS, end_of_lines
from state.stores.repair.check import faults

TABLES = {
    "files": "CREATE TABLE files (name TEXT NOT NULL, content BLOB NOT NULL, mtime_ns INTEGER NOT NULL)",
    "manifest": "CREATE TABLE manifest (at TEXT NOT NULL, dreamd TEXT NOT NULL, sha256 TEXT NOT NULL)",
}
"""What an archive has beside the tables of state.db."""
FILES = ("MEMORY.md", "MEMORY.md.seed-backup", "GENOME.md", "memory/economics.json")
"""The files that a person may have written, without the log of notes."""
AddFile = Callable[[str, BinaryIO, int, int], None]
"""Takes a file in: its name, where it is read, its size and mtime_ns. Raises StorageError if it is shorter."""

_BLOCK = 1024**2
_CONTENT = ("files", "content")  # read block by block
_LONGEST_REASON = 300
_MOST_READINGS = 100  # of a file that somebody is saving; after so many it is taken as it is
_POLL_SECONDS = 0.01
_LONGEST_LINE_SECONDS = 3.0  # somebody who writes a line byte by byte has not written it yet


class ArchiveError(DocumentError):
    """A file is no archive of a workspace, or a damaged or hostile one; nothing was imported."""


def plainly(what: str) -> str:
    """Return a foreign message as one short line without control characters."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in what[:_LONGEST_REASON]).split())


def place(workspace: Workspace, name: str) -> Path | None:
    """Return the path of the file of this name in a workspace; None for a name that no file in an archive has."""
    return workspace.root / name if name == SCRATCH or name in FILES else None


def digest_of(connection: sqlite3.Connection) -> str:
    """Return the SHA-256 of every row and file of an archive, but for its manifest."""
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
    """Yield the content of a file of an archive, block by block."""
    with connection.blobopen(*_CONTENT, row, readonly=True) as blob:
        while block := blob.read(_BLOCK):
            yield block


@contextmanager
def making(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a new database in one file without journal or syncing: the caller deletes it after an error."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            yield connection
    except sqlite3.Error as error:
        if is_damage(error):
            raise
        raise explained(error, path) from error


def each_full_text(connection: sqlite3.Connection, command: str) -> None:
    """Give a command of FTS5 to every full-text index."""
    for index in INDEXES:
        connection.execute(f"INSERT INTO {index} ({index}) VALUES (?)", (command,))


def write_archive(workspace: Workspace, disk: Disk, target: Path, dreamd: str, now: datetime) -> int:
    """Write an archive into the new file `target`; return how many text files are in it. Nothing is synced.

    The caller holds the workspace's lock: no version is made, and no log taken or retired. state.db is read first,
    and the log after it: what agents append and the daemon absorbs meanwhile is then in the log, where it is pending,
    and never in state.db alone. Raise DreamdError, also while something is being forgotten: it would be in it.
    """
    database = workspace.database
    write_copy(database, target)
    try:
        with making(target) as made:
            each_full_text(made, "delete-all")
            # Without the deleted words in the indexes, and without a count of changes to the schema.
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
    """Add the files that a person may have written, each whole, as it is now; missing ones are left out."""
    for name in FILES:
        path = workspace.root / name
        content = disk.read_optional(path)
        for _ in range(_MOST_READINGS):
            again, content = content, disk.read_optional(path)
            if again == content:
                break
        with suppress(FileNotFoundError):
            if content is not None:
                add(name, io.BytesIO(content), len(content), path.stat().st_mtime_ns)


def add_log(add: AddFile, workspace: Workspace, disk: Disk) -> None:
    """Add scratch.md as of one moment, while agents go on appending.

    Every note that was appended before is in it; of those that come meanwhile, each wholly or not at all.
    """
    path = workspace.scratch
    # A link that leads out of the workspace is refused, and nobody may have written a note.
    with suppress(NotFoundError), storage_errors(path), opened(disk.target(path)) as file:
        size = _settled_size(file, path)
        # What is appended from here on is no part of it: the first bytes of a log do not change.
        add(SCRATCH, file, size, os.fstat(file.fileno()).st_mtime_ns)


def _settled_size(file: BinaryIO, path: Path) -> int:
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
