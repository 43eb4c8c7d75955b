"""Meanings: the vectors of entries, and which entries come nearest to a query."""

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from state.entries.entry import Namespace
from state.entries.fields import texts_of
from state.stores.crystals.nearest import cosines, matrix
from state.stores.database.connection import transaction
from state.stores.entries.entries import below
from state.stores.vectors.embedder import Embedder

BATCH = 64


class Meanings:
    """The vectors of the entries of one workspace, all of one model; those of another count as none."""

    def __init__(self, connection: sqlite3.Connection, embedder: Embedder) -> None:
        self._connection = connection
        self._embedder = embedder

    def embed(self, limit: int = BATCH) -> int:
        """Embed what waits for it, what came last first, at most so many entries; how many."""
        rows = list[sqlite3.Row]()
        for side in ("<", ">"):  # each from an index, where "other than" would read every row
            rows += self._connection.execute(
                f"SELECT key, value, fields FROM entries WHERE fields <> '[]' AND embedded_by {side} ?"
                " ORDER BY embedded_by, updated_at DESC LIMIT ?",
                (self._embedder.name, limit - len(rows)),
            )
        if not rows:
            return 0
        texts = [texts_of(json.loads(row["value"]), json.loads(row["fields"])) for row in rows]
        # Outside the transaction, for it may take seconds.
        vectors = iter(self._embedder.embed([text for several in texts for text in several]))
        with transaction(self._connection) as connection:
            for row, several in zip(rows, texts, strict=True):
                found = [(row["key"], next(vectors).tobytes()) for _ in several]
                # Another value may have come meanwhile: that one has its own.
                done = connection.execute(
                    "UPDATE entries SET embedded_by = ? WHERE key = ? AND value = ? AND fields = ?",
                    (self._embedder.name, row["key"], row["value"], row["fields"]),
                ).rowcount
                if done:
                    connection.execute("DELETE FROM entry_vectors WHERE entry = ?", (row["key"],))
                    connection.executemany("INSERT INTO entry_vectors (entry, vector) VALUES (?, ?)", found)
        return len(rows)

    def nearest(self, query: str, prefix: Namespace, now: datetime) -> dict[int, float]:
        """How near each entry below this namespace is to the query by the nearest of its texts, the nearest first."""
        import numpy as np

        where, values = below(prefix, now)
        rows = self._connection.execute(
            "SELECT entry, vector FROM entry_vectors WHERE entry IN"
            f" (SELECT key FROM entries WHERE {where} AND embedded_by = ?)",
            (*values, self._embedder.name),
        ).fetchall()
        if not rows:
            return {}
        (vector,) = self._embedder.embed([query])
        keys, scores = np.array([row[0] for row in rows]), cosines(matrix([row[1] for row in rows]), vector)
        order = np.lexsort((-keys, -scores))
        best: dict[int, float] = {}
        for key, score in zip(keys[order].tolist(), scores[order].tolist(), strict=True):
            best.setdefault(key, score)
        return best


def forget_vectors(connection: sqlite3.Connection, keys: Sequence[int]) -> None:
    """Drop the vectors of these rows: they wait to be embedded again."""
    listed = (json.dumps(list(keys)),)
    connection.execute("DELETE FROM entry_vectors WHERE entry IN (SELECT value FROM json_each(?))", listed)
    connection.execute("UPDATE entries SET embedded_by = '' WHERE key IN (SELECT value FROM json_each(?))", listed)
