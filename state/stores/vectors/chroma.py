"""VectorIndex: a workspace's crystals in ChromaDB, with their texts, to find those nearest to a vector.

It is only a cache, and its files do not survive every kill. So a writer first records in state.db that it writes, and
afterwards that the files are whole: state.db and the folder then bear the same stamp (`index_state`). On any doubt
the folder is deleted unopened and rebuilt. A torn index may kill the process that opens it, so opening counts as
writing, and kills a process at most once. Each build has a folder of its own, because ChromaDB keeps an opened path
for the life of the process.
"""

import os
import re
import shutil
import stat
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from state.errors import StorageError
from state.stores.disk.disk import below, opened
from state.stores.disk.syscalls import storage_errors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# With ChromaDB's defaults (16, 100, 100), 92 % of the first ten results at 100,000 records agree with an exact
# search; with these values 99.7 %, for 1.7 times the time to insert.
HNSW = {"space": "cosine", "max_neighbors": 32, "ef_construction": 200, "ef_search": 200}
BATCH = 1000  # ChromaDB takes at most 5,461 records at once
COLLECTION = "crystals"
_PREFIX = "chroma-"
_STAMP = "stamp"
_BUILD = re.compile(rf"{_PREFIX}\w+", re.ASCII)
# hnswlib's header.bin: version, offset of level 0, capacity in records, number of records, bytes per record.
_HEADER = struct.Struct("<iQQQQ")
_GRAPH_VERSION = 1
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class Record:
    """What ChromaDB holds of a crystal; the vector is normalised."""

    id: str
    vector: "NDArray[np.float32]"
    text: str
    metadata: Mapping[str, str]


class VectorIndex:
    """ChromaDB over the files of one build, owned by one process. Several threads may query it, one may write.

    Methods raise StorageError if ChromaDB or the disk fails; from then on `failed` is set and the index is useless.
    """

    def __init__(self, build: Path) -> None:
        self.build = build
        self.failed = False
        self._closed = False
        with self._watched():
            self._client = _client(build)
            self._collection = self._client.get_or_create_collection(
                COLLECTION, embedding_function=None, configuration={"hnsw": HNSW}
            )

    def update(self, ids: Sequence[str], records: Sequence[Record]) -> None:
        """Hold these records, and nothing else under these ids; at most BATCH of them."""
        with self._watched():
            # Deleted and added again, because ChromaDB takes 12 to 70 ms to change a record in its graph.
            if known := self._collection.get(ids=list(ids), include=[])["ids"]:
                self._collection.delete(ids=known)
            if records:
                self._collection.add(
                    ids=[one.id for one in records],
                    embeddings=[one.vector for one in records],
                    documents=[one.text for one in records],
                    metadatas=[dict(one.metadata) for one in records],
                )

    def nearest(self, vector: "NDArray[np.float32]", k: int) -> list[tuple[str, float]]:
        """Return (crystal id, cosine) of up to k records, best first."""
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
        """Release the files; closing twice is harmless."""
        if not self._closed:
            self._closed = True
            with self._watched():
                self._client.close()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failed = not self._closed
            if self._closed:  # by another thread: the files are whole, and may belong to another process by now
                raise StorageError(f"{self.build}: it was closed meanwhile", "try again") from error
            raise StorageError(f"{self.build}: {' '.join(str(error).split())}", "it is built anew") from error


def _client(folder: Path) -> Any:  # noqa: ANN401 - ChromaDB's own annotation lacks close()
    """Return a client without telemetry, unaffected by any .env file in the working directory."""
    import chromadb
    from chromadb.config import Settings

    values: dict[str, Any] = {
        "_env_file": None,
        "chroma_api_impl": "chromadb.api.rust.RustBindingsAPI",
        "anonymized_telemetry": False,
        "chroma_otel_collection_endpoint": "",
    }
    with storage_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)  # ChromaDB would create its parents as well
    return chromadb.PersistentClient(path=str(folder), settings=Settings(**values))


# --- the folders of builds


def new_build(folder: Path) -> Path:
    """Create an empty folder for a build, deleting everything else there. Raise StorageError."""
    clear(folder)
    with storage_errors(folder):
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))


def clear(folder: Path, keep: str = "") -> None:
    """Delete every file and folder there except this build. Raise StorageError."""
    with storage_errors(folder):
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.is_dir() and not entry.is_symlink():
                if entry.name != keep:
                    shutil.rmtree(entry)
            else:
                entry.unlink()


def has_build(folder: Path, build: str, stamp: str) -> bool:
    """Return whether a build bears this name and stamp, and holds only regular files and folders."""
    path = folder / build
    if not stamp or not _BUILD.fullmatch(build) or path.is_symlink() or not path.is_dir():
        return False
    with storage_errors(path):
        modes = [entry.lstat().st_mode for entry in below(path)]
        is_ours = all(stat.S_ISREG(mode) or stat.S_ISDIR(mode) for mode in modes)
        return is_ours and (path / _STAMP).is_file() and (path / _STAMP).read_bytes() == stamp.encode()


def sync(build: Path) -> str:
    """Make these files, which nobody is writing, durable and private, with their unused space zeroed.

    Return the new stamp that they bear.
    """
    stamp = token_hex(16)
    with storage_errors(build):
        blank_rest(build)
        (build / _STAMP).write_text(stamp)
        for path in (*below(build), build):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                # ChromaDB creates its files with the umask's permissions.
                os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o700)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    return stamp


def blank_rest(build: Path) -> None:
    """Make the unused space of every graph below this folder zeros.

    hnswlib writes uninitialised memory into the space for future records: anything that the process had in it, such
    as a forgotten text or a redacted secret.
    """
    for header in build.rglob("header.bin"):
        with opened(header) as file:
            content = file.read(_HEADER.size)
        if len(content) < _HEADER.size:
            continue
        version, _, room, records, size = _HEADER.unpack(content)
        if version != _GRAPH_VERSION or records > room:  # another version of the library: do not touch its files
            continue
        for name, used in (("data_level0.bin", records * size), ("length.bin", records * _LENGTH_BYTES)):
            path = header.with_name(name)
            if path.exists() and (end := path.stat().st_size) > used:
                os.truncate(path, used)
                os.truncate(path, end)
