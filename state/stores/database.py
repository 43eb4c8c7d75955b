"""state.db: the one truth about everything but MEMORY.md and scratch.md.

SQLite in WAL mode with `synchronous=FULL`: what a call has committed survives the loss of power. Times are kept
as ISO 8601 text in UTC with microseconds, so that they sort as text. The schema carries a version
(`PRAGMA user_version`); each step of `MIGRATIONS` brings a database from one version to the next.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from state.crystal import faded_at
from state.errors import StorageError
from state.stores.forgotten_schema import FORGETTING
from state.stores.schema import COMPARISONS, MEMORIES
from state.stores.session_schema import SESSIONS
from state.stores.system import told

BUSY_TIMEOUT_MS = 10_000
_UNHARMED = "the notes and MEMORY.md are unharmed, run 'dreamd doctor'"

MIGRATIONS: tuple[str, ...] = (MEMORIES, COMPARISONS, SESSIONS, FORGETTING)
SCHEMA_VERSION = len(MIGRATIONS)

# One statement, so that it sees one moment: another process may be creating the tables.
_WHOSE = """
SELECT user_version, (SELECT count(*) FROM sqlite_master),
       EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'crystals')
FROM pragma_user_version
"""


def open_database(path: Path) -> sqlite3.Connection:
    """Open state.db, creating it or bringing it to the current schema.

    The connection is in autocommit mode: use `transaction` around writes. Raises StorageError when the file is
    no database, is damaged, is another program's, was written by a newer dreamd, or is a link.
    """
    require_plain(path)
    _require_no_lone_log(path)
    make_private(path)
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        version = _version(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        _migrate(connection, version)
    except sqlite3.Error as error:
        raise StorageError(explained(error, path)) from error
    return connection


def make_private(path: Path) -> None:
    """The file of a database, made if it is missing, open to its owner alone; SQLite's files beside it get its mode.

    What cannot be done here SQLite fails at, in its own words.
    """
    # One that is there is not opened: to close it would drop the locks that this process has on it (fcntl(2)).
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with suppress(OSError):
        for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            mode = stat.S_IMODE(file.lstat().st_mode)
            if mode & 0o077:
                file.chmod(mode & 0o700)


def require_plain(path: Path) -> None:
    """Return if a database here, and what SQLite keeps beside it, are regular files or not there.

    SQLite would follow a link, and write wherever it leads; a FIFO it would wait for. Raises StorageError.
    """
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}-journal"):
        file = path.with_name(name)
        with told(file), suppress(FileNotFoundError, NotADirectoryError):
            mode = file.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise StorageError(f"{file} is a link to {os.path.realpath(file)}; replace it by the file itself")
            if not stat.S_ISREG(mode):
                raise StorageError(
                    f"{file}: no regular file; the notes and MEMORY.md are unharmed, run 'dreamd doctor'"
                )


def _require_no_lone_log(path: Path) -> None:
    """SQLite would create the database and remove its log, with all that is in it."""
    log = path.with_name(f"{path.name}-wal")
    there = path.exists() and path.stat().st_size
    if not there and log.exists() and log.stat().st_size:
        raise StorageError(
            f"{path}: is gone, and its log (-wal) is there; the notes and MEMORY.md are unharmed, run 'dreamd doctor'"
        )


def explained(error: sqlite3.Error, path: Path) -> str:
    """What an error of SQLite's about this file means to a person, and what to do, in one line."""
    name = getattr(error, "sqlite_errorname", "")
    # The second: the file of the shared index cannot be made longer, which SQLite calls an error of the disk.
    if name in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"):
        return f"{path}: the disk is full; free some space and try again"
    if name.startswith("SQLITE_READONLY"):
        return f"{path}: it cannot be written; make .dreamd and the files in it writable for this user"
    if name == "SQLITE_BUSY":
        return f"{path}: another process is writing; try again"
    return f"{path}: {error}; {_UNHARMED}"


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The schema that the file has; nothing is written. Raises StorageError for a file that is not this dreamd's."""
    version, tables, ours = connection.execute(_WHOSE).fetchone()
    if version > SCHEMA_VERSION:
        message = f"{path}: written by a newer dreamd (schema {version}, this one knows {SCHEMA_VERSION}); upgrade"
        raise StorageError(message)
    if tables and not ours:
        message = f"{path}: another program's database; {_UNHARMED}"
        raise StorageError(message)
    return int(version)


def make_schema(connection: sqlite3.Connection, version: int) -> None:
    """Give an empty database the schema that this version had. Raises ValueError for one that there never was."""
    if not 1 <= version <= SCHEMA_VERSION:
        raise ValueError(f"there is no schema {version}")
    _migrate(connection, 0, version)


def _migrate(connection: sqlite3.Connection, version: int, wanted: int = SCHEMA_VERSION) -> None:
    if version < wanted:
        connection.create_function("faded_at", 5, _faded_at, deterministic=True)
    for number in range(version, wanted):
        with transaction(connection):
            # Another process may have migrated while this one waited for the write lock.
            if int(connection.execute("PRAGMA user_version").fetchone()[0]) > number:
                continue
            for statement in _statements(MIGRATIONS[number]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")


def _faded_at(
    importance: float, accesses: int, valence: float, created_at: str, accessed_at: str | None
) -> str | None:
    since = from_text(accessed_at or created_at)
    moment = faded_at(importance, accesses, valence, since)
    return to_text(moment) if moment else None


def _statements(script: str) -> Iterator[str]:
    # executescript() would commit the transaction that makes a migration all or nothing.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """One write transaction, committed at the end and rolled back on any error; inside another one, a savepoint."""
    nested = connection.in_transaction
    connection.execute("SAVEPOINT inner_step" if nested else "BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO inner_step" if nested else "ROLLBACK")
            if nested:
                connection.execute("RELEASE inner_step")
        raise
    connection.execute("RELEASE inner_step" if nested else "COMMIT")


@contextmanager
def trial(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """A write transaction that is always rolled back: what would a search find if this were written?"""
    # At once for writing: a reader that wants to write is refused while another writes, and is not kept waiting.
    nested = connection.in_transaction
    connection.execute("SAVEPOINT trial" if nested else "BEGIN IMMEDIATE")
    try:
        yield connection
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO trial" if nested else "ROLLBACK")
            if nested:
                connection.execute("RELEASE trial")


def to_text(moment: datetime) -> str:
    """A moment as it is kept: ISO 8601, UTC, microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def from_text(text: str) -> datetime:
    """The inverse of `to_text`."""
    return datetime.fromisoformat(text)
