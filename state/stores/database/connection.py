"""Connection: opens state.db, the single source of truth for everything except MEMORY.md and scratch.md.

SQLite runs in WAL mode with `synchronous=FULL`: a committed transaction survives a power failure. Times are ISO 8601
text in UTC with microseconds, so they sort as text. The schema has a version (`PRAGMA user_version`); `migration`
brings an older database up to date.
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

from state.errors import FullError, StorageError
from state.stores.database import schema
from state.stores.disk.disk import Disk

DATABASE = "state.db"
SIDES = ("", "-wal", "-journal", "-shm")
"""The suffixes of SQLite's files: the database itself and the files beside it."""
BUSY_TIMEOUT_MS = 10_000
_SHARED_BYTES = 32_768
_PAUSE_SECONDS = 0.01
PAGE_BYTES = 8_192
"""The size of a new database's pages: with SQLite's 4 KB, hardly three crystals with their vectors share one."""
_LARGE_PAGES = 2_048
_UNHARMED = "the notes and MEMORY.md are unharmed, run 'dreamd doctor'"

_MOST_THINGS = 1_000
_PUNCTUATION = re.compile(r"\s*([(),])\s*")
_SHADOW = re.compile(r"CREATE TABLE '\w+_(?:data|idx|content|docsize|config)'\((?!.*\bAS\b)")

# One statement, so that it sees one snapshot: another process may be creating the tables.
_IDENTITY = """
SELECT user_version, (SELECT count(*) FROM sqlite_master),
       EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'crystals')
FROM pragma_user_version
"""


def open_database(path: Path) -> sqlite3.Connection:
    """Open state.db; create it or migrate it to the current schema as needed, with a copy before a migration.

    The connection is in autocommit mode: use `transaction` around writes. Raise StorageError if the file is no
    database, is damaged, belongs to another program, to a newer dreamd or to one before the first release, is a link,
    or is missing while copies of it exist.
    """
    _require_file(path)
    _require_no_lone_log(path)
    _require_not_lost(path)
    make_private(path)
    with _opening(path, str(path)) as connection:
        version = _version(connection, path)
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        _use_log(connection)
        connection.execute("PRAGMA wal_autocheckpoint = 500")  # 4 MB
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # on macOS, also through the cache of the drive
        connection.execute("PRAGMA secure_delete = ON")
        if path.name == DATABASE and 0 < version < schema.SCHEMA_VERSION:
            from state.stores.database.copies import make_copy

            make_copy(path, Disk(path.parent))
        if version < schema.SCHEMA_VERSION:
            _make_or_migrate(connection)
        connection.execute("PRAGMA foreign_keys = ON")
        return connection


@contextmanager
def _opening(path: Path, name: str) -> Iterator[sqlite3.Connection]:
    """Connect to the file, whose name may be a URI; on an error, close it and raise an explaining StorageError."""
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
    with _opening(path, _uri(path, "ro")) as connection:
        if _version(connection, path) != schema.SCHEMA_VERSION:
            raise StorageError(f"{path} is of an earlier release", "run 'dreamd history' where it may be written")
        return connection


def may_write(path: Path) -> bool:
    """Return whether this process may write to the file, considering sandboxes, permissions and a full disk."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return os.access(path.parent, os.W_OK)
        return error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM)
    return not _lacks_room(path)


def _lacks_room(path: Path) -> bool:
    """Return whether the disk has no room for SQLite's shared memory, which nobody has made: it cannot use a log."""
    with suppress(OSError):
        disk = os.statvfs(path.parent)
        return disk.f_bavail * disk.f_frsize < _SHARED_BYTES and _size(f"{path}-shm") < _SHARED_BYTES
    return False


def _size(path: str) -> int:
    with suppress(OSError):
        return os.lstat(path).st_size
    return 0


def _require_file(path: Path) -> None:
    """Raise StorageError for a FIFO, on which SQLite would block, and for a device, which has no end."""
    with suppress(OSError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise StorageError(f"{path}: no regular file", "move it away")


def _uri(path: Path, mode: str) -> str:
    """Return the file's SQLite URI; immutable if SQLite would have to create a log that it may not write."""
    _require_file(path)
    log = f"{path}-wal"
    has_log = bool(_size(log)) if _lacks_room(path) else os.path.lexists(log)
    fixed = "&immutable=1" if mode == "ro" and not has_log and not may_write(path) else ""
    return f"file:{quote(str(path))}?mode={mode}{fixed}"


@contextmanager
def open_unmigrated(path: Path, mode: str = "ro") -> Iterator[sqlite3.Connection]:
    """Open a database as it is, beside its owner, without creating or migrating it.

    Raise sqlite3.DatabaseError for text that is not UTF-8, instead of SQLite's message, which quotes it.
    """
    with closing(sqlite3.connect(_uri(path, mode), uri=True, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            yield connection
        except UnicodeDecodeError as error:
            raise sqlite3.DatabaseError("a text in it is not UTF-8") from error


def memory_database() -> sqlite3.Connection:
    """Open an in-memory database of the current schema, which disappears with its connection."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    _make_or_migrate(connection)
    return connection


def make_private(path: Path) -> None:
    """Create a database file if it is missing, and make it and SQLite's files beside it private.

    Other failures are left to SQLite to report. Raise ValueError for ":memory:", which SQLite takes for no file.
    """
    if path.name == ":memory:":
        raise ValueError(f"{path} names no file to SQLite")
    # An existing file is not opened, because closing it would drop this process's locks on it (fcntl(2)).
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
    """Raise StorageError if state.db is missing or empty but has copies: a new one's copies would displace them."""
    if path.name != DATABASE or (path.exists() and path.stat().st_size):
        return
    from state.stores.database.copies import copies_of

    if copies_of(path):
        raise StorageError(f"{path}: is gone, and copies of it are there", _UNHARMED)


def explained(error: sqlite3.Error | UnicodeDecodeError, path: Path) -> StorageError:
    """Return a StorageError that explains SQLite's error about this file and says what to do."""
    if isinstance(error, UnicodeDecodeError):  # SQLite's own message quotes the text
        return StorageError(f"{path}: a text in it is not UTF-8", _UNHARMED)
    name = getattr(error, "sqlite_errorname", "")
    # SQLITE_IOERR_SHMSIZE: the shared-memory file cannot grow, which SQLite reports as an I/O error.
    if name in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"):
        return FullError(f"{path}: the disk is full", "free some space and try again")
    if name.startswith("SQLITE_READONLY"):
        return StorageError(
            f"{path}: it cannot be written", f"make {path.parent} and the files in it writable for this user"
        )
    if name == "SQLITE_BUSY":
        return StorageError(f"{path}: another process is writing", "try again")
    return StorageError(f"{path}: {error}", _UNHARMED)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the file's schema version without writing. Raise StorageError if this dreamd cannot use the file."""
    version, tables, ours = connection.execute(_IDENTITY).fetchone()
    if tables and not ours:
        raise StorageError(f"{path}: another program's database", _UNHARMED)
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


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Hold a write transaction: commit at the end, roll back on any error. Inside another one, use a savepoint."""
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
    """Commit without syncing: commits survive a kill, but a power failure only once a later commit is synced."""
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        yield
    finally:
        connection.execute("PRAGMA synchronous = FULL")


def compact(connection: sqlite3.Connection) -> bool:
    """VACUUM a large file if at least half of it is free; return whether it was done."""
    free, pages = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count"))
    if pages < _LARGE_PAGES or 2 * free < pages:
        return False
    connection.execute("VACUUM")
    return True


def to_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 text in UTC with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def from_text(text: str) -> datetime:
    """Parse the text of `to_text`. Raise StorageError if it is no timestamp."""
    try:
        return datetime.fromisoformat(text)
    except (ValueError, TypeError) as error:
        raise StorageError(f"state.db: {text!r:.40} is no moment", "run 'dreamd doctor'") from error


def optional_text(moment: datetime | None) -> str | None:
    """Return a moment as text; None for None."""
    return to_text(moment) if moment is not None else None


def optional_moment(text: str | None) -> datetime | None:
    """Parse the text of `optional_text`."""
    return from_text(text) if text is not None else None
