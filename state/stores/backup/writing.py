"""Writing an archive: a verified copy of state.db, with the text files of the workspace as rows in it."""

import io
import sqlite3
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from state.errors import DreamdError, StorageError
from state.stores.backup.archive import BLOCK, FILES, TABLES, digest_of, plainly
from state.stores.backup.log import take_log
from state.stores.backup.reading import each_full_text, making
from state.stores.database.connection import explained, to_text
from state.stores.database.copies import write_copy
from state.stores.disk.disk import LONGEST_LOG, Disk
from state.stores.disk.workspace import Workspace
from state.stores.erasing.intent import ADVICE, UNFINISHED, is_unfinished
from state.stores.repair.check import faults

# Of a file that somebody is saving; after so many it is taken as it is.
_MOST_READINGS = 100


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
            files = _Files(made)
            _take_files(files, workspace, disk)
            take_log(files, workspace, disk)
            made.execute("INSERT INTO manifest VALUES (?, ?, ?)", (to_text(now), dreamd, digest_of(made)))
            made.execute("COMMIT")
    except sqlite3.Error as error:
        raise explained(error, target) from error
    return files.count


class _Files:
    """The table `files` of an archive that is being written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.count = 0

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int = 0) -> None:
        """Add so many bytes of the source. Raise StorageError if it has fewer, or too many for dreamd to read."""
        if size > LONGEST_LOG:
            raise StorageError(f"{name} has {size:,} bytes, and {LONGEST_LOG:,} are read at most", "move it away")
        row = self._connection.execute(
            "INSERT INTO files VALUES (?, zeroblob(?), ?)", (name, size, mtime_ns)
        ).lastrowid
        assert row is not None
        with self._connection.blobopen("files", "content", row) as blob:
            while (left := size - blob.tell()) > 0:
                if not (block := source.read(min(BLOCK, left))):
                    raise StorageError(f"{name} became shorter while it was read", "export again")
                blob.write(block)
        self.count += 1


def _take_files(files: _Files, workspace: Workspace, disk: Disk) -> None:
    """Add the files that a person may have written, each whole, as it is now; missing ones are left out."""
    for path in (workspace.root / name for name in FILES):
        content = disk.read_optional(path)
        for _ in range(_MOST_READINGS):
            again, content = content, disk.read_optional(path)
            if again == content:
                break
        with suppress(FileNotFoundError):
            if content is not None:
                files.add(
                    str(path.relative_to(workspace.root)), io.BytesIO(content), len(content), path.stat().st_mtime_ns
                )
