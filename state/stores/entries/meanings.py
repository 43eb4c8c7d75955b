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
        """Embed what waits for it, the latest first, at most so many entries; how many."""
        rows = self._connection.execute(
            "SELECT key, value, fields FROM entries WHERE fields <> '[]' AND (embedded_by < ?1 OR embedded_by > ?1)"
            " ORDER BY updated_at DESC LIMIT ?2",
            (self._embedder.name, limit),
        ).fetchall()
        texts = [texts_of(json.loads(row["value"]), json.loads(row["fields"])) for row in rows]
        # Outside the transaction, for it may take seconds.
        vectors = iter(self._embedder.embed([text for several in texts for text in several]))
        with transaction(self._connection) as connection:
            for row, several in zip(rows, texts, strict=True):
                found = [next(vectors) for _ in several]
                # Another value may have come meanwhile: that one has its own.
                done = connection.execute(
                    "UPDATE entries SET embedded_by = ? WHERE key = ? AND value = ? AND fields = ?",
                    (self._embedder.name, row["key"], row["value"], row["fields"]),
                ).rowcount
                if done:
                    connection.execute("DELETE FROM entry_vectors WHERE entry = ?", (row["key"],))
                    connection.executemany(
                        "INSERT INTO entry_vectors VALUES (?, ?, ?)",
                        [(row["key"], place, vector.tobytes()) for place, vector in enumerate(found)],
                    )
        return len(rows)

    def nearest(self, query: str, prefix: Namespace, now: datetime) -> dict[int, float]:
        """How near each entry below this namespace is to the query by the nearest of its texts, the nearest first."""
        where, values = below(prefix, now)
        rows = self._connection.execute(
            "SELECT entry, vector FROM entries JOIN entry_vectors ON entry_vectors.entry = entries.key"
            f" WHERE {where} AND embedded_by = ?",
            (*values, self._embedder.name),
        ).fetchall()
        if not rows:
            return {}
        (vector,) = self._embedder.embed([query])
        scores = cosines(matrix([row["vector"] for row in rows]), vector)
        best: dict[int, float] = {}
        for row, score in zip(rows, scores.tolist(), strict=True):
            best[row["entry"]] = max(score, best.get(row["entry"], -1.0))
        return dict(sorted(best.items(), key=lambda pair: (-pair[1], -pair[0])))


def forget_vectors(connection: sqlite3.Connection, keys: Sequence[int] | None = None) -> None:
    """Drop the vectors of these rows, or of all: they wait to be embedded again."""
    which, values = ("", ()) if keys is None else (" IN (SELECT value FROM json_each(?))", (json.dumps(list(keys)),))
    connection.execute(f"DELETE FROM entry_vectors{f' WHERE entry{which}' if which else ''}", values)
    connection.execute(f"UPDATE entries SET embedded_by = ''{f' WHERE key{which}' if which else ''}", values)
