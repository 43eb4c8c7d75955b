"""Tombstones' copy: a file beside state.db, so that what was forgotten stays forgotten when the database is lost.

Like the table it holds salted digests alone. It is written when something is forgotten or lifted, and read when the
database has no salt of its own: a new one, or a restored copy.
"""

import json
import sqlite3
from pathlib import Path

from state.errors import StorageError
from state.stores.database.connection import transaction
from state.stores.database.meta import Meta
from state.stores.database.tombstones import SALT, STAMP
from state.stores.disk.disk import Disk

_NAME = "forgotten.json"
_KEYS = (SALT, STAMP)
_COLUMNS = ("digest", "at", "length", "mark")


def keep_copy(connection: sqlite3.Connection, disk: Disk, folder: Path) -> None:
    """Write the current tombstones into `folder`, the state folder."""
    meta = {name: value for name in _KEYS if (value := Meta(connection).get(name)) is not None}
    rows = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM forgotten ORDER BY digest").fetchall()
    if meta:
        kept = {"meta": meta, "forgotten": [tuple(row) for row in rows]}
        disk.write_atomic(folder / _NAME, json.dumps(kept).encode())


def has_copy(folder: Path) -> bool:
    """Return whether there is a copy in `folder`, the state folder."""
    return (folder / _NAME).exists()


def bring_back(connection: sqlite3.Connection, disk: Disk, folder: Path) -> int:
    """Restore the tombstones from the copy if the database has no salt; returns how many.

    Raises StorageError for a copy that cannot be read: to go on would learn again what was forgotten.
    """
    path = folder / _NAME
    if not path.exists() or Meta(connection).get(SALT) is not None:
        return 0
    content = disk.read_optional(path)
    try:
        kept = json.loads(content or b"")
        meta = {name: str(kept["meta"][name]) for name in _KEYS if name in kept["meta"]}
        rows = [(str(digest), str(at), int(length), int(mark)) for digest, at, length, mark in kept["forgotten"]]
        bytes.fromhex(meta[SALT])
    except (ValueError, TypeError, KeyError) as error:
        raise StorageError(
            f"{path}: what is not to be learnt again cannot be read",
            "put it back from a backup, or remove it and forget those texts again",
        ) from error
    with transaction(connection):
        connection.execute("DELETE FROM forgotten")  # digests with another salt are nobody's
        for name, value in meta.items():
            Meta(connection).put(name, value)
        connection.executemany(
            "INSERT OR REPLACE INTO forgotten (digest, at, length, mark) VALUES (?, ?, ?, ?)", rows
        )
    return len(rows)
