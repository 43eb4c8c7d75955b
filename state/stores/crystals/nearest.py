"""Nearest: the crystals nearest to vectors: exactly, by reading vectors.db, or in a large store by asking ChromaDB.

Neither knows of filters: a filter is asked about the best, or, when it lets little pass, lists what is compared.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from state.errors import StorageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Up to so many crystals all vectors are read, which takes a millisecond or two; above, ChromaDB is asked where there
# is one.
SCANNED_UP_TO = 2_000
# Where ChromaDB is to be asked and cannot, so many of the latest are compared.
LATEST = 10_000
# Of a filter that lets no more pass than this, what passes is compared.
_LISTED_UP_TO = 5_000
_RARE = 1_000
# So many times as many as are wanted are asked of ChromaDB for a filter, and then so many.
_ASKED_TIMES, _ASKED_FOR = 3, 2_400
# So many vectors are compared at once, which reads the others once for all of them.
_VECTORS_AT_ONCE = 64
# A block that fits the processor's cache is compared three times as fast as one that does not.
_ROWS_AT_ONCE = 512
# A command keeps so many vectors in its memory, 30 MB.
_KEPT_UP_TO = 20_000
_ALL = "key > 0"
_MORE, _TIMES = 50, 8
_SAME = 1e-2  # between two ways to compute a cosine
_LISTED = "IN (SELECT value FROM json_each(?))"
_HAVE_VECTORS = "crystals.key NOT IN (SELECT crystal FROM to_embed)"

_Compared = list["tuple[NDArray[np.int64], NDArray[np.float32]]"]


class ChromaIndex(Protocol):
    """An index beside vectors.db; `state.stores.vectors.chroma.VectorIndex` is one."""

    failed: bool

    def nearest(self, vector: "NDArray[np.float32]", k: int) -> list[tuple[str, float]]: ...


class Reading(Protocol):
    """Asks vectors.db, as `CrystalVectors.reading` does."""

    def __call__(self, ask: Callable[[sqlite3.Connection], _Compared], /) -> _Compared | None: ...


class Nearest:
    """Compares vectors with those of one workspace. Of a large store at most the `latest` so many; None: all."""

    def __init__(self, connection: sqlite3.Connection, reading: Reading) -> None:
        self._connection = connection
        self._reading = reading
        self.latest: int | None = None
        self._kept: tuple[tuple[str, str, int], list[tuple[NDArray[np.int64], NDArray[np.float32]]]] | None = None

    def to(
        self,
        vectors: "NDArray[np.float32]",
        k: int,
        condition: str = "",
        values: Sequence[object] = (),
        index: ChromaIndex | None = None,
    ) -> list[dict[int, float]]:
        """For each of these vectors the k nearest rows with their cosines, the nearest first.

        `condition` is SQL over the table `crystals`. `index` is asked unless the store is small, or little passes.
        """
        listed = self._listed(condition, values) if condition else None
        is_listed, newest = listed is not None and len(listed) <= _LISTED_UP_TO, self._newest()
        # Of what passes ChromaDB answers so many, if it is spread evenly.
        is_rare = listed is not None and (len(listed) <= _RARE or len(listed) * _ASKED_FOR < 2 * k * newest)
        if index is not None and not index.failed and newest > SCANNED_UP_TO and not (is_listed and is_rare):
            try:
                return [self._asked(index, vector, k, condition, values) for vector in vectors]
            except StorageError:
                index.failed = True  # it is built anew by who keeps it; until then all is as without it
        if is_listed:
            where, given = f"key {_LISTED}", [json.dumps(listed)]
        else:
            where, given = _ALL if self.latest is None else f"key > {newest - self.latest}", []
        found: list[dict[int, float]] = []
        for first in range(0, len(vectors), _VECTORS_AT_ONCE):
            several = vectors[first : first + _VECTORS_AT_ONCE]
            compared = self._compared(several, where, given)
            found += [self._passing(keys, near, k, condition, values) for keys, near in compared]
        return found

    def _compared(self, vectors: "NDArray[np.float32]", where: str, given: Sequence[object]) -> _Compared:
        """For each of the vectors the cosines of all that are read, with their rows."""
        import numpy as np

        def ask(file: sqlite3.Connection) -> _Compared:
            keys, near = [np.empty(0, np.int64)], [np.empty((len(vectors), 0), np.float32)]
            for some, block in self._blocks(file, where, given, 1 if len(vectors) == 1 else 8):
                keys.append(some)
                near.append(cosines(block, vectors[0])[None] if len(vectors) == 1 else vectors @ block.T)
            every, found = np.concatenate(keys), np.concatenate(near, axis=1)
            if not np.all(np.abs(found) <= 1 + _SAME):
                raise ValueError("vectors.db holds what is no vector")
            return [(every, one) for one in found]

        return self._reading(ask) or [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in vectors]

    def _blocks(
        self, file: sqlite3.Connection, where: str, given: Sequence[object], times: int
    ) -> "Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]":
        """Rows with their vectors, so many at once as the processor's cache holds, or as many times that.

        A command asks some forty times in a dream: it keeps what it has read for as long as nobody writes.
        """
        import numpy as np

        mark = (where, *file.execute("SELECT token, written FROM about").fetchone())
        if self._kept is not None and self._kept[0] == mark:
            yield from self._kept[1]
            return
        blocks: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
        left = _KEPT_UP_TO if where == _ALL and self.latest is None else 0
        cursor = file.execute(f"SELECT key, vector FROM vectors WHERE {where}", given)
        while rows := cursor.fetchmany(_ROWS_AT_ONCE * times):
            block = np.fromiter((row[0] for row in rows), np.int64, len(rows)), matrix([row[1] for row in rows])
            left -= len(rows)
            if left >= 0:
                blocks.append(block)
            yield block
        if where == _ALL:
            self._kept = (mark, blocks) if left >= 0 else None

    def _passing(
        self,
        keys: "NDArray[np.int64]",
        near: "NDArray[np.float32]",
        k: int,
        condition: str,
        values: Sequence[object],
    ) -> dict[int, float]:
        """Return the k best rows whose crystals are there and pass: those of the best that do, if that is enough."""
        import numpy as np

        count = k + _MORE
        while True:
            best = np.argpartition(-near, count)[:count] if count < len(near) else np.arange(len(near))
            cosine = dict(zip(keys[best].tolist(), near[best].tolist(), strict=True))
            passing = self._numbers(
                f"SELECT key FROM crystals WHERE key {_LISTED} AND {_HAVE_VECTORS}" + _and(condition),
                (json.dumps(list(cosine)), *values),
            )
            if len(passing) >= k or count >= len(near):
                return _best({key: cosine[key] for key in passing}, k)
            count *= _TIMES

    def _listed(self, condition: str, values: Sequence[object]) -> list[int]:
        """Return the rows that pass the condition; of more than are compared one more than that."""
        # A session's rows are looked up; for the rest SQLite would choose an index that makes it read the rows.
        hint = "" if "occurrences" in condition else "INDEXED BY crystals_by_time"
        return self._numbers(f"SELECT key FROM crystals {hint} WHERE {condition} LIMIT {_LISTED_UP_TO + 1}", values)

    def _numbers(self, statement: str, values: Sequence[object]) -> list[int]:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return [int(row[0]) for row in cursor.execute(statement, tuple(values))]

    def _newest(self) -> int:
        return self._numbers("SELECT coalesce(max(key), 0) FROM crystals", ())[0]

    def _asked(
        self, index: ChromaIndex, vector: "NDArray[np.float32]", k: int, condition: str, values: Sequence[object]
    ) -> dict[int, float]:
        """Return what ChromaDB answers, and of the vectors that it does not hold yet the latest exactly."""
        for count in (_ASKED_TIMES * k, max(k, _ASKED_FOR)) if condition else (k,):
            cosine = dict(index.nearest(vector, count))
            rows = self._connection.execute(
                f"SELECT key, id FROM crystals WHERE id {_LISTED} AND {_HAVE_VECTORS}{_and(condition)}",
                (json.dumps(list(cosine)), *values),
            )
            known = {int(key): cosine[id_] for key, id_ in map(tuple, rows)}
            if len(known) >= k:
                break
        best = next(iter(_best(known, 1)), None)
        if best is not None:
            ((_, exact),) = self._compared(vector[None], "key = ?", (best,))
            if not len(exact) or abs(float(exact[0]) - known[best]) > _SAME:
                raise StorageError("ChromaDB answers what vectors.db does not hold", "it is built anew")
        elif cosine and not condition:
            raise StorageError("ChromaDB knows no crystal of these", "it is built anew")
        late = f"key IN (SELECT key FROM to_index ORDER BY key DESC LIMIT {_LISTED_UP_TO})"
        ((keys, near),) = self._compared(vector[None], late, ())
        return _best(known | self._passing(keys, near, k, condition, values), k)


def matrix(blobs: Sequence[bytes]) -> "NDArray[np.float32]":
    """Vectors as the database keeps them, one a row. Raises ValueError if they are not of one width."""
    import numpy as np

    if len({len(blob) for blob in blobs}) > 1:
        raise ValueError("vectors of several widths")
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)


def cosines(rows: "NDArray[np.float32]", vector: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """Return how near each row is to the vector.

    Not by a product of matrices, for which BLAS would have its threads wait for each other: on a busy machine that
    takes ten times as long, and on an idle one no less than this, which is as quick as memory is read.
    """
    import numpy as np

    found: NDArray[np.float32] = np.vecdot(rows, vector)
    return found


def _and(condition: str) -> str:
    return f" AND {condition}" if condition else ""


def _best(found: dict[int, float], k: int) -> dict[int, float]:
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:k])
