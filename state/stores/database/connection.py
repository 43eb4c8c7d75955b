"""Connection: a database file as it is, transactions, and what SQLite's errors mean. `opening` makes and migrates."""

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from state.errors import FullError, StorageError

DATABASE = "state.db"
SIDES = ("", "-wal", "-journal", "-shm")
"""The suffixes of SQLite's files: the database itself and the files beside it."""
BUSY_TIMEOUT_MS = 10_000
_SHARED_BYTES = 32_768
_LARGE_PAGES = 2_048
UNHARMED = "the notes and MEMORY.md are unharmed, run 'dreamd doctor'"


@contextmanager
def connecting(path: Path, name: str) -> Iterator[sqlite3.Connection]:
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


def require_file(path: Path) -> None:
    """Raise StorageError for a FIFO, on which SQLite would block, and for a device, which has no end."""
    with suppress(OSError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise StorageError(f"{path}: no regular file", "move it away")


def uri_of(path: Path, mode: str) -> str:
    """Return the file's SQLite URI; immutable if SQLite would have to create a log that it may not write."""
    require_file(path)
    log = f"{path}-wal"
    has_log = bool(_size(log)) if _lacks_room(path) else os.path.lexists(log)
    fixed = "&immutable=1" if mode == "ro" and not has_log and not may_write(path) else ""
    return f"file:{quote(str(path))}?mode={mode}{fixed}"


@contextmanager
def open_unmigrated(path: Path, mode: str = "ro") -> Iterator[sqlite3.Connection]:
    """Open a database as it is, beside its owner, without creating or migrating it.

    Raise sqlite3.DatabaseError for text that is not UTF-8, instead of SQLite's message, which quotes it.
    """
    with closing(sqlite3.connect(uri_of(path, mode), uri=True, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            yield connection
        except UnicodeDecodeError as error:
            raise sqlite3.DatabaseError("a text in it is not UTF-8") from error


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


def explained(error: sqlite3.Error | UnicodeDecodeError, path: Path) -> StorageError:
    """Return a StorageError that explains SQLite's error about this file and says what to do."""
    if isinstance(error, UnicodeDecodeError):  # SQLite's own message quotes the text
        return StorageError(f"{path}: a text in it is not UTF-8", UNHARMED)
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
    return StorageError(f"{path}: {error}", UNHARMED)


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
