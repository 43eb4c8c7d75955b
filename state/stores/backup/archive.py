"""Archive: a workspace in one file, a SQLite database that anybody can open.

    tables of state.db   every row; the full-text indexes are empty, and an import builds them anew
    files                the text files of the workspace, each as it was: name, content, mtime_ns
    manifest             one row: when it was made, by which dreamd, and the SHA-256 of all the rest

What can be made again is left out (vector index, copies, locks, the checkpoints of a dream under way), and so is what
must not leave the machine: the originals of redacted texts with their key, and transcripts, which are not redacted.
"""

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import suppress
from pathlib import Path

from state.errors import DocumentError
from state.stores.database.table import layouts_of
from state.stores.disk.disk import TEMPORARY, Disk
from state.stores.disk.syscalls import System, storage_errors
from state.stores.disk.workspace import SCRATCH, Workspace

TABLES = {
    "files": "CREATE TABLE files (name TEXT NOT NULL, content BLOB NOT NULL, mtime_ns INTEGER NOT NULL)",
    "manifest": "CREATE TABLE manifest (at TEXT NOT NULL, dreamd TEXT NOT NULL, sha256 TEXT NOT NULL)",
}
"""What an archive has beside the tables of state.db."""
FILES = ("MEMORY.md", "MEMORY.md.seed-backup", "GENOME.md", "memory/economics.json")
"""The files that a person may have written, without the log of notes."""
BLOCK = 1024**2

_LONGEST_REASON = 300
_UNMOVED = re.compile(r"\.export-([1-9][0-9]{0,8})-.*" + re.escape(TEMPORARY))


class ArchiveError(DocumentError):
    """A file is no archive of a workspace, or a damaged or hostile one; nothing was imported."""


def refused(what: str) -> ArchiveError:
    """Return the error for an archive that is not imported, with the reason as one printable line."""
    return ArchiveError(plainly(what), "nothing was imported, take another backup")


def plainly(what: str) -> str:
    """Return a foreign message as one short line without control characters."""
    printable = "".join(sign if sign.isprintable() else " " for sign in what[:_LONGEST_REASON])
    return " ".join(printable.split())


def place(workspace: Workspace, name: str) -> Path | None:
    """Return the path of the file of this name in a workspace; None for a name that no file in an archive has."""
    if name == SCRATCH or name in FILES:
        return workspace.root / name
    return None


def write_file(name: str, path: Path, blocks: Iterable[bytes], mtime_ns: int, system: System) -> None:
    """Create the file, synced. Files of the state are private; those of the folder are as MEMORY.md is."""
    with storage_errors(path):
        fd = system.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            for block in blocks:
                written = 0
                while written < len(block):
                    written += system.write(fd, block[written:])
            os.fchmod(fd, 0o644 if name in FILES else 0o600)
            os.utime(fd, ns=(mtime_ns, mtime_ns))
            system.fsync(fd)
        finally:
            os.close(fd)


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


_CONTENT = ("files", "content")  # which is read block by block


def content_of(connection: sqlite3.Connection, row: int) -> Generator[bytes, None, None]:
    """Yield the content of a file of an archive, block by block."""
    with connection.blobopen(*_CONTENT, row, readonly=True) as blob:
        while block := blob.read(BLOCK):
            yield block


def unmoved_name(process: int) -> str:
    """Return a name for an archive that this process has yet to move out of the state folder."""
    return f".export-{process}-{os.urandom(4).hex()}.db{TEMPORARY}"


def remove_unmoved(workspace: Workspace, disk: Disk) -> None:
    """Delete the archives whose process ended before it moved them away; for the workspace's owner.

    One whose number another process has by now goes with the old temporary files.
    """
    with storage_errors(workspace.state):
        for path in workspace.state.glob(f".export-*{TEMPORARY}"):
            match = _UNMOVED.fullmatch(path.name)
            if match and not _is_alive(int(match[1])):
                with suppress(FileNotFoundError):
                    disk.system.unlink(path)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
