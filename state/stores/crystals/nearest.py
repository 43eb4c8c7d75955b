"""Nearest: the crystals nearest to vectors, exactly: by the vector file, and by state.db what the file lacks.

The file (`state.stores.vectors.vector_file`) is compared as a whole, and a filter is asked about the best of it
alone, or, when it lets little pass, lists what passes. No way reads every vector from state.db: where the file is
missing, the latest are compared, and an index that is open is asked. Which rows of the file may differ from state.db
stands in the queue `to_file`.
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Protocol

from state.stores.database.connection import transaction
from state.stores.database.meta import Meta
from state.stores.vectors.vector_file import VectorFile, fits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# So many vectors are read from state.db by a search at most; a store of fewer needs no file for the sake of time.
COMPARED = 5_000
# From so many crystals on there is a file: to compare fewer takes a millisecond or two.
FILED_FROM = 1_000
# Above that many an open index answers what is asked without a filter; up to there the file is quick, and exact.
SCANNED_UP_TO = 200_000
# Of the best in meaning so many are looked at for those that pass a filter, before all that pass are listed.
_TRIED = (300, 2_400)
# So many are asked of an index, which knows nothing of filters, where there is no file.
_ASKED_FOR = 2_400
_BATCH = 2_048
# So many vectors are compared with the file at once, which reads it once for all of them.
_VECTORS_AT_ONCE = 16
# A block that fits the processor's cache is compared three times as fast as one that does not.
_ROWS_AT_ONCE = 512
# In `meta`: the generation of the file, and how many batches were written into it.
VECTOR_FILE = "vector_file"
_LISTED = "IN (SELECT value FROM json_each(?))"


class Index(Protocol):
    """An index beside the file; `state.stores.vectors.chroma.VectorIndex` is one."""

    def upsert(self, ids: Sequence[str], vectors: "NDArray[np.float32]") -> None: ...
    def nearest(self, vector: "NDArray[np.float32]", k: int) -> list[tuple[str, float]]: ...


class Nearest:
    """Compares vectors with those of one workspace. `file` is where its vector file is, if it may have one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._meta = Meta(connection)
        self.file: VectorFile | None = None

    def is_filed(self) -> bool:
        """Whether the file holds all but a few of the vectors."""
        return self._filed() is not None and self._waiting() <= COMPARED

    def to(
        self,
        vectors: "NDArray[np.float32]",
        k: int,
        condition: str = "",
        values: Sequence[object] = (),
        index: Index | None = None,
    ) -> list[dict[int, float]]:
        """For each of these vectors the k nearest rows with their cosines, the nearest first.

        `condition` is SQL over the table `crystals`. Without a file only the latest vectors are compared, beside what
        the index answers.
        """
        import numpy as np

        # The generation is read with the queue, for a new one has nothing in it yet.
        generation, batches, waiting = self._queue()
        rows = self._filed_as(generation, batches)
        whole = rows is not None and len(waiting) <= COMPARED
        if index is not None and (not whole or (not condition and self._newest() > SCANNED_UP_TO)):
            return [self._asked(index, vector, k, condition, values) for vector in vectors]
        if rows is None:
            return self.compared(vectors, k, self._latest(condition), values)
        found = self._scanned(rows, vectors, waiting, k, condition, values)
        if not len(waiting):
            return [_best(one, k) for one in found]
        # Those that waited when the file was read, whether or not they wait still.
        listed = json.dumps(np.sort(waiting)[-COMPARED:].tolist())
        late = f"{condition} AND crystals.key {_LISTED}" if condition else f"crystals.key {_LISTED}"
        more = self.compared(vectors, k, late, (*values, listed))
        return [_best(one | other, k) for one, other in zip(found, more, strict=True)]

    def compared(
        self, vectors: "NDArray[np.float32]", k: int, condition: str = "", values: Sequence[object] = ()
    ) -> list[dict[int, float]]:
        """The same for the rows that pass the condition, whose vectors are all read from state.db."""
        where = f" WHERE crystal IN (SELECT key FROM crystals WHERE {condition})" if condition else ""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        cursor.execute(f"SELECT crystal, vector FROM vectors{where}", tuple(values))
        best: list[dict[int, float]] = [{} for _ in vectors]
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            block = matrix([row[1] for row in rows])
            for place, vector in enumerate(vectors):
                one = cosines(block, vector)
                top = (-one).argsort(kind="stable")[:k].tolist()
                best[place] = _best(best[place] | {int(rows[at][0]): float(one[at]) for at in top}, k)
        return best

    def write_file(self, check: Callable[[], None]) -> int:
        """Write what waits into the file, a batch at most, and begin one where it is wanted; how many rows that were.

        `check` raises for who owns the workspace no longer. Raises StorageError when the disk refuses.
        """
        if self.file is None:
            return 0
        self.file.close_lost()
        if not (self._waits() if self._filed() is not None else self._wanted()):
            return 0
        # In a transaction, so that no vector changes between reading it and taking it from the queue.
        with transaction(self._connection) as connection:
            check()
            if self._filed() is None and not self._begun():
                return 0
            generation, batches = self._stamp()
            rows = connection.execute(
                "SELECT q.crystal, v.vector FROM to_file q LEFT JOIN vectors v ON v.crystal = q.crystal"
                " ORDER BY q.crystal LIMIT ?",
                (_BATCH,),
            ).fetchall()
            if not rows:
                return 0
            if not self.file.write({int(row[0]): row[1] for row in rows}, batches + 1):
                self._meta.remove(VECTOR_FILE)  # the next call begins anew
                return 0
            connection.execute("DELETE FROM to_file WHERE crystal <= ?", (rows[-1][0],))
            self._meta.put(VECTOR_FILE, f"{generation} {batches + 1}")
        return len(rows)

    def _begun(self) -> bool:
        """Begin a new file, for which everything waits; whether one is wanted. In the caller's transaction."""
        if self.file is None or not self._wanted():
            return False
        (width,) = self._connection.execute("SELECT length(vector) / 4 FROM vectors LIMIT 1").fetchone()
        generation = token_hex(16)
        # The file comes first: one that state.db does not know is none.
        self.file.create(generation, int(width))
        self._connection.execute("DELETE FROM to_file")
        self._connection.execute(
            "INSERT INTO to_file SELECT key FROM crystals WHERE key NOT IN (SELECT crystal FROM to_embed)"
        )
        self._meta.put(VECTOR_FILE, f"{generation} 0")
        return self._filed() is not None

    def _wanted(self) -> bool:
        newest = self._newest()
        if newest < FILED_FROM or self._connection.execute("SELECT 1 FROM vectors LIMIT 1").fetchone() is None:
            return False
        return fits(newest, self._connection.execute("SELECT count(*) FROM crystals").fetchone()[0])

    def _stamp(self) -> tuple[str, int]:
        return _read_stamp(self._meta.get(VECTOR_FILE))

    def _filed(self) -> "NDArray[np.float32] | None":
        """The rows of the file, if there is one that state.db knows."""
        return self._filed_as(*self._stamp())

    def _filed_as(self, generation: str, batches: int) -> "NDArray[np.float32] | None":
        return self.file.rows(generation, batches) if self.file is not None and generation else None

    def _queue(self) -> "tuple[str, int, NDArray[np.int64]]":
        """The generation of the file, how many batches are in it, and the rows that wait for it, as of one moment."""
        listing = "SELECT (SELECT value FROM meta WHERE name = ?), (SELECT group_concat(crystal) FROM to_file)"
        stamp, waiting = self._connection.execute(listing, (VECTOR_FILE,)).fetchone()
        return *_read_stamp(stamp), _read_numbers(waiting)

    def _waits(self) -> bool:
        return self._connection.execute("SELECT 1 FROM to_file LIMIT 1").fetchone() is not None

    def _waiting(self) -> int:
        """How many rows wait for the file; no more than one more than are compared are counted."""
        counting = f"SELECT count(*) FROM (SELECT 1 FROM to_file LIMIT {COMPARED + 1})"
        return int(self._connection.execute(counting).fetchone()[0])

    def _newest(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(key), 0) FROM crystals").fetchone()[0])

    def _scanned(
        self,
        rows: "NDArray[np.float32]",
        vectors: "NDArray[np.float32]",
        waiting: "NDArray[np.int64]",
        k: int,
        condition: str,
        values: Sequence[object],
    ) -> list[dict[int, float]]:
        import numpy as np

        listed = self._listed(condition, values, COMPARED) if condition else None
        if listed is not None and len(listed) <= COMPARED:
            listed = np.setdiff1d(listed[listed < len(rows)], waiting, assume_unique=True)
            return [_top(cosines(rows[listed], vector), rows, k, listed) for vector in vectors]
        found = []
        for first in range(0, len(vectors), _VECTORS_AT_ONCE):
            several = vectors[first : first + _VECTORS_AT_ONCE]
            for near in [cosines(rows, several[0])] if len(several) == 1 else np.asarray(rows @ several.T).T:
                near[waiting[waiting < len(rows)]] = np.nan
                found.append(self._passing(rows, near, k, condition, values))
        return found

    def _passing(
        self,
        rows: "NDArray[np.float32]",
        near: "NDArray[np.float32]",
        k: int,
        condition: str,
        values: Sequence[object],
    ) -> dict[int, float]:
        """The k best rows that pass the condition: those of the best rows that do, if that is enough; else of all."""
        if not condition:
            return _top(near, rows, k)
        statement = f"SELECT key FROM crystals WHERE key {_LISTED} AND {condition}"
        for count in _TRIED:
            best = _top(near, rows, max(k, count))
            passing = self._connection.execute(statement, (json.dumps(list(best)), *values))
            found = {int(row[0]) for row in passing}
            if len(found) >= k or len(best) < count:
                return _best({key: best[key] for key in found}, k)
        listed = self._listed(condition, values)
        listed = listed[listed < len(rows)]
        return _top(near[listed], rows, k, listed)

    def _listed(self, condition: str, values: Sequence[object], most: int | None = None) -> "NDArray[np.int64]":
        """The rows that pass the condition; of more than `most` one more than that."""
        limit = "" if most is None else f" LIMIT {most + 1}"
        return self._numbers(f"SELECT key FROM crystals {_hint(condition)} WHERE {condition}{limit}", values)

    def _numbers(self, statement: str, values: Sequence[object]) -> "NDArray[np.int64]":
        """The numbers that a statement answers, which SQLite writes into one text: that is the quickest way."""
        listing = f"WITH found (number) AS ({statement}) SELECT group_concat(number) FROM found"
        (text,) = self._connection.execute(listing, tuple(values)).fetchone()
        return _read_numbers(text)

    def _latest(self, condition: str) -> str:
        """The condition of the latest rows among those that pass it."""
        if not condition:
            newest = self._newest()
            return f"crystals.key > {newest - COMPARED}" if newest > COMPARED else ""
        latest = f"SELECT key FROM crystals {_hint(condition)} WHERE {condition} ORDER BY created_at DESC"
        return f"crystals.key IN ({latest} LIMIT {COMPARED})"

    def _asked(
        self, index: Index, vector: "NDArray[np.float32]", k: int, condition: str, values: Sequence[object]
    ) -> dict[int, float]:
        """What the index answers, and among the vectors that it does not hold yet, the latest exactly."""
        late = f"crystals.key IN (SELECT crystal FROM to_index ORDER BY crystal DESC LIMIT {COMPARED})"
        if condition:
            listed = self._listed(condition, values, COMPARED)
            if len(listed) <= COMPARED:
                return self.compared(vector[None], k, f"crystals.key {_LISTED}", (json.dumps(listed.tolist()),))[0]
            late = f"{condition} AND {late}"
        cosines = dict(index.nearest(vector, max(k, _ASKED_FOR) if condition else k))
        statement = f"SELECT key, id FROM crystals WHERE id {_LISTED}" + (f" AND {condition}" if condition else "")
        rows = self._connection.execute(statement, (json.dumps(list(cosines)), *values))
        known = {int(row["key"]): cosines[row["id"]] for row in rows}
        return _best(known | self.compared(vector[None], k, late, values)[0], k)


def matrix(blobs: Sequence[bytes]) -> "NDArray[np.float32]":
    """Vectors as state.db keeps them, one a row."""
    import numpy as np

    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(len(blobs), -1)


def cosines(rows: "NDArray[np.float32]", vector: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """How near each row is to the vector.

    Not by a product of matrices, for which BLAS would have its threads wait for each other: on a busy machine that
    takes ten times as long, and on an idle one no less than this, which is as quick as memory is read.
    """
    import numpy as np

    found: NDArray[np.float32] = np.vecdot(rows, vector)
    return found


def _read_stamp(kept: str | None) -> tuple[str, int]:
    generation, _, batches = (kept or "").partition(" ")
    return (generation, int(batches)) if batches.isdecimal() else ("", 0)


def _read_numbers(text: str | None) -> "NDArray[np.int64]":
    """The numbers that SQLite has written into one text; there may be none."""
    import numpy as np

    return np.fromstring(text, dtype=np.int64, sep=",") if text else np.empty(0, dtype=np.int64)


def _hint(condition: str) -> str:
    # A session's rows are looked up; for the rest SQLite would choose an index that makes it read the rows.
    return "" if "occurrences" in condition else "INDEXED BY crystals_by_time"


def _best(found: dict[int, float], k: int) -> dict[int, float]:
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:k])


def _top(
    near: "NDArray[np.float32]",
    rows: "NDArray[np.float32]",
    k: int,
    keys: "NDArray[np.int64] | None" = None,
) -> dict[int, float]:
    """The k rows of the highest cosines, the highest first. Rows without a vector, with the cosine 0, are left out.

    `keys` are the numbers of the rows whose cosines these are; without them it is of every row.
    """
    import numpy as np

    cost = -near
    for has_holes in (True, False):
        at = np.argpartition(cost, k)[:k] if k < len(cost) else np.arange(len(cost))
        if has_holes and not cost[at].all():
            zero = np.flatnonzero(cost == 0.0)
            numbers = zero if keys is None else keys[zero]
            cost[zero[~rows[numbers].any(axis=1)]] = np.nan
        else:
            break
    numbers = at if keys is None else keys[at]
    found = zip(numbers.tolist(), near[at].tolist(), cost[at].tolist(), strict=True)
    return _best({key: cosine for key, cosine, one in found if one == one}, k)  # noqa: PLR0124 - what is no number
