"""VectorIndex: every crystal of one workspace in ChromaDB, with its text, to find those nearest to a vector.

It is never the only place of anything, and its files do not survive every kill: who writes into them says so in
state.db before, and that they are whole afterwards (`index_state`). On any doubt the folder is deleted unopened and
built again. A torn index may kill whoever opens it; so opening is writing, and kills a process at most once.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from state.errors import StorageError
from state.stores.disk.syscalls import storage_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# With ChromaDB's defaults (16, 100, 100) the search agrees with an exact one on 92 % of the first ten at 100,000
# records; with these on 99.7 %, for 1.7 times the time to insert.
HNSW = {"space": "cosine", "max_neighbors": 32, "ef_construction": 200, "ef_search": 200}
BATCH = 1000  # ChromaDB takes at most 5,461 records at once
_COLLECTION = "crystals"


class VectorIndex:
    """ChromaDB over the files of one build, owned by one process. Several threads may ask it, one may write.

    Methods raise StorageError when ChromaDB or the disk fails; `failed` says that it did, and that it is of no use.
    """

    def __init__(self, build: Path) -> None:
        self.build = build
        self.failed = False
        self._closed = False
        with self._watched():
            self._client = _client(build)
            self._collection = self._client.get_or_create_collection(
                _COLLECTION, embedding_function=None, configuration={"hnsw": HNSW}
            )

    def add(
        self,
        ids: Sequence[str],
        vectors: "NDArray[np.float32]",
        texts: Sequence[str],
        metadata: Sequence[Mapping[str, str]],
    ) -> None:
        """Hold these records too. (n, width), normalised; what is there already stays as it is."""
        for first in range(0, len(ids), BATCH):
            with self._watched():
                # ChromaDB takes 12 to 70 ms to change a record in its graph.
                known = set(self._collection.get(ids=list(ids[first : first + BATCH]), include=[])["ids"])
                new = [row for row in range(first, min(first + BATCH, len(ids))) if ids[row] not in known]
                if new:
                    self._collection.add(
                        ids=[ids[row] for row in new],
                        embeddings=vectors[new],
                        documents=[texts[row] for row in new],
                        metadatas=[dict(metadata[row]) for row in new],
                    )

    def nearest(self, vector: "NDArray[np.float32]", k: int) -> list[tuple[str, float]]:
        """(crystal id, cosine) of up to k records, best first."""
        if k < 1:
            return []
        with self._watched():
            found = self._collection.query(query_embeddings=[vector], n_results=k, include=["distances"])
        return [(name, 1.0 - far) for name, far in zip(found["ids"][0], found["distances"][0], strict=True)]

    def count(self) -> int:
        """Return how many records the index holds."""
        with self._watched():
            return int(self._collection.count())

    def close(self) -> None:
        """Release the files. Closing twice is closing once."""
        if not self._closed:
            self._closed = True
            with self._watched():
                self._client.close()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failed = True
            if self._closed:  # by another thread: the files are whole, and may be another process's by now
                raise StorageError(f"{self.build}: it was closed meanwhile", "try again") from error
            raise StorageError(f"{self.build}: {' '.join(str(error).split())}", "it is built anew") from error


def _client(folder: Path) -> Any:  # noqa: ANN401 - ChromaDB's own annotation lacks close()
    """Return a client without telemetry, which no .env file in the working directory changes."""
    import chromadb
    from chromadb.config import Settings

    values: dict[str, Any] = {
        "_env_file": None,
        "chroma_api_impl": "chromadb.api.rust.RustBindingsAPI",
        "anonymized_telemetry": False,
        "chroma_otel_collection_endpoint": "",
    }
    with storage_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)  # ChromaDB would make the folders above it as well
    return chromadb.PersistentClient(path=str(folder), settings=Settings(**values))
