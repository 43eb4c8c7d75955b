"""Tombstones' copy: a file beside state.db, so that what was forgotten stays forgotten when the database is lost.

Like the table it holds salted digests alone. It is written when something is forgotten or lifted, and read when the
database has no salt of its own: a new one, or one whose page with the salt could not be salvaged.
"""

import json
import sqlite3
from pathlib import Path

from state.errors import StorageError
from state.stores.database.connection import transaction
from state.stores.disk.disk import Disk

_NAME = "forgotten.json"
_KEYS = ("forgotten_salt", "forgotten_stamp")
_COLUMNS = ("digest", "at", "length", "mark")


def keep_copy(connection: sqlite3.Connection, disk: Disk, folder: Path) -> None:
    """Write the tombstones as they are now into `folder`, the state folder."""
    meta = connection.execute("SELECT name, value FROM meta WHERE name IN (?, ?)", _KEYS).fetchall()
    rows = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM forgotten ORDER BY digest").fetchall()
    if meta:
        kept = {"meta": {row["name"]: row["value"] for row in meta}, "forgotten": [tuple(row) for row in rows]}
        disk.write_atomic(folder / _NAME, json.dumps(kept).encode())


def bring_back(connection: sqlite3.Connection, disk: Disk, folder: Path) -> int:
    """Take the copy in where the database has no salt; how many tombstones came back.

    Raises StorageError when there is a copy and it cannot be read: to go on would learn again what was forgotten.
    """
    path = folder / _NAME
    if not path.exists() or _has_salt(connection):
        return 0
    content = disk.read_if_there(path)
    try:
        kept = json.loads(content or b"")
        meta = [(name, str(kept["meta"][name])) for name in _KEYS if name in kept["meta"]]
        rows = [(str(digest), str(at), int(length), int(mark)) for digest, at, length, mark in kept["forgotten"]]
        bytes.fromhex(dict(meta)[_KEYS[0]])
    except (ValueError, TypeError, KeyError) as error:
        raise StorageError(
            f"{path}: what is not to be learnt again cannot be read",
            "put it back from a backup, or remove it and forget those texts again",
        ) from error
    with transaction(connection):
        connection.execute("DELETE FROM forgotten")  # digests with another salt are nobody's
        connection.executemany("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", meta)
        connection.executemany(
            "INSERT OR REPLACE INTO forgotten (digest, at, length, mark) VALUES (?, ?, ?, ?)", rows
        )
    return len(rows)


def _has_salt(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM meta WHERE name = ?", (_KEYS[0],)).fetchone() is not None
