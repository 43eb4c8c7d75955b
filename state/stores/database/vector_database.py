"""Vector database: opens `index/vectors.db`, in which nothing stands that cannot be computed again.

It is a file of its own, so that state.db stays small and no fault of it reaches state.db. Large pages: a search reads
every vector. What has committed may be lost with the power (`synchronous=NORMAL`); `token` and `written` show whether
the file is the one that state.db means, and as new.
"""

import os
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

from state.stores.database.connection import (
    BUSY_TIMEOUT_MS,
    make_private,
    normalised,
    things,
    transaction,
)

_SCHEMA = (
    "CREATE TABLE about (one INTEGER PRIMARY KEY CHECK (one = 1), token TEXT NOT NULL, written INTEGER NOT NULL)",
    # `key` is the crystal's row in state.db: what has another digest there now is another text.
    "CREATE TABLE vectors (key INTEGER PRIMARY KEY, model TEXT NOT NULL, digest TEXT NOT NULL, vector BLOB NOT NULL)",
    "CREATE INDEX vectors_by_digest ON vectors (model, digest)",
    # What ChromaDB has not been told yet.
    "CREATE TABLE to_index (key INTEGER PRIMARY KEY)",
)
_PRAGMAS = (
    f"busy_timeout = {BUSY_TIMEOUT_MS}",
    "trusted_schema = OFF",
    "page_size = 65536",
    "synchronous = NORMAL",
    "secure_delete = ON",
    "wal_autocheckpoint = 64",  # 4 MB
)
SIDES = ("", "-wal", "-shm", "-journal")


def about(file: sqlite3.Connection) -> tuple[str, int]:
    """Return its token, and how often it was written."""
    token, written = file.execute("SELECT token, written FROM about").fetchone() or ("", 0)
    return str(token), int(written)


def open_vectors(path: Path | None, *, create: bool) -> sqlite3.Connection | None:
    """Open vectors.db, or one in memory where there is no path; None when there is none and none is to be made.

    The connection is in autocommit mode. Raise StorageError for a link and when the disk refuses,
    sqlite3.DatabaseError for a file that is no such database.
    """
    if path is not None and not create and not path.exists():
        return None
    with ExitStack() as stack:
        connection = _connected(path, create=create)
        stack.callback(connection.close)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        if create:
            connection.execute("PRAGMA journal_mode = WAL")
            with transaction(connection):
                if not things(connection):
                    for statement in _SCHEMA:
                        connection.execute(statement)
                    connection.execute("INSERT INTO about VALUES (1, '', 0)")
        if set(things(connection).values()) != set(map(normalised, _SCHEMA)):
            raise sqlite3.DatabaseError(f"{path}: its tables are not ours")
        stack.pop_all()
        return connection


def _connected(path: Path | None, *, create: bool) -> sqlite3.Connection:
    if path is None or create:
        if path is not None:
            make_private(path)
        return sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
    file = f"file:{quote(str(path))}"
    connection = sqlite3.connect(f"{file}?mode=rw", uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT 1 FROM sqlite_schema")
    except sqlite3.DatabaseError as error:
        connection.close()
        # Where this process may make no file for the log, and there is none, the file stays as it is.
        if error.sqlite_errorname != "SQLITE_CANTOPEN" or os.path.lexists(f"{path}-wal"):
            raise
        return sqlite3.connect(f"{file}?immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    return connection
