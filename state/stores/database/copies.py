"""Copies: the last two verified copies of state.db; `dreamd doctor --repair` restores the newest sound one.

    state.db ─quick_check─▶ VACUUM INTO a temporary file ─quick_check─▶ fsync ─rename─▶ copies/000007.db

A damaged state.db is never copied, so it never displaces a sound copy. Until the next copy succeeds, the file
`damaged` in the folder says what was found.
"""

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from state.errors import StorageError
from state.stores.database.connection import explained, open_unmigrated
from state.stores.disk.disk import TEMPORARY, Disk
from state.stores.disk.syscalls import storage_errors

KEPT = 2
DAY = timedelta(days=1)
_NAME = re.compile(r"\d{6,18}\.db")
_DAMAGED = "damaged"
_LEFTOVER_SECONDS = 3600.0
_ENVIRONMENT_ERRORS = (
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR,
)  # fmt: skip


class DamagedError(StorageError):
    """A database that SQLite cannot read because its content is damaged."""


def copies_folder(database: Path) -> Path:
    """Return the folder that holds the copies of this database."""
    return database.with_name("copies")


def copies_of(database: Path) -> list[Path]:
    """Return the copies of this database, newest first."""
    folder = copies_folder(database)
    with storage_errors(folder):
        found = list(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []
    found = [path for path in found if _NAME.fullmatch(path.name) and path.is_file() and not path.is_symlink()]
    return sorted(found, key=number_of, reverse=True)


def copied_at(copy: Path) -> datetime:
    """Return when this copy was made."""
    with storage_errors(copy):
        return datetime.fromtimestamp(copy.stat().st_mtime, UTC)


def is_copy_due(database: Path, now: datetime, every: timedelta) -> bool:
    """Return whether the last copy is missing, older than `every`, or dated in the future."""
    copies = copies_of(database)
    return not copies or not timedelta() <= now - copied_at(copies[0]) < every


def make_copy(database: Path, disk: Disk, check: Callable[[], None] = lambda: None) -> Path:
    """Write a new verified copy of the database, and delete all but the newest two.

    Other connections may write to the database meanwhile. `check` must raise if this process no longer owns the
    workspace. If the database is damaged, keep every copy and raise DamagedError.
    """
    folder = copies_folder(database)
    disk.make_folder(folder)
    disk.remove_leftovers(folder, datetime.now(UTC).timestamp() - _LEFTOVER_SECONDS)
    temporary = folder / f".{os.getpid()}-{os.urandom(4).hex()}{TEMPORARY}"
    try:
        write_copy(database, temporary)
        disk.sync(temporary)
        check()
        made = _give_name(disk, temporary, folder)
    except DamagedError as error:
        disk.write_atomic(folder / _DAMAGED, error.what.encode())
        raise
    finally:
        with suppress(OSError):
            disk.system.unlink(temporary)
    clear_damaged(database, disk)
    for old in copies_of(database)[KEPT:]:
        disk.remove(old)
    return made


def write_copy(database: Path, target: Path) -> None:
    """Write the rows of the database to the new file `target`, and verify both; nothing is synced."""
    with storage_errors(target):
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    try:
        with open_unmigrated(database, "rw") as connection:
            _require_sound(connection, database)
            connection.execute("VACUUM INTO ?", (str(target),))
        with open_unmigrated(target, "rw") as connection:
            _require_sound(connection, target)
    except sqlite3.Error as error:
        if is_damage(error):
            raise DamagedError(f"{database} is damaged: {error}", "run 'dreamd doctor --repair'") from error
        raise explained(error, database) from error


def broken_page(connection: sqlite3.Connection, check: str = "quick_check") -> str:
    """Return the first defect that SQLite finds in the pages of a database; empty if it is sound."""
    result = " ".join(str(connection.execute(f"PRAGMA {check}(1)").fetchone()[0]).split())
    return "" if result == "ok" else result


def _require_sound(connection: sqlite3.Connection, path: Path) -> None:
    if wrong := broken_page(connection):
        raise DamagedError(f"{path} is damaged: {wrong}", "run 'dreamd doctor --repair'")


def is_readable(copy: Path) -> bool:
    """Return whether SQLite can read every page of the copy."""
    try:
        with open_unmigrated(copy) as connection:
            _require_sound(connection, copy)
            return bool(connection.execute("PRAGMA user_version").fetchone()[0])  # 0: an empty file
    except (sqlite3.Error, StorageError):
        return False


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file itself is at fault, and not the disk, permissions or another process."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # no code: a text in the file is not UTF-8
    return code & 0xFF not in _ENVIRONMENT_ERRORS or code == sqlite3.SQLITE_IOERR_SHORT_READ


def found_damaged(database: Path) -> str:
    """Return what was wrong with the database at the last attempt to copy it; empty if that succeeded."""
    content = Disk(database.parent).read_optional(copies_folder(database) / _DAMAGED)
    return (content or b"").decode(errors="replace")


def clear_damaged(database: Path, disk: Disk) -> None:
    """Remove the mark that the database was damaged, because it is sound again."""
    if os.path.lexists(mark := copies_folder(database) / _DAMAGED):
        disk.remove(mark)


def _give_name(disk: Disk, temporary: Path, folder: Path) -> Path:
    """Rename the copy to the next free number, which a process migrating the database may take meanwhile."""
    number = next_number(folder.with_name("state.db")) - 1
    while True:
        number += 1
        with suppress(FileExistsError):
            disk.rename_new(temporary, folder / f"{number:06d}.db")
            return folder / f"{number:06d}.db"


def next_number(database: Path) -> int:
    """Return the number of this database's next copy."""
    return max(map(number_of, copies_of(database)), default=0) + 1


def number_of(copy: Path) -> int:
    """Return the number of a copy."""
    return int(copy.stem)
