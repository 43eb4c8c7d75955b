"""Vectors of crystals: a column of their rows in state.db, null until they are embedded.

Whoever changes the text or the context of a crystal sets its vector to null. ChromaDB (`state.stores.vectors.chroma`)
is filled from here: triggers note in `to_index` every crystal that it may hold differently.
"""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from state.stores.crystals.nearest import Nearest, cosines, to_matrix
from state.stores.database.connection import transaction
from state.stores.database.meta import Meta
from state.stores.vectors.chroma import Record
from state.stores.vectors.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 256
MODEL = "embedding_model"
_METADATA = ("origin", "kind", "speaker", "session", "created_at")
_TO_EMBED = "SELECT key FROM crystals WHERE vector IS NULL ORDER BY key"
_PENDING = f"""
SELECT key, digest, context, text FROM crystals
WHERE key IN (SELECT * FROM ({_TO_EMBED} DESC LIMIT ?)) OR key IN (SELECT * FROM ({_TO_EMBED} LIMIT ?))
"""
_UNEMBEDDED = "SELECT count(*) FROM crystals WHERE vector IS NULL"
_LISTED = "IN (SELECT value FROM json_each(?))"


class IndexState(NamedTuple):
    """What state.db records about ChromaDB; see `IndexStateRow`."""

    build: str = ""
    stamp: str = ""


def index_state(connection: sqlite3.Connection) -> IndexState:
    """Return the single row of `index_state`."""
    row = connection.execute("SELECT build, stamp FROM index_state").fetchone()
    return IndexState(*map(str, row)) if row else IndexState()


def put_index_state(connection: sqlite3.Connection, state: IndexState) -> None:
    """Write the single row of `index_state`, within the caller's transaction if there is one."""
    connection.execute("INSERT OR REPLACE INTO index_state VALUES (1, ?, ?)", state)


class CrystalVectors:
    """The vectors of one workspace's crystals, all of one model.

    `may_write` says that this process owns the workspace. Each thread needs an instance of its own.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._meta = Meta(connection)
        self.may_write = True
        self.nearest = Nearest(connection)

    # ------------------------------------------------------------ filling it

    def use_model(self, name: str) -> bool:
        """Use this model from now on; if it is new, drop all vectors and ChromaDB. Return whether it is."""
        if self.model() == name:
            return False
        with transaction(self._connection) as connection:
            self._meta.put(MODEL, name)
            connection.execute("UPDATE crystals SET vector = NULL WHERE vector IS NOT NULL")
            self.index_anew()
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
        done = 0
        while done < limit:
            count = min(BATCH, limit - done)
            rows = self._connection.execute(_PENDING, (count - count // 4, count // 4)).fetchall()
            if not rows:
                break
            # The full-text index holds the same text. No transaction: embedding may take seconds.
            texts = [f"{row['context']}: {row['text']}" if row["context"] else row["text"] for row in rows]
            self._keep(rows, embedder.name, embedder.embed(texts))
            done += len(rows)
        return done

    def _keep(self, rows: Sequence[sqlite3.Row], model: str, vectors: "NDArray[np.float32]") -> None:
        """Store the vectors of these rows, unless they or the model changed while they were embedded."""
        kept = (
            (vector.astype("<f2").tobytes(), row["key"], row["digest"], row["context"])
            for row, vector in zip(rows, vectors, strict=True)
        )
        with transaction(self._connection) as connection:
            if self.model() == model:
                connection.executemany(
                    "UPDATE crystals SET vector = ? WHERE key = ? AND digest = ? AND context = ?", kept
                )

    # ------------------------------------------------------------ ChromaDB

    def unindexed(self, limit: int) -> tuple[dict[int, str], list[Record]]:
        """Return the next changes, as ids by number, and the records that ChromaDB is to have of these ids."""
        changes = self._connection.execute("SELECT key, id FROM to_index ORDER BY key LIMIT ?", (limit,))
        ids = {int(key): str(id_) for key, id_ in changes}
        statement = f"SELECT id, text, {', '.join(_METADATA)}, vector FROM crystals WHERE id {_LISTED}"
        listed = json.dumps(list(ids.values()))
        rows = self._connection.execute(f"{statement} AND vector IS NOT NULL", (listed,)).fetchall()
        vectors = to_matrix([row["vector"] for row in rows]) if rows else ()
        return ids, [
            Record(row["id"], vector, row["text"], {name: row[name] for name in _METADATA})
            for row, vector in zip(rows, vectors, strict=True)
        ]

    def mark_indexed(self, changes: Iterable[int]) -> None:
        """Record that ChromaDB knows these changes, in the caller's transaction. Later ones have other numbers."""
        self._connection.executemany("DELETE FROM to_index WHERE key = ?", [(number,) for number in changes])

    def index_anew(self, build: str = "") -> None:
        """Begin with this empty build of ChromaDB ("": none), to which every vector is to be told."""
        with transaction(self._connection) as connection:
            connection.execute("DELETE FROM to_index")
            connection.execute("INSERT INTO to_index (id) SELECT id FROM crystals WHERE vector IS NOT NULL")
            put_index_state(connection, IndexState(build))

    # ------------------------------------------------------------ reading it

    def waiting(self) -> tuple[int, int]:
        """Count the crystals to be embedded, and those to be told to ChromaDB."""
        return self._number(_UNEMBEDDED), self._number("SELECT count(*) FROM to_index")

    def are_few(self) -> bool:
        """Return whether over half of the crystals have no vector; then search by words alone."""
        return 2 * self._number(_UNEMBEDDED) > self._number("SELECT coalesce(max(key), 0) FROM crystals")

    def vector_count(self) -> int:
        """Count the vectors, including those that ChromaDB does not hold yet."""
        return self._number("SELECT count(*) FROM crystals") - self._number(_UNEMBEDDED)

    def _number(self, query: str) -> int:
        return int(self._connection.execute(query).fetchone()[0])

    def read(self, keys: Iterable[int]) -> "tuple[list[int], NDArray[np.float32] | None]":
        """Return the vectors of these rows with their keys; rows without a vector are left out."""
        statement = f"SELECT key, vector FROM crystals WHERE key {_LISTED} AND vector IS NOT NULL"
        rows = self._connection.execute(statement, (json.dumps(list(keys)),)).fetchall()
        width = max((len(row["vector"]) for row in rows), default=0)
        rows = [row for row in rows if len(row["vector"]) == width]  # a shorter one is damaged
        return [int(row["key"]) for row in rows], to_matrix([row["vector"] for row in rows]) if rows else None

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
