"""Check: whether state.db is sound: its pages, its schema, its rows and the references between them."""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from state.errors import StorageError
from state.stores.database.columns import Table, tables_of
from state.stores.database.connection import (
    SCHEMA_VERSION,
    explained,
    made_by,
    open_unmigrated,
    things,
    unlike_schema,
)
from state.stores.repair.pages import read_pages
from state.stores.repair.row_rules import Row, is_altered, mended

WRONG_SCHEMA = "its schema has the number"
_MOST = 5
_SURROUNDINGS = (
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR,
)  # fmt: skip


def log_of(database: Path) -> Path:
    """The path of the database's write-ahead log."""
    return database.with_name(f"{database.name}-wal")


def damage_of(database: Path, *, expected: bool) -> list[str]:
    """What is wrong with the file, in words; nothing when it is sound. Nobody has it open; nothing is written.

    `expected`: there has been one. Raises StorageError for the database of a newer dreamd.
    """
    if not os.path.lexists(database) or (database.is_file() and not database.stat().st_size):
        has_log = log_of(database).is_file() and log_of(database).stat().st_size > 0
        state = "is empty" if os.path.lexists(database) else "is missing"
        return [f"{state}, and its log (-wal) is there"] if has_log else [state] if expected else []
    if not database.is_file():
        return ["is no file"]
    pages = read_pages(database, log_of(database))
    return pages.damage or _damage_inside(database)


def _damage_inside(database: Path) -> list[str]:
    try:
        with open_unmigrated(database, "rw") as connection:
            return list(dict.fromkeys(faults(connection)))[:_MOST]
    except sqlite3.Error as error:
        # The disk, permissions, another process: no rebuilding mends those.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # none: what was read is no UTF-8
        if code & 0xFF in _SURROUNDINGS and code != sqlite3.SQLITE_IOERR_SHORT_READ:
            raise explained(error, database) from error
        return [str(error)]


def faults(connection: sqlite3.Connection) -> Iterator[str]:
    """What is wrong with an open database. Reads all of it. Raises StorageError for that of a newer dreamd."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    found = things(connection)
    if not found and not version:
        return  # it was created, and nothing more
    if "crystals" not in found:
        yield "is another program's database"
        return
    if version > SCHEMA_VERSION and unlike_schema(connection, SCHEMA_VERSION):
        raise StorageError(
            f"state.db was written by a newer dreamd (schema {version}, this one knows {SCHEMA_VERSION})", "upgrade"
        )
    yield from (str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_MOST})") if row[0] != "ok")
    if not 1 <= version <= SCHEMA_VERSION:
        yield f"{WRONG_SCHEMA} {version}"
        return
    if wrong := unlike_schema(connection, version):
        yield f"its schema is not ours: {', '.join(wrong[:_MOST])}"
        return
    yield from _of_rows(connection)


def _of_rows(connection: sqlite3.Connection) -> Iterator[str]:
    orphans = Counter(str(row[0]) for row in connection.execute("PRAGMA foreign_key_check"))
    for child, count in orphans.items():
        yield f"{count} rows of {child} lead to rows that are not there"
    for name, table in tables_of(connection).items():
        rows = (dict(row) for row in connection.execute(f'SELECT * FROM "{name}"'))
        wrong = sum(not _is_sound(table, row) for row in rows)
        if wrong:
            yield f"{wrong} rows of {name} hold what they cannot hold"
    if "item_counts" in things(connection) and not _are_counted(connection):
        yield "the counts of sessions are not those of their items"


def _are_counted(connection: sqlite3.Connection) -> bool:
    kept = connection.execute("SELECT session, sum(items) FROM item_counts GROUP BY 1 ORDER BY 1").fetchall()
    found = connection.execute(
        "SELECT session, count(*) FROM items WHERE state IN ('live', 'hidden') GROUP BY 1 ORDER BY 1"
    ).fetchall()
    return list(map(tuple, kept)) == list(map(tuple, found))


def _is_sound(table: Table, row: Row) -> bool:
    if not all(column.takes(row[column.name]) for column in table.columns):
        return False
    return mended(table.name, row) == row and not (table.name == "crystals" and is_altered(row))


def likeliest_version(statements: dict[str, str], declared: int) -> int:
    """The schema version that shares most of these statements; of equals, the one that the database names."""

    def alike(version: int) -> tuple[int, bool, int]:
        made = made_by(version)
        same = sum(made.get(name) == " ".join(statement.split()) for name, statement in statements.items())
        return same, version == declared, version

    return max(range(1, SCHEMA_VERSION + 1), key=alike)
