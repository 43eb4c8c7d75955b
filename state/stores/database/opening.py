"""Opening state.db, the single source of truth for everything except MEMORY.md and scratch.md.

SQLite runs in WAL mode with `synchronous=FULL`: a committed transaction survives a power failure. The schema has a
version (`PRAGMA user_version`); `migration` brings an older database up to date.
"""

import os
import re
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path

from state.errors import StorageError
from state.stores.database import schema
from state.stores.database.connection import (
    BUSY_TIMEOUT_MS,
    DATABASE,
    UNHARMED,
    connecting,
    make_private,
    require_file,
    transaction,
    uri_of,
)
from state.stores.database.copies import copies_of, make_copy
from state.stores.disk.disk import Disk

PAGE_BYTES = 8_192
"""The size of a new database's pages: with SQLite's 4 KB, hardly three crystals with their vectors share one."""
_PAUSE_SECONDS = 0.01
# One statement, so that it sees one snapshot: another process may be creating the tables.
_IDENTITY = """
SELECT user_version, (SELECT count(*) FROM sqlite_master),
       EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'crystals')
FROM pragma_user_version
"""


_MOST_THINGS = 1_000
_PUNCTUATION = re.compile(r"\s*([(),])\s*")
_SHADOW = re.compile(r"CREATE TABLE '\w+_(?:data|idx|content|docsize|config)'\((?!.*\bAS\b)")


def open_database(path: Path) -> sqlite3.Connection:
    """Open state.db; create it or migrate it to the current schema as needed, with a copy before a migration.

    The connection is in autocommit mode: use `transaction` around writes. Raise StorageError if the file is no
    database, is damaged, belongs to another program, to a newer dreamd or to one before the first release, is a link,
    or is missing while copies of it exist.
    """
    require_file(path)
    _require_not_lost(path)
    make_private(path)
    with connecting(path, str(path)) as connection:
        version = _version(connection, path)
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        _use_log(connection)
        connection.execute("PRAGMA wal_autocheckpoint = 500")  # 4 MB
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # on macOS, also through the cache of the drive
        connection.execute("PRAGMA secure_delete = ON")
        if path.name == DATABASE and 0 < version < schema.SCHEMA_VERSION:
            make_copy(path, Disk(path.parent))
        if version < schema.SCHEMA_VERSION:
            _make_or_migrate(connection)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite does not wait here when two processes create the same file at once, so this retries."""
    until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() >= until:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def open_reading(path: Path) -> sqlite3.Connection:
    """Open state.db for reading where this process may not write; the owner may be writing meanwhile.

    Before anything was learnt there is none, which is read as an empty one. Raise StorageError as `open_database`
    does, and if the schema is another one.
    """
    if not os.path.lexists(path) and path.parent.is_dir():
        return memory_database()
    with connecting(path, uri_of(path, "ro")) as connection:
        if _version(connection, path) != schema.SCHEMA_VERSION:
            raise StorageError(f"{path} is of an earlier release", "run 'dreamd history' where it may be written")
        return connection


def memory_database() -> sqlite3.Connection:
    """Open an in-memory database of the current schema, which disappears with its connection."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    _make_or_migrate(connection)
    return connection


def _require_not_lost(path: Path) -> None:
    """Raise StorageError if the file is missing or empty, but its log (-wal) or copies of it are there.

    SQLite would delete the log with all its data, and the copies of a new state.db would displace the old ones.
    """
    log = path.with_name(f"{path.name}-wal")
    if path.exists() and path.stat().st_size:
        return
    if log.exists() and log.stat().st_size:
        raise StorageError(f"{path}: is gone, and its log (-wal) is there", UNHARMED)
    if path.name == DATABASE and copies_of(path):
        raise StorageError(f"{path}: is gone, and copies of it are there", UNHARMED)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the file's schema version without writing. Raise StorageError if this dreamd cannot use the file."""
    version, tables, ours = connection.execute(_IDENTITY).fetchone()
    if tables and not ours:
        raise StorageError(f"{path}: another program's database", UNHARMED)
    if why := schema.unreadable(version):
        raise StorageError(f"{path}: {why[0]}", why[1])
    return int(version)


def unlike_schema(connection: sqlite3.Connection, more: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of tables, indexes and other objects that differ from the current schema.

    `more` holds the statements of further tables that must exist, by name.
    """
    found = things(connection)
    made = {**_current_things(), **{name: normalised(statement) for name, statement in (more or {}).items()}}
    # FTS5's shadow tables are exempt: their statements depend on the SQLite version that created them.
    return sorted(name for name in found.keys() | made.keys() if not _equal(found.get(name), made.get(name)))


def _equal(found: str | None, made: str | None) -> bool:
    return found == made or bool(found and made and _SHADOW.match(found) and _SHADOW.match(made))


def things(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the SQL of each table, index and other schema object by name, at most 1,000.

    White space is normalised, so that the code may lay out a statement anew.
    """
    rows = connection.execute(
        "SELECT name, iif(count(*) = 1, coalesce(max(sql), ''), 'several') FROM sqlite_schema"
        " WHERE name NOT LIKE 'sqlite_stat%'"
        " GROUP BY name LIMIT ?",
        (_MOST_THINGS,),
    )
    return {str(name): normalised(str(statement)) for name, statement in rows}


def normalised(statement: str) -> str:
    """Return a statement without needless white space, as `things` returns it."""
    return _PUNCTUATION.sub(r"\1", " ".join(statement.split()))


@cache
def _current_things() -> Mapping[str, str]:
    """Return what `things` returns for a new database."""
    with closing(memory_database()) as connection:
        return things(connection)


def _make_or_migrate(connection: sqlite3.Connection) -> None:
    """Create or migrate the schema, unless another process was faster."""
    # Imported here, so that opening a current database does not load every table.
    from state.stores.database.migration import make_schema, migrate

    with transaction(connection):
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if not version:
            make_schema(connection)
        elif version < schema.SCHEMA_VERSION:
            migrate(connection, version)
