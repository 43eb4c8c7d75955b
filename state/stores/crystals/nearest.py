"""Find the crystals nearest to vectors: exactly by reading vectors.db, or in a large store by asking ChromaDB.

Filters are applied afterwards to the best results; if only few rows pass a filter, exactly those are compared.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from state.errors import StorageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Block = tuple[NDArray[np.int64], NDArray[np.float32]]

# Up to this many crystals all vectors are read, in a millisecond or two; above it ChromaDB is asked if there is one.
SCANNED_UP_TO = 2_000
# If ChromaDB is needed but unavailable, only this many of the latest vectors are compared.
LATEST = 10_000
# If at most this many rows pass a filter, exactly those are compared.
_LISTED_UP_TO = 5_000
# A filter that at most this many rows pass is not worth asking ChromaDB.
_RARE = 1_000
# With a filter, ChromaDB is asked for _ASKED_TIMES * k results, then for _ASKED_FOR if too few pass.
_ASKED_TIMES, _ASKED_FOR = 3, 2_400
# Query vectors that are compared in one read of the stored vectors.
_VECTORS_AT_ONCE = 64
# Rows per block: a block that fits into the processor's cache is compared three times as fast.
_ROWS_AT_ONCE = 512
# Up to this many vectors (30 MB) stay in memory until one is written; a command searches some forty times in a dream.
_KEPT_UP_TO = 20_000
_ALL = "key > 0"
_MORE, _TIMES = 50, 8
_SAME = 1e-2  # tolerance between two ways to compute a cosine
_LISTED = "IN (SELECT value FROM json_each(?))"
_HAVE_VECTORS = "crystals.key NOT IN (SELECT crystal FROM to_embed)"


class ChromaIndex(Protocol):
    """An approximate index beside vectors.db, such as `state.stores.vectors.chroma.VectorIndex`."""

    failed: bool

    def nearest(self, vector: "NDArray[np.float32]", k: int) -> list[tuple[str, float]]: ...


class Reading(Protocol):
    """Reads vectors.db, as `CrystalVectors.reading` does."""

    def __call__(self, ask: "Callable[[sqlite3.Connection], list[Block]]", /) -> "list[Block] | None": ...


class Nearest:
    """Compares vectors with those of one workspace: all of them, or only the `latest` ones if that is set."""

    def __init__(self, connection: sqlite3.Connection, reading: Reading) -> None:
        self._connection = connection
        self._reading = reading
        self.latest: int | None = None
        self._kept: tuple[tuple[str, int], list[Block]] | None = None

    def to(
        self,
        vectors: "NDArray[np.float32]",
        k: int,
        condition: str = "",
        values: Sequence[object] = (),
        index: ChromaIndex | None = None,
    ) -> list[dict[int, float]]:
        """Return the k nearest rows to each of these vectors with their cosines, nearest first.

        `condition` is SQL over the table `crystals`. `index` is asked unless the store is small or few rows pass.
        """
        condition = condition or "TRUE"
        listed = None if condition == "TRUE" else self._listed(condition, values)
        newest = self._rows("SELECT coalesce(max(key), 0) FROM crystals", ())[0][0]
        where, given = _ALL if self.latest is None else f"key > {newest - self.latest}", ""
        # Rare: of _ASKED_FOR evenly spread rows, fewer than 2 k pass, so ChromaDB might not find k.
        is_rare = listed is not None and (len(listed) <= _RARE or len(listed) * _ASKED_FOR < 2 * k * newest)
        if listed is not None and len(listed) <= _LISTED_UP_TO:
            where, given = f"key {_LISTED}", json.dumps(listed)
        if index is not None and not index.failed and newest > SCANNED_UP_TO and not (given and is_rare):
            try:
                return [self._asked(index, vector, k, condition, values) for vector in vectors]
            except StorageError:
                index.failed = True  # its owner rebuilds it; until then it is not asked
        found: list[dict[int, float]] = []
        for first in range(0, len(vectors), _VECTORS_AT_ONCE):
            for keys, near in self._compared(vectors[first : first + _VECTORS_AT_ONCE], where, given):
                found.append(self._passing(keys, near, k, condition, values))
        return found

    def _compared(self, vectors: "NDArray[np.float32]", where: str, given: str = "") -> "list[Block]":
        """Return, for each of these vectors, the rows that were read with their cosines."""
        import numpy as np

        def ask(file: sqlite3.Connection) -> "list[Block]":
            keys, near = [np.empty(0, np.int64)], [np.empty((len(vectors), 0), np.float32)]
            for some, block in self._blocks(file, where, given):
                keys.append(some)
                near.append(cosines(block, vectors[0])[None] if len(vectors) == 1 else vectors @ block.T)
            found = np.concatenate(near, axis=1)
            if not np.all(np.abs(found) <= 1 + _SAME):
                raise ValueError("vectors.db holds what is no vector")
            return [(np.concatenate(keys), one) for one in found]

        return self._reading(ask) or [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in vectors]

    def _blocks(self, file: sqlite3.Connection, where: str, given: str) -> "Iterator[Block]":
        """Yield rows with their vectors, in blocks that fit into the processor's cache."""
        import numpy as np

        mark = tuple(file.execute("SELECT token, written FROM about").fetchone())
        if where == _ALL and self._kept is not None and self._kept[0] == mark:
            yield from self._kept[1]
            return
        kept: list[Block] = []
        is_kept = where == _ALL
        cursor = file.execute(f"SELECT key, vector FROM vectors WHERE {where}", (given,) if given else ())
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            block = np.fromiter((row[0] for row in rows), np.int64, len(rows)), matrix([row[1] for row in rows])
            is_kept = is_kept and len(kept) * _ROWS_AT_ONCE < _KEPT_UP_TO
            kept = [*kept, block] if is_kept else []
            yield block
        if where == _ALL:
            self._kept = (mark, kept) if is_kept else None

    def _passing(
        self, keys: "NDArray[np.int64]", near: "NDArray[np.float32]", k: int, condition: str, values: Sequence[object]
    ) -> dict[int, float]:
        """Return the k best rows whose crystals exist and pass the condition, checking ever larger batches."""
        import numpy as np

        order, first, count = np.argsort(-near, kind="stable"), 0, k + _MORE
        found: dict[int, float] = {}
        while len(found) < k and first < len(order):
            best = order[first : first + count]
            cosine = dict(zip(keys[best].tolist(), near[best].tolist(), strict=True))
            passing = {key for key, _ in self._pass("key", cosine, condition, values)}
            found |= {key: one for key, one in cosine.items() if key in passing}
            first, count = first + count, count * _TIMES
        return dict(islice(found.items(), k))

    def _pass(
        self, column: str, among: Iterable[object], condition: str, values: Sequence[object]
    ) -> list[tuple[int, str]]:
        """Return (row, id) of those of these crystals that have a vector and pass the condition."""
        statement = f"SELECT key, id FROM crystals WHERE {column} {_LISTED} AND {_HAVE_VECTORS} AND {condition}"
        return self._rows(statement, (json.dumps(list(among)), *values))

    def _listed(self, condition: str, values: Sequence[object]) -> list[int]:
        """Return the rows that pass the condition, stopping one above _LISTED_UP_TO."""
        # A session's rows are found by its index; otherwise SQLite would choose an index that makes it read the rows.
        hint = "" if "occurrences" in condition else "INDEXED BY crystals_by_time"
        statement = f"SELECT key FROM crystals {hint} WHERE {condition} LIMIT {_LISTED_UP_TO + 1}"
        return [key for (key,) in self._rows(statement, values)]

    def _rows(self, statement: str, values: Sequence[object]) -> list[Any]:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(statement, tuple(values)).fetchall()

    def _asked(
        self, index: ChromaIndex, vector: "NDArray[np.float32]", k: int, condition: str, values: Sequence[object]
    ) -> dict[int, float]:
        """Return the nearest rows by ChromaDB, joined by an exact comparison of the latest that it lacks."""
        known: dict[int, float] = {}
        for count in (k,) if condition == "TRUE" else (_ASKED_TIMES * k, max(k, _ASKED_FOR)):
            cosine = dict(index.nearest(vector, count))
            known = {key: cosine[id_] for key, id_ in self._pass("id", cosine, condition, values)}
            if len(known) >= k:
                break
        if known:
            best = max(known, key=lambda key: known[key])
            ((_, exact),) = self._compared(vector[None], "key = ?", str(best))
            if not len(exact) or abs(float(exact[0]) - known[best]) > _SAME:
                raise StorageError("ChromaDB answers what vectors.db does not hold", "it is built anew")
        elif cosine and condition == "TRUE":
            raise StorageError("ChromaDB knows no crystal of these", "it is built anew")
        late = f"key IN (SELECT key FROM to_index ORDER BY key DESC LIMIT {_LISTED_UP_TO})"
        ((keys, near),) = self._compared(vector[None], late)
        known |= self._passing(keys, near, k, condition, values)
        return dict(sorted(known.items(), key=lambda pair: (-pair[1], pair[0]))[:k])


def matrix(blobs: Sequence[bytes]) -> "NDArray[np.float32]":
    """Decode stored vectors, one per row. Raise ValueError if their widths differ."""
    import numpy as np

    if len({len(blob) for blob in blobs}) > 1:
        raise ValueError("vectors of several widths")
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)


def cosines(rows: "NDArray[np.float32]", vector: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """Return the cosine of each row to the vector.

    A matrix product would let BLAS threads wait for each other: ten times as slow on a busy machine, and no faster on
    an idle one, because this runs at the speed of memory.
    """
    import numpy as np

    found: NDArray[np.float32] = np.vecdot(rows, vector)
    return found
