"""Read an archive that anybody may have made: only its rows are taken, into a database of our own.

It is opened read-only. Its schema must be exactly that of its version: without views, triggers, indexes or columns of
its own, it cannot execute anything. Then everything is read and compared with its digest, and every row that is taken
must be readable by dreamd.
"""

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from state.errors import StorageError
from state.stores.backup.archive import (
    TABLES,
    ArchiveError,
    content_of,
    digest_of,
    each_full_text,
    making,
    place,
    plainly,
)
from state.stores.database import schema
from state.stores.database.connection import explained
from state.stores.database.copies import broken_page, is_damage
from state.stores.database.migration import make_schema
from state.stores.database.moments import from_text
from state.stores.database.opening import normalised, open_database, things, unlike_schema
from state.stores.database.table import is_moment, layouts_of
from state.stores.database.tables import TABLES as STATE_TABLES
from state.stores.disk.disk import LONGEST_FILE, opened
from state.stores.disk.syscalls import System, storage_errors
from state.stores.disk.workspace import SCRATCH, Workspace, contained
from state.stores.erasing.intent import UNFINISHED, is_unfinished
from state.stores.repair.check import faults

_COLUMN = re.compile("[a-z_]+")
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_MAX_MTIME_NS = 2**62


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The result of unpacking an archive: when it was made, and how many foreign transcripts state.db knew.

    Reading positions of transcripts outside the workspace are dropped: here they may belong to other files.
    """

    at: datetime
    foreign: int


def unpack(path: Path, workspace: Workspace, system: System) -> Unpacked:
    """Write the files of an archive and a new state.db to a workspace that has neither."""
    with open_archive(path) as (source, at):
        for row, name, mtime_ns in source.execute("SELECT rowid, name, mtime_ns FROM files").fetchall():
            with closing(content_of(source, row)) as blocks:
                _write_file(workspace.root / name, blocks, mtime_ns, system)
        return Unpacked(at, rebuild(source, workspace.database))


def _write_file(path: Path, blocks: Iterable[bytes], mtime_ns: int, system: System) -> None:
    """Create a file of an archive, synced. Only the owner can read the log; other files get MEMORY.md's mode."""
    with storage_errors(path):
        fd = system.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            for block in blocks:
                written = 0
                while written < len(block):
                    written += system.write(fd, block[written:])
            os.fchmod(fd, 0o600 if path.name == Path(SCRATCH).name else 0o644)
            os.utime(fd, ns=(mtime_ns, mtime_ns))
            system.fsync(fd)
        finally:
            os.close(fd)


def _refused(what: str) -> ArchiveError:
    """Return the error for an archive that is not imported, with the reason as one printable line."""
    return ArchiveError(plainly(what), "nothing was imported, take another backup")


@contextmanager
def open_archive(path: Path) -> Iterator[tuple[sqlite3.Connection, datetime]]:
    """Open an archive, and yield it with its time once it was read completely and is whole."""
    with open_foreign(path) as source:
        found = source.execute("SELECT at, sha256 FROM manifest LIMIT 2").fetchall()
        if len(found) != 1:
            raise _refused("its manifest is no row")
        _require_files(source)
        if digest_of(source) != found[0][1]:
            raise _refused("it is not what its manifest says; the archive is damaged")
        if not is_moment(found[0][0]):
            raise _refused("its manifest has no time")
        yield source, from_text(found[0][0])


def _require_files(source: sqlite3.Connection) -> None:
    """Raise ArchiveError unless every file has a valid, unique name, a content and a time."""
    names = set[str]()
    for name, kind, mtime_ns in source.execute("SELECT name, typeof(content), mtime_ns FROM files"):
        if not isinstance(name, str) or place(contained(Path("/")), name) is None or name in names:
            raise _refused(f"{str(name)[:200]!r} is no file of a workspace, or in it twice")
        if kind != "blob" or not isinstance(mtime_ns, int) or not 0 <= mtime_ns < _MAX_MTIME_NS:
            raise _refused(f"{name} is no file, or of no time")
        names.add(name)


@contextmanager
def open_foreign(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database read-only that has the tables of an archive, with all pages intact.

    Raise ArchiveError for any other, also for errors found while it is open.
    """
    _require_form(path)
    try:
        uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as source:
            source.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_FILE)
            source.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            source.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                source.execute(f"PRAGMA {pragma}")
            version = int(source.execute("PRAGMA user_version").fetchone()[0])
            if version < 1:
                raise _refused("it has no schema of dreamd's")
            if why := schema.unreadable(version):
                is_newer = version > schema.SCHEMA_VERSION
                raise ArchiveError(
                    f"it was {why[0]}", "upgrade, then import it" if is_newer else "nothing was imported"
                )
            _require_tables(source, version)
            if wrong := broken_page(source):
                raise _refused(f"it is damaged: {wrong}")
            yield source
    except UnicodeDecodeError as error:
        raise _refused("a text in it is not UTF-8") from error
    except sqlite3.Error as error:
        if not is_damage(error):
            raise explained(error, path) from error
        raise _refused(str(error)) from error


def _require_tables(source: sqlite3.Connection, version: int) -> None:
    """Raise ArchiveError unless it has the current schema and `TABLES`; of an older one, rows are read by name."""
    wrong = bool(unlike_schema(source, TABLES))
    if version < schema.SCHEMA_VERSION:
        found = things(source)
        wrong = "crystals" not in layouts_of(source)
        wrong |= any(found.get(name) != normalised(statement) for name, statement in TABLES.items())
    if wrong:
        raise _refused(f"its tables are not those of schema {version}")


def _require_form(path: Path) -> None:
    """Raise ArchiveError unless this is one whole SQLite file that needs no journal beside it."""
    with storage_errors(path), opened(path) as file:
        start, size = file.read(_HEADER_BYTES), os.fstat(file.fileno()).st_size
    if len(start) < _HEADER_BYTES or not start.startswith(_MAGIC):
        raise _refused("it is no archive of a workspace")
    page, pages = int.from_bytes(start[16:18], "big"), int.from_bytes(start[28:32], "big")
    if (65_536 if page == 1 else page) * pages != size:
        raise _refused("it is cut off, or longer than it says")
    if start[18:20] != b"\1\1":
        raise _refused("it wants a journal beside it")


def rebuild(source: sqlite3.Connection, target: Path) -> int:
    """Build state.db from the rows of a foreign one, and migrate it; return how many transcripts were dropped."""
    with making(target) as made:
        made.execute("BEGIN")
        _take_rows(source, made)
        made.execute("COMMIT")
    try:
        connection = open_database(target)
    except StorageError as error:  # rows that violate a table's constraints
        if not isinstance(error.__cause__, sqlite3.IntegrityError):
            raise
        raise _refused(str(error.__cause__)) from error
    with closing(connection):
        for fault in faults(connection):
            raise _refused(fault)
        each_full_text(connection, "rebuild")
        if is_unfinished(connection):
            raise _refused(f"{UNFINISHED} where it comes from")
        files = [str(row[0]) for row in connection.execute("SELECT file FROM watermarks")]
        foreign = [(file,) for file in files if not _is_inside(file)]
        connection.executemany("DELETE FROM watermarks WHERE file = ?", foreign)
        return len(foreign)


def _take_rows(source: sqlite3.Connection, made: sqlite3.Connection) -> None:
    """Copy the rows of dreamd's tables; rows of an older schema go to bare tables, which a migration reads."""
    version = int(source.execute("PRAGMA user_version").fetchone()[0])
    if is_current := version == schema.SCHEMA_VERSION:
        make_schema(made)
    for table in layouts_of(source).values():
        if table.name in STATE_TABLES:
            columns = ", ".join(f'"{name}"' for name in table.columns if _COLUMN.fullmatch(name))
            if not is_current:
                made.execute(f"CREATE TABLE {table.name} ({columns})")
            places = ", ".join("?" * (columns.count(",") + 1))
            rows = source.execute(f"SELECT {columns} FROM {table.name}")
            made.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", rows)
    made.execute(f"PRAGMA user_version = {version}")


def _is_inside(file: str) -> bool:
    """Return whether state.db's name of a transcript leads to a file of the owner inside the workspace's folder."""
    path = PurePosixPath(file)
    return bool(path.parts) and not path.is_absolute() and not {"..", ".dreamd"} & {*path.parts} and "\0" not in file
