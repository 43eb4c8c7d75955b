"""Database backup: copies state.db into an archive, and out of one that anybody may have made.

What goes into an archive is a copy of the file without free pages; its full-text indexes are empty. Of what comes out
of one nothing but rows is taken, into a database that this program
has made: the schema must be that of its version (no trigger, view, index or generated column of its own), and every
row one that dreamd can read. Which files outside the workspace were read is left out. Full-text indexes are built
anew.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from state.errors import DreamdError, StorageError
from state.stores.backup.manifest import MAX_WHOLE_BYTES, ArchiveError, is_inside, plainly
from state.stores.database.columns import layouts_of
from state.stores.database.connection import (
    SCHEMA_VERSION,
    explained,
    make_schema,
    open_database,
    require_plain,
    unlike_schema,
)
from state.stores.disk.disk import opened
from state.stores.erasing.intent import ADVICE, UNFINISHED, is_unfinished
from state.stores.repair.check import faults

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
# Not the database's fault.
_OF_THE_DISK = ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")
_FULL_TEXT = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%USING fts5 (%'"
_Wrong = Callable[[str], DreamdError]


def snapshot(database: Path, target: Path) -> int:
    """Copy state.db, as it is at this moment, into a new file for an archive; returns the version of its schema.

    Others may write meanwhile. `target` is one file when this returns, not synced, and holds nothing that was
    deleted. Raises DreamdError, also while something is being forgotten: it would be in the archive, for good.
    """

    def wrong(what: str) -> DreamdError:
        return DreamdError(
            f"{database}: {plainly(what)}", "a backup of that could not be imported, run 'dreamd doctor'"
        )

    with _reading(database, "mode=ro", wrong) as source:
        source.execute("VACUUM INTO ?", (str(target),))
        with _making(target) as made:
            version = _version(made, wrong)
            _each_full_text(made, "delete-all")
            # Without the deleted words in the indexes, and without a count of changes to the schema.
            made.execute("PRAGMA schema_version = 1")
            made.execute("VACUUM")
            if is_unfinished(made):
                raise StorageError(
                    f"{database}: {UNFINISHED}, so an archive would hold it", f"{ADVICE}, and export then"
                )
            _require_sound(made, wrong)
    return version


def rebuilt(incoming: Path, target: Path, wanted: int) -> int:
    """Make state.db of the one that came in an archive, and bring it to the current schema.

    Returns of how many transcripts outside the workspace it knew how far they were read: here that means nothing, or
    another's file. Raises ArchiveError for a database that no `snapshot` of this version wrote.
    """

    def wrong(what: str) -> DreamdError:
        return ArchiveError(f"state.db of the archive: {plainly(what)}", "nothing was imported, take another backup")

    _require_form(incoming, wrong)
    _rebuild(incoming, "mode=ro&immutable=1", target, wanted, wrong)
    with closing(open_database(target)) as made:
        if is_unfinished(made):
            raise wrong(f"{UNFINISHED} where it comes from")
        return _leave_foreign(made)


def _rebuild(database: Path, mode: str, target: Path, wanted: int | None, wrong: _Wrong) -> None:
    """Copy every row into a new database of the same schema, which is `wanted` unless that is None."""
    with _reading(database, mode, wrong) as source:
        _distrust(source)
        version = _version(source, wrong)
        if wanted not in (None, version):
            raise wrong(f"it has schema {version}, and the manifest says {wanted}")
        _require_schema(source, version, wrong)
        for (result,) in source.execute("PRAGMA quick_check(1)"):
            if result != "ok":
                raise wrong(f"damaged: {result}")
        with _making(target) as made:
            make_schema(made, version)
            _copy(source, made, wrong)
            _require_sound(made, wrong)
            _each_full_text(made, "rebuild")


def _require_form(path: Path, wrong: _Wrong) -> None:
    """Return if this is one whole file in SQLite's format that needs no journal beside it."""
    with opened(path) as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise wrong("it is no database of SQLite")
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    if (65_536 if page == 1 else page) * pages != path.stat().st_size:
        raise wrong("it is cut off, or longer than it says")
    if header[18:20] != b"\1\1":
        raise wrong("it wants a journal beside it")


@contextmanager
def _reading(path: Path, mode: str, wrong: _Wrong) -> Iterator[sqlite3.Connection]:
    """A connection to a database; errors of SQLite's that are the database's fault are `wrong`."""
    require_plain(path)
    try:
        uri = f"file:{quote(str(path.absolute()))}?{mode}"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            yield connection
    except UnicodeDecodeError as error:
        raise wrong("a text in it is not UTF-8") from error
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith(_OF_THE_DISK):
            raise explained(error, path) from error
        raise wrong(str(error)) from error


def _distrust(connection: sqlite3.Connection) -> None:
    """Restrict the connection, so that nothing in the file can do more than be read."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_WHOLE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "busy_timeout = 10000"):
        connection.execute(f"PRAGMA {pragma}")


@contextmanager
def _making(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a new database in one file without journal or syncing: the caller deletes it after an error."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        yield connection


def _version(connection: sqlite3.Connection, wrong: _Wrong) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise wrong(f"it has schema {version}, and this dreamd knows {SCHEMA_VERSION}")
    if version < 1:
        raise wrong("it has no schema of dreamd's")
    return version


def _require_schema(source: sqlite3.Connection, version: int, wrong: _Wrong) -> None:
    if unlike_schema(source, version):
        raise wrong(f"its tables are not those of schema {version}")


def _require_sound(connection: sqlite3.Connection, wrong: _Wrong) -> None:
    """Return if every page of this database is in order, and every row one that dreamd can read."""
    connection.row_factory = sqlite3.Row
    for fault in faults(connection):
        raise wrong(fault)


def _leave_foreign(made: sqlite3.Connection) -> int:
    files = [str(row[0]) for row in made.execute("SELECT file FROM watermarks")]
    foreign = [(file,) for file in files if not is_inside(file)]
    made.execute("PRAGMA secure_delete = ON")
    made.executemany("DELETE FROM watermarks WHERE file = ?", foreign)
    return len(foreign)


def _copy(source: sqlite3.Connection, made: sqlite3.Connection, wrong: _Wrong) -> None:
    """Every row of every table."""
    made.execute("BEGIN")
    for table in layouts_of(made).values():
        columns = ", ".join(table.columns)
        places = ", ".join("?" for _ in table.columns)
        rows = source.execute(f"SELECT {columns} FROM {table.name}")
        try:
            made.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", rows)
        except sqlite3.IntegrityError as error:
            raise wrong(str(error)) from error
    made.execute("COMMIT")


def _each_full_text(made: sqlite3.Connection, command: str) -> None:
    for (index,) in made.execute(_FULL_TEXT).fetchall():
        made.execute(f"INSERT INTO {index} ({index}) VALUES (?)", (command,))
