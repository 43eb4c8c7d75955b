"""Crystal vectors: the truth in state.db from which the vector file and the vector index are fed and rebuilt.

Queues lead a new crystal on: `to_embed` (no vector yet), `to_file` and `to_index` (the file and the index have not
been told yet), `to_compare` (not compared with those nearest to it yet, see `duplicates`). A row leaves a queue only
after its step is done, so a crash repeats a step and never skips one.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from state.stores.crystals.nearest import VECTOR_FILE, Index, Nearest, cosines, matrix
from state.stores.database.connection import transaction
from state.stores.database.meta import Meta
from state.stores.vectors.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 256
MODEL = "embedding_model"
_TO_EMBED = """
SELECT key, context, text FROM crystals
WHERE key IN (SELECT * FROM (SELECT crystal FROM to_embed ORDER BY crystal DESC LIMIT ?))
   OR key IN (SELECT * FROM (SELECT crystal FROM to_embed ORDER BY crystal LIMIT ?))
"""
_LISTED = "SELECT value FROM json_each(?)"


class CrystalVectors:
    """The vectors of one workspace's crystals, all of one model."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._meta = Meta(connection)
        self.nearest = Nearest(connection)

    def use_model(self, name: str) -> bool:
        """From now on vectors are of this model; those of another are dropped and queued to be embedded again.

        True when the model is not the one of before.
        """
        if self.model() == name:
            return False
        with transaction(self._connection) as connection:
            for table in ("vectors", "to_file", "to_index", "to_compare"):
                connection.execute(f"DELETE FROM {table}")
            self._meta.remove(VECTOR_FILE)
            connection.execute("INSERT OR IGNORE INTO to_embed SELECT key FROM crystals")
            self._meta.put(MODEL, name)
        return True

    def model(self) -> str:
        """The name of the embedder whose vectors these are; empty before the first one."""
        return self._meta.get(MODEL) or ""

    def embed_pending(self, embedder: Embedder, limit: int = BATCH) -> int:
        """Embed up to `limit` crystals that have no vector; returns how many were embedded.

        The newest are asked for first. Of each batch a quarter are the oldest, so that none waits for ever while
        more is written than is embedded.
        """
        self.use_model(embedder.name)
        done = 0
        while done < limit:
            count = min(BATCH, limit - done)
            rows = self._connection.execute(_TO_EMBED, (count - count // 4, count // 4)).fetchall()
            if not rows:
                break
            # The same text that the words' index sees; outside the transaction, for it may take seconds.
            texts = [f"{row['context']}: {row['text']}" if row["context"] else row["text"] for row in rows]
            self._keep([int(row["key"]) for row in rows], embedder.name, embedder.embed(texts))
            done += len(rows)
        return done

    def index_pending(self, index: Index, limit: int = BATCH) -> int:
        """Add up to `limit` vectors that the index does not hold yet; returns how many."""
        done = 0
        while done < limit:
            rows = self._connection.execute(
                "SELECT q.crystal, c.id, v.vector FROM to_index q JOIN crystals c ON c.key = q.crystal"
                " JOIN vectors v ON v.crystal = q.crystal ORDER BY q.crystal LIMIT ?",
                (min(BATCH, limit - done),),
            ).fetchall()
            if not rows:
                break
            index.upsert([row["id"] for row in rows], matrix([row["vector"] for row in rows]))
            with transaction(self._connection) as connection:
                keys = [(row["crystal"],) for row in rows]
                connection.executemany("DELETE FROM to_index WHERE crystal = ?", keys)
            done += len(rows)
        return done

    def waiting(self) -> tuple[int, int]:
        """How many crystals wait to be embedded, and how many vectors wait for the index."""
        row = self._connection.execute("SELECT (SELECT count(*) FROM to_embed), (SELECT count(*) FROM to_index)")
        embed, index = row.fetchone()
        return int(embed), int(index)

    def wait(self) -> bool:
        """Whether any crystal waits to be embedded."""
        return self._connection.execute("SELECT 1 FROM to_embed LIMIT 1").fetchone() is not None

    def has_more_than(self, count: int) -> bool:
        """Whether there are more vectors than that; quicker than to count them."""
        row = self._connection.execute("SELECT 1 FROM vectors LIMIT 1 OFFSET ?", (count,)).fetchone()
        return row is not None

    def vector_count(self) -> int:
        """How many vectors there are, those included that the index does not hold yet."""
        return int(self._connection.execute("SELECT count(*) FROM vectors").fetchone()[0])

    def vector_sample(self, n: int) -> "list[tuple[str, NDArray[np.float32]]]":
        """Up to n (crystal id, vector) that the index should hold, spread evenly over the rows."""
        indexed = "SELECT v.crystal FROM vectors v WHERE v.crystal NOT IN (SELECT crystal FROM to_index)"
        rows = self._connection.execute(
            "SELECT c.id, v.vector FROM vectors v JOIN crystals c ON c.key = v.crystal WHERE v.crystal IN"
            f" (SELECT crystal FROM (SELECT crystal, ntile(?) OVER (ORDER BY crystal) AS part FROM ({indexed}))"
            " GROUP BY part HAVING crystal = min(crystal))",
            (n,),
        ).fetchall()
        return [(row["id"], matrix([row["vector"]])[0]) for row in rows]

    def vector_batches(self, size: int) -> "Iterator[tuple[list[str], NDArray[np.float32]]]":
        """Every vector, in batches of at most `size`: (ids, matrix of shape (n, width))."""
        after = 0
        while rows := self._connection.execute(
            "SELECT v.crystal, c.id, v.vector FROM vectors v JOIN crystals c ON c.key = v.crystal"
            " WHERE v.crystal > ? ORDER BY v.crystal LIMIT ?",
            (after, size),
        ).fetchall():
            after = int(rows[-1]["crystal"])
            yield [row["id"] for row in rows], matrix([row["vector"] for row in rows])

    def cosines(self, vector: "NDArray[np.float32]", keys: Iterable[int]) -> dict[int, float]:
        """How near these rows are to this vector; rows without a vector are left out."""
        rows = self._connection.execute(
            "SELECT crystal, vector FROM vectors WHERE crystal IN (SELECT value FROM json_each(?))",
            (json.dumps(list(keys)),),
        ).fetchall()
        if not rows:
            return {}
        return dict(
            zip(
                (int(row[0]) for row in rows), cosines(matrix([row[1] for row in rows]), vector).tolist(), strict=True
            )
        )

    def of(self, ids: Iterable[str]) -> "dict[str, NDArray[np.float32]]":
        """The vectors of these crystals; those without one are left out."""
        rows = self._connection.execute(
            f"SELECT c.id, v.vector FROM crystals c JOIN vectors v ON v.crystal = c.key WHERE c.id IN ({_LISTED})",
            (json.dumps(list(ids)),),
        ).fetchall()
        return dict(zip((row[0] for row in rows), matrix([row[1] for row in rows]), strict=True)) if rows else {}

    def between(self, keys: Iterable[int]) -> dict[tuple[int, int], float]:
        """How near each of these rows is to each other one, by both in either order."""
        rows = self._connection.execute(
            f"SELECT crystal, vector FROM vectors WHERE crystal IN ({_LISTED})", (json.dumps(list(keys)),)
        ).fetchall()
        if not rows:
            return {}
        vectors, known = matrix([row[1] for row in rows]), [int(row[0]) for row in rows]
        found = (vectors @ vectors.T).tolist()
        return {(a, b): found[i][j] for i, a in enumerate(known) for j, b in enumerate(known) if i != j}

    def neighbours(self, keys: Sequence[int], k: int, index: Index | None) -> dict[int, dict[int, float]]:
        """For each of these rows that has a vector, the k others nearest to it with their cosines."""
        rows = self._connection.execute(
            f"SELECT crystal, vector FROM vectors WHERE crystal IN ({_LISTED})", (json.dumps(list(keys)),)
        ).fetchall()
        if not rows:
            return {}
        near = self.nearest.to(matrix([row["vector"] for row in rows]), k + 1, index=index)
        found = {int(row["crystal"]): cosines for row, cosines in zip(rows, near, strict=True)}
        return {
            key: dict([(other, cosine) for other, cosine in cosines.items() if other != key][:k])
            for key, cosines in found.items()
        }

    def _keep(self, keys: Sequence[int], model: str, vectors: "NDArray[np.float32]") -> None:
        with transaction(self._connection) as connection:
            for key, vector in zip(keys, vectors, strict=True):
                # The crystal may have been forgotten while its text was being embedded.
                kept = connection.execute(
                    "INSERT OR REPLACE INTO vectors (crystal, model, vector)"
                    " SELECT key, ?, ? FROM crystals WHERE key = ?",
                    (model, vector.astype("<f4").tobytes(), key),
                ).rowcount
                if kept:
                    for queue in ("to_file", "to_index", "to_compare"):
                        connection.execute(f"INSERT OR IGNORE INTO {queue} (crystal) VALUES (?)", (key,))
                connection.execute("DELETE FROM to_embed WHERE crystal = ?", (key,))
