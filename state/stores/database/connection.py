"""Connection: opens state.db, the one truth about everything but MEMORY.md and scratch.md.

SQLite in WAL mode with `synchronous=FULL`: what a call has committed survives the loss of power. Times are kept
as ISO 8601 text in UTC with microseconds, so that they sort as text. The schema carries a version
(`PRAGMA user_version`); `migration` brings a database of an older one to this one.
"""

import errno
import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from urllib.parse import quote

from state.errors import StorageError
from state.stores.database.schema import SCHEMA_VERSION
from state.stores.disk.disk import Disk

DATABASE = "state.db"
SIDES = ("", "-wal", "-journal", "-shm")
"""What the names of SQLite's files end in: of a database itself, and of what it keeps beside it."""
BUSY_TIMEOUT_MS = 10_000
_PAUSE_SECONDS = 0.01
_LARGE_PAGES = 4_096  # of 4 KB each
_UNHARMED = "the notes and MEMORY.md are unharmed, run 'dreamd doctor'"

_MOST_THINGS = 1_000
_COMMENT = re.compile(r"--[^\n]*")
_PUNCTUATION = re.compile(r"\s*([(),])\s*")
_RENAMED = re.compile(r'^(CREATE TABLE )"(\w+)"')
_SHADOW = re.compile(r"CREATE TABLE '\w+_(?:data|idx|content|docsize|config)'\((?!.*\bAS\b)")

# One statement, so that it sees one moment: another process may be creating the tables.
_WHOSE = """
SELECT user_version, (SELECT count(*) FROM sqlite_master),
       EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'crystals')
FROM pragma_user_version
"""


def open_database(path: Path) -> sqlite3.Connection:
    """Open state.db, creating it or bringing it to the current schema.

    The connection is in autocommit mode: use `transaction` around writes. Raises StorageError when the file is no
    database, is damaged, is another program's, was written by a newer dreamd, is a link, or is gone while there are
    copies of it. A copy is made before a migration.
    """
    _require_file(path)
    _require_no_lone_log(path)
    _require_not_lost(path)
    make_private(path)
    with _opening(path, str(path)) as connection:
        version = _version(connection, path)
        _use_log(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        if path.name == DATABASE and 0 < version < SCHEMA_VERSION:
            from state.stores.database.copies import make_copy

            make_copy(path, Disk(path.parent))
        if version < SCHEMA_VERSION:
            _bring_up(connection)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection


@contextmanager
def _opening(path: Path, name: str) -> Iterator[sqlite3.Connection]:
    """Connect to the file, whose name may be a URI; closed after an error, which is raised as what it means."""
    with ExitStack() as stack:
        try:
            connection = sqlite3.connect(name, uri=name != str(path), isolation_level=None, check_same_thread=False)
            stack.callback(connection.close)
            connection.row_factory = sqlite3.Row
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise explained(error, path) from error
        stack.pop_all()


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch to WAL, which SQLite does not wait for when two make the same new file at one moment."""
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
    """Open state.db where this process may not write; it is as it stands, with what its owner is writing.

    Raises StorageError as `open_database` does, and when it has another schema.
    """
    with _opening(path, _uri(path, "ro")) as connection:
        if _version(connection, path) != SCHEMA_VERSION:
            raise StorageError(f"{path} is of an older dreamd", "run 'dreamd status' where it may be written")
        return connection


def may_write(path: Path) -> bool:
    """Return whether this process may write in the file: besides its permissions there are sandboxes."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM)
    return True


def _require_file(path: Path) -> None:
    """Return unless it is a FIFO, for which SQLite would wait, or a device, which has no end."""
    with suppress(OSError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise StorageError(f"{path}: no regular file", "move it away")


def _uri(path: Path, mode: str) -> str:
    """Return the file's URI for SQLite. Beside an owner it reads through the owner's log, else it would make one."""
    _require_file(path)
    has_log = os.path.lexists(f"{path}-wal")
    fixed = "&immutable=1" if mode == "ro" and not has_log and not may_write(path) else ""
    return f"file:{quote(str(path))}?mode={mode}{fixed}"


@contextmanager
def open_unmigrated(path: Path, mode: str = "ro") -> Iterator[sqlite3.Connection]:
    """Open a database as it is, beside its owner: it is neither created nor migrated.

    Raise sqlite3.DatabaseError for what is not UTF-8: SQLite's messages quote what was read.
    """
    with closing(sqlite3.connect(_uri(path, mode), uri=True, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            yield connection
        except UnicodeDecodeError as error:
            raise sqlite3.DatabaseError("a text in it is not UTF-8") from error


def memory_database() -> sqlite3.Connection:
    """Open a database of the current schema in memory, which goes with its connection."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    _bring_up(connection)
    return connection


def make_private(path: Path) -> None:
    """Create the file of a database if it is missing, and make it and SQLite's files beside it private.

    Other failures are left to SQLite, which reports them. Raises ValueError for the name that SQLite takes
    for no file.
    """
    if path.name == ":memory:":
        raise ValueError(f"{path} names no file to SQLite")
    # One that is there is not opened: to close it would drop the locks that this process has on it (fcntl(2)).
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    with suppress(OSError):
        for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            mode = stat.S_IMODE(file.lstat().st_mode)
            if mode & 0o077:
                file.chmod(mode & 0o700)


def _require_no_lone_log(path: Path) -> None:
    """Raise StorageError for a log (-wal) without its database: SQLite would delete it with all its data."""
    log = path.with_name(f"{path.name}-wal")
    has_content = path.exists() and path.stat().st_size
    if not has_content and log.exists() and log.stat().st_size:
        raise StorageError(f"{path}: is gone, and its log (-wal) is there", _UNHARMED)


def _require_not_lost(path: Path) -> None:
    """Raise StorageError for a missing or empty state.db with copies: a new one would push the copies out."""
    if path.name != DATABASE or (path.exists() and path.stat().st_size):
        return
    from state.stores.database.copies import copies_of

    if copies_of(path):
        raise StorageError(f"{path}: is gone, and copies of it are there", _UNHARMED)


def explained(error: sqlite3.Error | UnicodeDecodeError, path: Path) -> StorageError:
    """Return a StorageError that says what an error of SQLite's about this file means, and what to do."""
    if isinstance(error, UnicodeDecodeError):  # SQLite's own message quotes what it has read
        return StorageError(f"{path}: a text in it is not UTF-8", _UNHARMED)
    name = getattr(error, "sqlite_errorname", "")
    # The second: the file of the shared index cannot be made longer, which SQLite calls an error of the disk.
    if name in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"):
        return StorageError(f"{path}: the disk is full", "free some space and try again")
    if name.startswith("SQLITE_READONLY"):
        return StorageError(
            f"{path}: it cannot be written", f"make {path.parent} and the files in it writable for this user"
        )
    if name == "SQLITE_BUSY":
        return StorageError(f"{path}: another process is writing", "try again")
    return StorageError(f"{path}: {error}", _UNHARMED)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the file's schema version, and write nothing. Raise StorageError for one that this dreamd cannot use."""
    version, tables, ours = connection.execute(_WHOSE).fetchone()
    if version > SCHEMA_VERSION:
        message = f"{path}: written by a newer dreamd (schema {version}, this one knows {SCHEMA_VERSION})"
        raise StorageError(message, "upgrade")
    if tables and not ours:
        message = f"{path}: another program's database"
        raise StorageError(message, _UNHARMED)
    return int(version)


def unlike_schema(connection: sqlite3.Connection, more: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of tables, indexes and the like that differ from the current schema's.

    `more` are the statements of further tables, by name, that are to be there.
    """
    found = things(connection)
    made = {**_made(), **{name: normalised(statement) for name, statement in (more or {}).items()}}
    # How the tables below a word index are written down is up to the SQLite that made them.
    return sorted(name for name in found.keys() | made.keys() if not _alike(found.get(name), made.get(name)))


def _alike(found: str | None, made: str | None) -> bool:
    return found == made or bool(found and made and _SHADOW.match(found) and _SHADOW.match(made))


def things(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the SQL of each table, index and the like, by name; at most 1,000.

    It is without comments, and with white space normalised: a table that migrations have made reads as a new one.
    """
    rows = connection.execute(
        "SELECT name, iif(count(*) = 1, coalesce(max(sql), ''), 'several') FROM sqlite_schema"
        " WHERE name NOT LIKE 'sqlite_stat%'"
        " GROUP BY name LIMIT ?",
        (_MOST_THINGS,),
    )
    return {str(name): normalised(str(statement)) for name, statement in rows}


def normalised(statement: str) -> str:
    """Return a statement without comments and needless white space, as `things` has it."""
    words = " ".join(_COMMENT.sub("", statement).split())
    return _RENAMED.sub(r"\1\2", _PUNCTUATION.sub(r"\1", words))


@cache
def _made() -> Mapping[str, str]:
    """Return what `things` returns for a new database."""
    with closing(memory_database()) as connection:
        return things(connection)


def _bring_up(connection: sqlite3.Connection) -> None:
    """Give the database the current schema, unless another process was faster."""
    # Who opens a current database need not know all tables.
    from state.stores.database.migration import make_schema, migrate

    with transaction(connection):
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if not version:
            make_schema(connection)
        elif version < SCHEMA_VERSION:
            migrate(connection, version)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Hold one write transaction, committed at the end and rolled back on any error; inside another, a savepoint."""
    nested = connection.in_transaction
    connection.execute("SAVEPOINT inner_step" if nested else "BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("RELEASE inner_step" if nested else "COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO inner_step" if nested else "ROLLBACK")
            if nested:
                connection.execute("RELEASE inner_step")
        raise


@contextmanager
def unsynced(connection: sqlite3.Connection) -> Iterator[None]:
    """Let what is committed meanwhile survive a kill, and a loss of power only with what is committed after it."""
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        yield
    finally:
        connection.execute("PRAGMA synchronous = FULL")


def compact(connection: sqlite3.Connection) -> bool:
    """VACUUM a large file of which most is free; return whether it was done."""
    free, pages = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count"))
    if pages < _LARGE_PAGES or 2 * free < pages:
        return False
    connection.execute("VACUUM")
    return True


def to_text(moment: datetime) -> str:
    """Return a moment as text: ISO 8601, UTC, microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def from_text(text: str) -> datetime:
    """Undo `to_text`. Raise StorageError for a text that it has not written."""
    try:
        return datetime.fromisoformat(text)
    except (ValueError, TypeError) as error:
        raise StorageError(f"state.db: {text!r:.40} is no moment", "run 'dreamd doctor'") from error


def optional_text(moment: datetime | None) -> str | None:
    """Return a moment as text; None for None."""
    return to_text(moment) if moment is not None else None


def optional_moment(text: str | None) -> datetime | None:
    """Undo `optional_text`."""
    return from_text(text) if text is not None else None
