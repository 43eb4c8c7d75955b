"""Find the crystals nearest to a vector: exactly by reading all vectors, or by asking ChromaDB if it is open.

ChromaDB only names candidates: their cosines are computed from state.db, together with those of the crystals that it
does not hold yet, so both ways give the same results.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from state.errors import StorageError
from state.stores.vectors.chroma import VectorIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Block = tuple[NDArray[np.int64], NDArray[np.float32]]
    Stored = tuple[NDArray[np.int64], bytes]

# If at most this many rows pass a filter, ChromaDB is not asked.
_FEW = 5_000
# If ChromaDB lacks more crystals than this, it is not asked.
_LATE = 5_000
# With a filter, ChromaDB is asked for _ASKED_TIMES * k results, then for _ASKED_FOR; if too few pass, all rows that
# pass are compared.
_ASKED_TIMES, _ASKED_FOR = 3, 2_400
# Rows per block: a block that fits into the processor's cache is compared three times as fast.
_ROWS_AT_ONCE = 512
# Up to this many vectors (15 MB) stay in memory until state.db changes; a dream searches some forty times.
_KEPT_UP_TO = 20_000
_TOLERANCE = 1e-2  # between two ways to compute a cosine
_LISTED = "IN (SELECT value FROM json_each(?))"


class Nearest:
    """Compares a vector with those of one workspace."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._kept: tuple[tuple[int, int], list[Stored]] | None = None

    def to(
        self,
        vector: "NDArray[np.float32]",
        k: int,
        condition: str = "",
        values: Sequence[object] = (),
        index: VectorIndex | None = None,
    ) -> dict[int, float]:
        """Return the k nearest rows to this vector with their cosines, nearest first.

        `condition` is SQL over the table `crystals`. `index` is asked unless few rows pass or it lacks many; if it
        fails or answers what is not so, it is marked as failed and its files as torn, and its owner rebuilds it.
        """
        # A session's rows are found by its index; otherwise SQLite would choose an index that makes it read the rows.
        hint = "" if "occurrences" in condition else "INDEXED BY crystals_by_time"
        passing = f"crystals {hint} WHERE {condition}"
        is_asked = index is not None and not index.failed and self._count("to_index", _LATE) <= _LATE
        if index is not None and is_asked and not (condition and self._count(passing, _FEW, values) <= _FEW):
            try:
                if (found := self._by_index(index, vector, k, condition, values)) is not None:
                    return found
            except StorageError:
                if index.failed:  # else it was closed meanwhile
                    self._connection.execute("UPDATE index_state SET stamp = ''")
        among = f"key IN (SELECT key FROM {passing})" if condition else ""
        return _best(*self._compare(vector, among, values), k)

    def _compare(self, vector: "NDArray[np.float32]", among: str, values: Sequence[object]) -> "Block":
        """Return the rows that have a vector, and the cosine of this vector to each of them."""
        import numpy as np

        keys, near = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
        for some, block in self._blocks(among, values, len(vector)):
            keys.append(some)
            near.append(cosines(block, vector))
        found = np.concatenate(near)
        found[~(np.abs(found) <= 1 + _TOLERANCE)] = -1  # of a damaged vector
        return np.concatenate(keys), found

    def _blocks(self, among: str, values: Sequence[object], width: int) -> "Iterator[Block]":
        """Yield rows with their vectors in blocks that fit into the processor's cache, each where the last was."""
        import numpy as np

        room = np.empty(_ROWS_AT_ONCE * width, np.int32)
        is_kept = not among and self._rows("SELECT coalesce(max(key), 0) FROM crystals")[0][0] <= _KEPT_UP_TO
        for keys, blob in self._all_stored(width) if is_kept else self._stored(among, values, width):
            yield keys, widen(blob, room).reshape(len(keys), width)

    def _all_stored(self, width: int) -> "list[Stored]":
        """Return every vector, from memory if state.db has not changed."""
        mark = (self._rows("PRAGMA data_version")[0][0], self._connection.total_changes)
        if self._kept is None or self._kept[0] != mark:
            self._kept = (mark, list(self._stored("", (), width)))
        return self._kept[1]

    def _stored(self, among: str, values: Sequence[object], width: int) -> "Iterator[Stored]":
        import numpy as np

        # A vector of another width is none of this model's.
        where = f"length(vector) = {2 * width}" + (f" AND {among}" if among else "")
        cursor = self._connection.cursor()
        cursor.row_factory = None
        cursor.execute(f"SELECT key, vector FROM crystals WHERE {where}", tuple(values))
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield np.fromiter((row[0] for row in rows), np.int64, len(rows)), b"".join([row[1] for row in rows])

    def _by_index(
        self,
        index: VectorIndex,
        vector: "NDArray[np.float32]",
        k: int,
        condition: str,
        values: Sequence[object],
    ) -> dict[int, float] | None:
        """Return the nearest rows among ChromaDB's and those that it lacks; None if too few pass the condition.

        Raise StorageError if ChromaDB fails, or holds other vectors than state.db.
        """
        late = self._count("to_index", _LATE)
        for count in (_ASKED_TIMES * k, max(k, _ASKED_FOR)) if condition else (k,):
            # What changed since it was told may be among its results, and is compared anew.
            told = dict(index.nearest(vector, count + late))
            ids = json.dumps(list(told))
            known = dict(self._rows(f"SELECT key, id FROM crystals WHERE id {_LISTED}", ids))
            among = f"(id {_LISTED} OR id IN (SELECT id FROM to_index)) AND {condition or 'TRUE'}"
            keys, near = self._compare(vector, among, (ids, *values))
            exact = dict(zip(keys.tolist(), near.tolist(), strict=True))
            # Read last, because others may change crystals meanwhile.
            changed = {id_ for (id_,) in self._rows("SELECT id FROM to_index LIMIT ?", 2 * _LATE)}
            wrong = told.keys() - known.values() - changed
            if wrong or any(
                abs(cosine - told[known[key]]) > _TOLERANCE
                for key, cosine in exact.items()
                if key in known and known[key] not in changed
            ):
                index.failed = True
                raise StorageError("ChromaDB answers what state.db does not hold", "it is built anew")
            is_all = len(told) < count + late
            if is_all and len(told) + late < self._count("crystals WHERE vector IS NOT NULL", count - 1):
                index.failed = True
                raise StorageError("ChromaDB lacks records", "it is built anew")
            if len(exact) >= k or is_all:
                return _best(keys, near, k)
        return None

    def _count(self, rows: str, most: int, values: Sequence[object] = ()) -> int:
        """Count these rows, up to one more than `most`."""
        return int(self._rows(f"SELECT count(*) FROM (SELECT 1 FROM {rows} LIMIT {most + 1})", *values)[0][0])

    def _rows(self, statement: str, *values: object) -> list[Any]:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(statement, values).fetchall()


def _best(keys: "NDArray[np.int64]", near: "NDArray[np.float32]", k: int) -> dict[int, float]:
    """Return the k best of these rows; the order among equal ones is that of their rows."""
    import numpy as np

    if not (count := min(k, len(keys))):
        return {}
    top = np.flatnonzero(near >= np.partition(near, -count)[-count])
    best = top[np.lexsort((keys[top], -near[top]))][:count]
    return dict(zip(keys[best].tolist(), near[best].tolist(), strict=True))


def to_matrix(blobs: Sequence[bytes]) -> "NDArray[np.float32]":
    """Return stored vectors, one per row, in float32."""
    return widen(b"".join(blobs)).reshape(len(blobs), -1)


def widen(blob: bytes, room: "NDArray[np.int32] | None" = None) -> "NDArray[np.float32]":
    """Widen float16 to float32, in `room` if that is given.

    Five times as fast as numpy's own conversion: the bits of each number move to their places, and a multiplication
    corrects the exponent, whose bias is 15 in float16 and 127 in float32.
    """
    import numpy as np

    given = np.frombuffer(blob, "<i2")
    bits = np.empty(len(given), np.int32) if room is None else room[: len(given)]
    np.left_shift(given, 13, out=bits, dtype=np.int32)
    bits &= -0x70002000  # the copies of the sign
    found = bits.view(np.float32)
    found *= np.float32(2.0**112)
    return found


def cosines(rows: "NDArray[np.float32]", vector: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """Return the cosine of each row to the vector.

    A matrix product would let BLAS threads wait for each other: ten times as slow on a busy machine, and no faster on
    an idle one, because this runs at the speed of memory.
    """
    import numpy as np

    found: NDArray[np.float32] = np.vecdot(rows, vector)
    return found
