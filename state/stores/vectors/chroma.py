"""VectorIndex: finds the crystals nearest to a vector, with ChromaDB; it holds ids and vectors and nothing else.

It is never the only place of anything, and its embedded files do not survive every kill. A torn index may answer
wrongly only now and then, or kill whoever opens it, even after a sample of it was found right; and to look at all of
it takes as long as to build it again. So its files are sealed whenever a write has ended (see `sealed_folder`). With
the seal unbroken the index is opened, checked by a sample and completed from the truth, the vectors in state.db;
otherwise it is built again, without being opened.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from state.errors import StorageError
from state.stores.vectors.sealed_folder import IndexFolder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# With ChromaDB's defaults (16, 100, 100) the search agrees with an exact one on 92 % of the first ten at 100,000
# records; with these on 99.7 %, for 1.7 times the time to insert.
HNSW = {"space": "cosine", "max_neighbors": 32, "ef_construction": 200, "ef_search": 200}
BATCH = 1000  # ChromaDB takes at most 5,461 records at once
_UNSEALED = "a process ended while it wrote to it, or its files were changed or copied"
_SAMPLE = 32
_NEIGHBOURS = 10
# The search is approximate: of a sample of a sound index, one in so many may be missed.
_MISS_ONE_IN = 32
_SAME = 1e-3  # between a vector and itself, by number or by cosine; ChromaDB normalises what it is given


Check = Callable[[], None]


def unfenced() -> None:
    """The `check` of an index that no other process can take over."""


class Truth(Protocol):
    """The vectors that the index should hold."""

    def vector_count(self) -> int:
        """How many vectors there are."""

    def vector_sample(self, n: int) -> "list[tuple[str, NDArray[np.float32]]]":
        """Up to n vectors with their ids, spread over all."""

    def vector_batches(self, size: int) -> "Iterator[tuple[list[str], NDArray[np.float32]]]":
        """All vectors, at most `size` at once: ids and a matrix of as many rows."""


class Found(StrEnum):
    """The state of an index before it was opened."""

    NOTHING = "nothing"  # no index at all
    WHOLE = "whole"  # sealed, and not touched since
    BEHIND = "behind"  # sealed, and it lacks more than may be added now: a build was cut off
    UNSEALED = "unsealed"  # a process died while it wrote, or the files were changed or copied
    BROKEN = "broken"  # sealed, and yet not usable, or not this truth's


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What was found, what was wrong with it, and what was done about it. `records` is what the index holds now."""

    found: Found
    reason: str
    added: int
    removed: int
    records: int

    @property
    def rebuilt(self) -> bool:
        """Was it built from the truth alone?"""
        return self.found is not Found.WHOLE


class VectorIndex:
    """An open index, owned by one process; made by `open_index`. Several threads may use it.

    Between two calls the files are sealed: a death then costs nothing. Methods raise StorageError when ChromaDB or
    the disk fails: what was acknowledged stands in the truth, and opening the index again mends it. Those that write
    raise what `check` raises (FencedError) for who owns the workspace no longer, and have written nothing then.
    """

    def __init__(self, folder: IndexFolder, build: Path, collection: str, check: Check) -> None:
        self._folder = folder
        self._check = check
        self._build = build
        self._failed = False
        self._closed = False
        self._writing = Lock()
        # ChromaDB rewrites files as it opens them, and may be killed in the midst of that.
        folder.unseal()
        with self._watched():
            self._client = _client(build)
            self._collection = self._client.get_or_create_collection(
                collection, embedding_function=None, configuration={"hnsw": HNSW}
            )

    def upsert(self, ids: Sequence[str], vectors: "NDArray[np.float32]") -> None:
        """The index holds these vectors under these ids. (n, width), normalised; of an id given twice, the last."""
        rows = {name: row for row, name in enumerate(ids)}
        names = list(rows)
        for first in range(0, len(names), BATCH):
            batch = names[first : first + BATCH]
            self._put(batch, vectors[[rows[name] for name in batch]])

    def _put(self, ids: Sequence[str], vectors: "NDArray[np.float32]") -> None:
        missing, changed = self._differences(ids, vectors)
        # ChromaDB takes 12 to 70 ms to change a record in its graph, 2 ms to delete and add it.
        self.delete([ids[row] for row in changed])
        new = missing + changed
        if new:
            with self._write():
                self._collection.upsert(ids=[ids[row] for row in new], embeddings=vectors[new])

    def nearest(self, vector: "NDArray[np.float32]", k: int) -> list[tuple[str, float]]:
        """(crystal id, cosine) of up to k records, best first."""
        return self._search([vector], k)[0] if k > 0 else []

    def delete(self, ids: Sequence[str]) -> None:
        """The index holds none of these ids."""
        names = list(dict.fromkeys(ids))
        for first in range(0, len(names), BATCH):
            with self._write():
                self._collection.delete(ids=names[first : first + BATCH])

    def count(self) -> int:
        """How many records the index holds."""
        with self._watched():
            return int(self._collection.count())

    def ids(self) -> set[str]:
        """Every id in the index."""
        with self._watched():
            return set(self._collection.get(include=[])["ids"])

    def close(self) -> None:
        """Release the files. Closing twice is closing once."""
        with self._writing, self._watched():
            self._closed = True
            self._client.close()

    def fault(self, sample: "Sequence[tuple[str, NDArray[np.float32]]]") -> str:
        """What is wrong with the index, judged by records that it should hold; empty when nothing is.

        Each that it holds must be found by its own vector. That some are missing is no fault; that all are is one.
        """
        with self._watched():
            indexed = (
                set(self._collection.get(ids=[name for name, _ in sample], include=[])["ids"]) if sample else set()
            )
        if sample and not indexed:
            return f"holds none of {len(sample)} records that it should hold"
        known = [(name, vector) for name, vector in sample if name in indexed]
        found = self._search([vector for _, vector in known], _NEIGHBOURS)
        missed = [name for (name, _), near in zip(known, found, strict=True) if not _finds(name, near)]
        if len(missed) > len(known) // _MISS_ONE_IN:
            return f"{len(missed)} of {len(known)} records are not found by their own vectors"
        return ""

    def seal(self) -> None:
        """The files are durable and whole as they are. Once ChromaDB has failed, they stay unsealed."""
        if not self._failed:
            self._folder.seal(self._build)

    def _search(self, vectors: "Sequence[NDArray[np.float32]]", k: int) -> list[list[tuple[str, float]]]:
        if not vectors:
            return []
        with self._watched():
            found = self._collection.query(query_embeddings=list(vectors), n_results=k, include=["distances"])
        return [
            [(name, 1.0 - distance) for name, distance in zip(names, distances, strict=True)]
            for names, distances in zip(found["ids"], found["distances"], strict=True)
        ]

    def _differences(self, ids: Sequence[str], vectors: "NDArray[np.float32]") -> tuple[list[int], list[int]]:
        """The rows that the index has no record of, and those of which it holds another vector."""
        import numpy as np

        with self._watched():
            indexed = self._collection.get(ids=list(ids), include=["embeddings"])
        stored = dict(zip(indexed["ids"], indexed["embeddings"], strict=True))
        missing, changed = [], []
        for row, name in enumerate(ids):
            if name not in stored:
                missing.append(row)
            elif not np.allclose(stored[name], vectors[row], rtol=0.0, atol=_SAME):
                changed.append(row)
        return missing, changed

    @contextmanager
    def _write(self) -> Iterator[None]:
        with self._writing:
            # An owner that was stopped until now must write no more: the new one has the same files open.
            self._check()
            self._folder.unseal()
            with self._watched():
                yield
            self.seal()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._closed:  # by another thread: the files are whole, and may be another process's by now
                raise StorageError(f"{self._folder.path}: it was closed meanwhile", "try again") from error
            self._failed = True
            self._folder.unseal()
            where = self._folder.path
            raise StorageError(f"{where}: {' '.join(str(error).split())}", "restart to have it mended") from error


def open_index(
    folder: Path, collection: str, truth: Truth, check: Check = unfenced
) -> tuple[VectorIndex, IndexReport]:
    """The workspace's index, holding what the truth holds, and what it took to get there.

    The caller owns the workspace: no other process has the folder open. `collection`: 3 to 512 characters of
    [a-zA-Z0-9._-]; `check` raises when the caller owns it no longer, and is asked before each write. Raises
    StorageError when the disk refuses or a new index cannot be built.
    """
    index, report = open_whole(folder, collection, truth, check)
    return (index, report) if index is not None else build_index(folder, collection, truth, report, check)


def open_whole(
    folder: Path, collection: str, truth: Truth, check: Check = unfenced, most: int | None = None
) -> tuple[VectorIndex | None, IndexReport]:
    """The index if it is whole; else None and a report: it has to be built, which may take minutes.

    It is completed, unless it lacks more than `most` records.
    """
    home = IndexFolder(folder)
    build = home.build()
    if build is None:
        return None, IndexReport(Found.NOTHING, "", 0, 0, 0)
    if not home.sealed(build):
        return None, IndexReport(Found.UNSEALED, _UNSEALED, 0, 0, 0)
    check()
    try:
        index = VectorIndex(home, build, collection, check)
    except StorageError as error:
        return None, IndexReport(Found.BROKEN, str(error), 0, 0, 0)
    try:
        reason = index.fault(truth.vector_sample(_SAMPLE))
        if not reason:
            count, wanted = index.count(), truth.vector_count()
            if most is not None and wanted - count > most:
                index.seal()
                index.close()
                return None, IndexReport(Found.BEHIND, "", 0, 0, count)
            behind = count != wanted
            added, removed = _match(index, truth, trusted=index.ids()) if behind else (0, 0)
            index.seal()
            return index, IndexReport(Found.WHOLE, "", added, removed, index.count())
    except StorageError as error:
        reason = str(error)
    except BaseException:
        index.close()
        raise
    with suppress(StorageError):  # it may refuse even this, and is deleted next
        index.close()
    return None, IndexReport(Found.BROKEN, reason, 0, 0, 0)


def is_whole(folder: Path) -> bool:
    """Whether the files are those that were sealed, so that `open_whole` opens them. Nothing is written."""
    home = IndexFolder(folder)
    build = home.build()
    return build is not None and home.sealed(build)


def build_index(
    folder: Path, collection: str, truth: Truth, instead_of: IndexReport, check: Check = unfenced
) -> tuple[VectorIndex, IndexReport]:
    """An index built from the truth alone, in place of what `open_whole` has found."""
    home = IndexFolder(folder)
    check()
    index = VectorIndex(home, home.new_build(), collection, check)
    try:
        added, removed = _match(index, truth, trusted=set())
        index.seal()
        return index, IndexReport(instead_of.found, instead_of.reason, added, removed, index.count())
    except BaseException:
        index.close()
        raise


def _match(index: VectorIndex, truth: Truth, trusted: set[str]) -> tuple[int, int]:
    """Add what the index lacks and delete what the truth lacks; returns how many of each.

    The index's vectors of the `trusted` ids are not compared with the truth's. Raises StorageError when the index
    does not hold what it was given.
    """
    before = index.count()
    wanted: set[str] = set()
    for ids, vectors in truth.vector_batches(BATCH):
        rows = [row for row, name in enumerate(ids) if name not in trusted]
        if rows:
            index.upsert([ids[row] for row in rows], vectors[rows])
        wanted.update(ids)
    added = index.count() - before
    extra = sorted(index.ids() - wanted)
    index.delete(extra)
    if index.count() != len(wanted):
        raise StorageError(
            f"the index counts {index.count()} records where {len(wanted)} should be", "run 'dreamd doctor'"
        )
    return added, len(extra)


def _finds(name: str, near: list[tuple[str, float]]) -> bool:
    for other, cosine in near:
        if other == name:
            return cosine > 1.0 - _SAME
    # More records than were asked for have this very vector.
    return len(near) == _NEIGHBOURS and near[-1][1] > 1.0 - _SAME


def _client(folder: Path) -> Any:  # noqa: ANN401 - ChromaDB's own annotation lacks close()
    """A client without telemetry, which no .env file in the working directory changes."""
    import chromadb
    from chromadb.config import Settings

    values: dict[str, Any] = {
        "_env_file": None,
        "chroma_api_impl": "chromadb.api.rust.RustBindingsAPI",
        "anonymized_telemetry": False,
        "chroma_otel_collection_endpoint": "",
    }
    return chromadb.PersistentClient(path=str(folder), settings=Settings(**values))
