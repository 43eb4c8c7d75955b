"""Crystal vectors in `index/vectors.db`, a cache that is filled from state.db.

A vector is valid if its crystal exists and is not queued in `to_embed`; so what state.db commits is valid at once,
and surplus rows in vectors.db are harmless. state.db identifies its vectors.db by a token and a write count. Any
other file (older or torn) is deleted, and all crystals are queued for embedding again. Pages are large, because a
search reads every vector. A power failure may lose committed vectors (`synchronous=NORMAL`).
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote

from state.errors import StorageError
from state.stores.crystals.nearest import ChromaIndex, Nearest, cosines, matrix
from state.stores.database.connection import (
    BUSY_TIMEOUT_MS,
    SIDES,
    explained,
    make_private,
    normalised,
    things,
    transaction,
)
from state.stores.database.meta import Meta
from state.stores.disk.syscalls import storage_errors
from state.stores.vectors.chroma import delete
from state.stores.vectors.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Found = tuple[list[int], NDArray[np.float32] | None]

Answer = TypeVar("Answer")

BATCH = 256
MODEL = "embedding_model"
NAME = "vectors.db"
_TO_EMBED = """
SELECT key, digest, context, text FROM crystals
WHERE key IN (SELECT * FROM (SELECT crystal FROM to_embed ORDER BY crystal DESC LIMIT ?))
   OR key IN (SELECT * FROM (SELECT crystal FROM to_embed ORDER BY crystal LIMIT ?))
"""
_LISTED = "IN (SELECT value FROM json_each(?))"
# SQLite errors that say nothing about the state of the file.
_OF_THE_MOMENT = ("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")
# Replaces the token of a torn vectors.db; the next process that may write begins a new file.
_TORN = "torn"
_SCHEMA = (
    "CREATE TABLE about (one INTEGER PRIMARY KEY CHECK (one = 1), token TEXT NOT NULL, written INTEGER NOT NULL)",
    # `key` is the crystal's row in state.db; if the digest there differs, the row holds another text by now.
    "CREATE TABLE vectors (key INTEGER PRIMARY KEY, digest TEXT NOT NULL, vector BLOB NOT NULL)",
    # Vectors that ChromaDB does not have yet.
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


class IndexState(NamedTuple):
    """What state.db records about its index; see `IndexStateRow`."""

    vectors: str = ""
    written: int = 0
    build: str = ""
    clean: bool = False


def index_state(connection: sqlite3.Connection) -> IndexState:
    """Return the single row of `index_state`."""
    row = connection.execute("SELECT vectors, written, build, clean FROM index_state").fetchone()
    return IndexState(str(row[0]), int(row[1]), str(row[2]), bool(row[3])) if row else IndexState()


def put_index_state(connection: sqlite3.Connection, state: IndexState) -> None:
    """Write the single row of `index_state`, within the caller's transaction if there is one."""
    connection.execute("INSERT OR REPLACE INTO index_state VALUES (1, ?, ?, ?, ?)", state)


class CrystalVectors:
    """The vectors of one workspace's crystals, all of one model. `path` is vectors.db; None keeps them in memory.

    `may_write` says that this process owns the workspace. Each thread needs an instance of its own.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None = None) -> None:
        self._connection = connection
        self._path = path
        self._meta = Meta(connection)
        self._file: sqlite3.Connection | None = None
        self.may_write = True
        self.nearest = Nearest(connection, self.reading)

    def close(self) -> None:
        """Close the file; the next call that needs it opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    # ------------------------------------------------------------ the file

    def reading(self, ask: Callable[[sqlite3.Connection], Answer]) -> Answer | None:
        """Return the answer of `ask` to vectors.db; None if the file is torn or not the one that state.db names."""
        wanted = index_state(self._connection).vectors
        try:
            for _ in range(2):
                if self._file is None and self._path is not None:
                    self._file = open_vectors(self._path, create=False)
                if self._file is not None and _about(self._file)[0] == wanted:
                    return ask(self._file)
                if self._path is not None:
                    self.close()  # the file may have been replaced meanwhile
        except (
            sqlite3.DatabaseError,
            ValueError,
            StorageError,
        ) as error:  # torn; vectors of several widths; a link or a directory
            self._found_torn(error)
        return None

    def _found_torn(self, error: Exception) -> None:
        """Raise errors of the disk; mark a bad file as torn, if this process may write."""
        if self._path is not None and isinstance(error, sqlite3.DatabaseError) and _is_of_the_moment(error):
            raise explained(error, self._path) from error
        self.close()
        if self.may_write:
            put_index_state(self._connection, index_state(self._connection)._replace(vectors=_TORN, clean=False))

    def settle(self) -> None:
        """Begin a new vectors.db and queue all crystals, unless the file is the one that state.db names."""
        is_none = not (index_state(self._connection).vectors or (self._path and os.path.lexists(self._path)))
        if not (is_none and not (self.wait() and self.model())) and not self._agrees():
            with transaction(self._connection):
                self._settled()

    def _agrees(self) -> bool:
        """Return whether the file is the one that state.db names, and no older."""
        try:
            if self._path is not None and (self._file is None or not self._path.exists()):
                self.close()
                self._file = open_vectors(self._path, create=False)
            if self._file is None:
                return False
            state, (token, written) = index_state(self._connection), _about(self._file)
        except sqlite3.DatabaseError as error:
            if _is_of_the_moment(error):
                raise
        except StorageError:  # a link or a directory
            pass
        else:
            return token == state.vectors != "" and written - state.written in (0, 1)
        return False

    def _settled(self) -> sqlite3.Connection:
        """Return vectors.db in agreement with state.db; call it inside a transaction on state.db."""
        if not self._agrees():
            self.close()  # the file may have been replaced meanwhile
            if not self._agrees():
                self._begin()
        assert self._file is not None
        return self._file

    def _begin(self) -> None:
        """Begin a new vectors.db, queue every crystal for it, and have ChromaDB rebuilt."""
        self.close()
        if self._path is not None:
            with storage_errors(self._path):
                self._path.parent.mkdir(mode=0o700, exist_ok=True)  # no parents: a removed workspace is not recreated
                for side in SIDES:
                    delete(self._path.with_name(f"{self._path.name}{side}"))
        file, token = open_vectors(self._path, create=True), token_hex(16)
        assert file is not None
        self._file = file
        file.execute("UPDATE about SET token = ?", (token,))
        self._connection.execute("INSERT OR IGNORE INTO to_embed (crystal) SELECT key FROM crystals")
        put_index_state(self._connection, IndexState(token))

    def drop(self) -> None:
        """Delete the vectors of crystals that are gone or have another text; their bytes are overwritten."""
        with transaction(self._connection) as connection:
            file = self._settled()
            wanted = {int(key): str(of) for key, of in connection.execute("SELECT key, digest FROM crystals")}
            rows = file.execute("SELECT key, digest FROM vectors").fetchall()
            gone = [(key,) for key, digest in rows if wanted.get(key) != digest]
            with transaction(file):
                file.executemany("DELETE FROM vectors WHERE key = ?", gone)
                file.execute("DELETE FROM to_index")
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            lost = wanted.keys() - {key for key, _ in rows}
            connection.executemany("INSERT OR IGNORE INTO to_embed (crystal) VALUES (?)", [(key,) for key in lost])
            put_index_state(connection, index_state(connection)._replace(build="", clean=False))

    # ------------------------------------------------------------ filling it

    def use_model(self, name: str) -> bool:
        """Use this model from now on; if it is new, drop all vectors and queue all crystals. Return whether it is."""
        if self.model() == name:
            return False
        with transaction(self._connection):
            self._meta.put(MODEL, name)
            put_index_state(self._connection, IndexState())
            self._settled()
        return True

    def model(self) -> str:
        """Return the name of the embedder that made these vectors; empty if there are none yet."""
        return self._meta.get(MODEL) or ""

    def embed_pending(self, embedder: Embedder, limit: int = BATCH) -> int:
        """Embed up to `limit` crystals that have no vector; return how many were embedded.

        The newest come first. A quarter of each batch are the oldest, so that none waits forever when writing is
        faster than embedding.
        """
        self.use_model(embedder.name)
        self.settle()
        done = 0
        while done < limit:
            count = min(BATCH, limit - done)
            rows = self._connection.execute(_TO_EMBED, (count - count // 4, count // 4)).fetchall()
            if not rows:
                break
            # The full-text index holds the same text. No transaction: embedding may take seconds.
            texts = [f"{row['context']}: {row['text']}" if row["context"] else row["text"] for row in rows]
            self.keep([(int(row["key"]), str(row["digest"])) for row in rows], embedder.name, embedder.embed(texts))
            done += len(rows)
        return done

    def keep(self, crystals: Sequence[tuple[int, str]], model: str, vectors: "NDArray[np.float32]") -> None:
        """Store the vectors of these crystals, given as (row, digest), skipping those that are gone."""
        with transaction(self._connection) as connection:
            file = self._settled()
            digests = f"SELECT key, digest FROM crystals WHERE key {_LISTED}"
            there = dict(map(tuple, connection.execute(digests, (json.dumps([key for key, _ in crystals]),))))
            kept = [
                (key, digest, vector.astype("<f4").tobytes())
                for (key, digest), vector in zip(crystals, vectors, strict=True)
                # While it was embedded, the crystal may have been forgotten or the model changed.
                if there.get(key) == digest and model == self.model()
            ]
            done = [(key,) for key, *_ in kept]
            # First here: a crystal leaves `to_embed` only with its vector stored. state.db's lock is held.
            with transaction(file):
                file.executemany("INSERT OR REPLACE INTO vectors (key, digest, vector) VALUES (?, ?, ?)", kept)
                file.executemany("INSERT OR IGNORE INTO to_index VALUES (?)", done)
                file.execute("UPDATE about SET written = written + 1")
            connection.executemany("DELETE FROM to_embed WHERE crystal = ?", done)
            put_index_state(connection, index_state(connection)._replace(written=_about(file)[1]))

    # ------------------------------------------------------------ ChromaDB

    def unindexed(self, limit: int = 4 * BATCH) -> "Found":
        """Return up to `limit` vectors that ChromaDB does not have yet, with their rows."""
        return self._vectors("key IN (SELECT key FROM to_index ORDER BY key LIMIT ?)", limit)

    def indexed(self, keys: Iterable[int], gone: Iterable[int]) -> None:
        """Record that ChromaDB now holds these rows, and delete the vectors of crystals that are gone."""

        def note(file: sqlite3.Connection) -> None:
            with transaction(file):
                file.executemany("DELETE FROM vectors WHERE key = ?", [(key,) for key in gone])
                file.executemany("DELETE FROM to_index WHERE key = ?", [(key,) for key in keys])

        self.reading(note)

    def index_anew(self) -> None:
        """Queue all vectors for ChromaDB again."""
        self.reading(lambda file: file.execute("INSERT OR IGNORE INTO to_index SELECT key FROM vectors"))

    # ------------------------------------------------------------ reading it

    def waiting(self) -> tuple[int, int]:
        """Count the crystals to be embedded, and the vectors to be added to ChromaDB."""
        (embed,) = self._connection.execute("SELECT count(*) FROM to_embed").fetchone()
        return int(embed), self._number("SELECT count(*) FROM to_index")

    def wait(self) -> bool:
        """Return whether any crystal is still to be embedded."""
        return self._connection.execute("SELECT 1 FROM to_embed LIMIT 1").fetchone() is not None

    def are_few(self) -> bool:
        """Return whether over half of the crystals have no vector, or all are lost; then search by words alone."""
        waiting, of = self._connection.execute(
            "SELECT (SELECT count(*) FROM to_embed), (SELECT coalesce(max(key), 0) FROM crystals)"
        ).fetchone()
        return bool(2 * waiting > of) or bool(of and not self.newest())

    def newest(self) -> int:
        """Return the highest row with a vector; 0 if there is none."""
        return self._number("SELECT coalesce(max(key), 0) FROM vectors")

    def vector_count(self) -> int:
        """Count the vectors, including those that ChromaDB does not hold yet."""
        return self._number("SELECT count(*) FROM vectors")

    def _number(self, query: str) -> int:
        return self.reading(lambda file: int(file.execute(query).fetchone()[0])) or 0

    def read(self, keys: Iterable[int]) -> "Found":
        """Return the vectors of these rows with their keys; rows without a vector are left out."""
        listed = json.dumps(list(keys))
        waiting = self._connection.execute(f"SELECT crystal FROM to_embed WHERE crystal {_LISTED}", (listed,))
        late = {int(key) for (key,) in map(tuple, waiting)}
        return self._vectors(f"key {_LISTED}", listed, late)

    def _vectors(self, where: str, value: object, late: frozenset[int] | set[int] = frozenset()) -> "Found":
        def ask(file: sqlite3.Connection) -> "Found":
            rows = file.execute(f"SELECT key, vector FROM vectors WHERE {where}", (value,))
            found = [(int(key), vector) for key, vector in rows if key not in late]
            return [key for key, _ in found], matrix([vector for _, vector in found]) if found else None

        return self.reading(ask) or ([], None)

    def cosines(self, vector: "NDArray[np.float32]", keys: Iterable[int]) -> dict[int, float]:
        """Return the cosine of each of these rows to this vector; rows without a vector are left out."""
        found, vectors = self.read(keys)
        return {} if vectors is None else dict(zip(found, cosines(vectors, vector).tolist(), strict=True))

    def between(self, keys: Iterable[int]) -> dict[tuple[int, int], float]:
        """Return the cosine of each ordered pair of these rows."""
        known, vectors = self.read(keys)
        if vectors is None:
            return {}
        found = (vectors @ vectors.T).tolist()
        return {(a, b): found[i][j] for i, a in enumerate(known) for j, b in enumerate(known) if i != j}

    def neighbours(self, keys: Sequence[int], k: int, index: ChromaIndex | None) -> dict[int, dict[int, float]]:
        """Return the k nearest other rows of each of these rows, with cosines; rows without a vector are left out."""
        known, vectors = self.read(keys)
        near = [] if vectors is None else self.nearest.to(vectors, k + 1, index=index)
        return {
            key: dict([(other, cosine) for other, cosine in found.items() if other != key][:k])
            for key, found in zip(known, near, strict=True)
        }


def _about(file: sqlite3.Connection) -> tuple[str, int]:
    """Return the file's token and write count."""
    token, written = file.execute("SELECT token, written FROM about").fetchone() or ("", 0)
    return str(token), int(written)


def open_vectors(path: Path | None, *, create: bool) -> sqlite3.Connection | None:
    """Open vectors.db, or one in memory if `path` is None; return None if the file is missing and not to be created.

    The connection is in autocommit mode. Raise StorageError for a link or an error of the disk, sqlite3.DatabaseError
    for a file that is not such a database.
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
        # SQLite could not create the missing log file here, so nobody is writing: read the file as it is.
        if error.sqlite_errorname != "SQLITE_CANTOPEN" or os.path.lexists(f"{path}-wal"):
            raise
        return sqlite3.connect(f"{file}?immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    return connection


def _is_of_the_moment(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(_OF_THE_MOMENT)
