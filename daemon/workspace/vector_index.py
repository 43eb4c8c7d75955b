"""Vector index: the embedding model of the process, and the vector file and open ChromaDB index of one workspace.

The model is loaded once for all workspaces. ChromaDB's folder is opened once in a process, whoever asks: two clients
of one folder lose hits. A file or an index that is missing and large is made in the background, where somebody waits
for answers.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock, Thread
from typing import Self

from daemon.workspace.cached_embedder import CachedEmbedder
from state.errors import StoppedError
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.nearest import COMPARED
from state.stores.database.connection import open_database
from state.stores.disk.workspace import Workspace
from state.stores.vectors.chroma import VectorIndex, build_index, open_index, open_whole
from state.stores.vectors.embedder import Embedder, Unavailable, open_embedder
from state.stores.vectors.vector_file import NAME, VectorFile

# Up to so many vectors, reading them all from state.db is quicker than starting ChromaDB, and building is quick.
EXACT_SEARCH_UP_TO = COMPARED
_RETRY_SECONDS = 60.0
_COLLECTION = "crystals"
UNFILED = f"searches compare the latest {COMPARED:,} vectors, and those of what has the words that are asked for,"
# Who closes an index that is being built waits for so long at most: for its batch, a second or two.
_GIVING_UP_SECONDS = 10.0


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where derived files that can be made again are kept."""
    named = Path(environment.get("XDG_CACHE_HOME", ""))
    # Of the XDG specification: a path that is not absolute is ignored.
    return (named if named.is_absolute() else Path.home() / ".cache") / "dreamd"


class Embedding:
    """The embedding model, loaded on demand, or the reason why there is none. Several threads may use it."""

    def __init__(self, *, download: bool, model: Path | None = None) -> None:
        self._download = download
        self._model = model
        self._found: Embedder | Unavailable | None = None
        self._asked_at = 0.0
        self._again_at = 0.0  # monotonic; one that was not there is looked for again
        self._loading = Lock()

    @classmethod
    def given(cls, found: Embedder | Unavailable) -> Self:
        """An embedding with this model, or known to have none."""
        embedding = cls(download=False)
        embedding._found, embedding._again_at = found, float("inf")
        return embedding

    def get(self) -> Embedder | Unavailable:
        """The model, or the reason why there is none."""
        with self._loading:
            self._asked_at = time.monotonic()
            if self._found is None or (isinstance(self._found, Unavailable) and self._asked_at >= self._again_at):
                # It may be installed meanwhile. The network is asked once: it may keep everybody waiting.
                download, self._download = self._download, False
                found = open_embedder(cache_folder(os.environ), download=download, model=self._model)
                self._found = found if isinstance(found, Unavailable) else CachedEmbedder(found)
                self._again_at = time.monotonic() + _RETRY_SECONDS
            return self._found

    def try_again(self, *, download: bool) -> None:
        """Look for a missing model again at the next call; with `download`, on the network as well."""
        with self._loading:
            self._download, self._again_at = download, 0.0

    def forget_texts(self) -> None:
        """Drop the cached vectors of texts."""
        with self._loading:
            if isinstance(self._found, CachedEmbedder):
                self._found.forget()

    def rest(self, unused_seconds: float) -> bool:
        """Unload a model that was unused for so long; whether one was. Whoever uses it still keeps it."""
        with self._loading:
            unused = time.monotonic() - self._asked_at
            if self._found is None or isinstance(self._found, Unavailable) or unused < unused_seconds:
                return False
            self._found = None
            return True


class Indexing:
    """The vector file and index of one workspace, opened on demand.

    `check` raises when this process owns the workspace no longer. `background`: a large index is built in a thread of
    its own, and there is none until that has ended; so is a file that a search misses.
    """

    def __init__(
        self,
        workspace: Workspace,
        check: Callable[[], None],
        *,
        background: bool = False,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        self._workspace = workspace
        self._check = check
        self._background = background
        self._failed = failed
        self._index: VectorIndex | None = None
        self._opening = Lock()
        self._builder: Thread | None = None
        self._filer: Thread | None = None
        self._closed = False
        # What stands in somebody else's workspace is not mapped into the memory of this process.
        self.file = VectorFile(workspace.crystals / NAME)

    @property
    def is_open(self) -> bool:
        """Whether the file or the index is open."""
        return self._index is not None or (self.file is not None and self.file.is_open)

    @property
    def open_index(self) -> VectorIndex | None:
        """The index, if it is open."""
        return self._index

    def ready(self, crystals: Crystals) -> tuple[VectorIndex | None, str]:
        """The index if it only has to be opened, or is quickly built; and a notice for a person, or "".

        None: not now. The build of a large one is started in the background, or left to `get`.
        """
        return self._found(crystals, EXACT_SEARCH_UP_TO)

    def get(self, crystals: Crystals) -> tuple[VectorIndex | None, str]:
        """Like `ready`, but a large index is built before this returns, too, unless in the background."""
        return self._found(crystals, EXACT_SEARCH_UP_TO if self._background else None)

    def _found(self, crystals: Crystals, build_up_to: int | None) -> tuple[VectorIndex | None, str]:
        with self._opening:
            building = self._builder is not None and self._builder.is_alive()
            if self._index is not None or self._closed or building or not crystals.vectors.has_more_than(0):
                return self._index, ""
            folder, vectors = self._workspace.crystals, crystals.vectors
            self._index, report = open_whole(folder, _COLLECTION, vectors, self._check, build_up_to)
            if self._index is not None:
                return self._index, ""
            if build_up_to is None or not crystals.vectors.has_more_than(build_up_to):
                self._index, report = build_index(folder, _COLLECTION, vectors, report, self._check)
                return self._index, report.reason and f"the vector index was rebuilt from state.db: {report.reason}"
            if not self._background:
                return None, ""
            self._builder = Thread(target=self._build, name="index", daemon=True)
            self._builder.start()
            return None, "the vector index is built anew in the background"

    def file_in_background(self) -> str:
        """Have the vectors that wait written into the file, in a thread where that may be; returns a notice."""
        with self._opening:
            if not self._background or self.file is None:
                return f"{UNFILED} until the next dream writes the vector file"
            if not self._closed and (self._filer is None or not self._filer.is_alive()):
                self._filer = Thread(target=self._write_file, name="vectors", daemon=True)
                self._filer.start()
            return f"{UNFILED} until the vector file is written, in the background"

    def _write_file(self) -> None:
        try:
            with closing(open_database(self._workspace.database)) as connection:
                nearest = Crystals(connection).vectors.nearest
                nearest.file = self.file
                while nearest.write_file(self._check_open):
                    pass
        except StoppedError:
            return
        except Exception as error:
            if self._failed is None:
                raise
            self._failed(error)

    def drop(self) -> None:
        """Delete the files, whose old pages keep what was in them; both are made anew by whoever needs them next."""
        from state.stores.erasing.files import empty_folder

        for thread in (self._builder, self._filer):
            if thread is not None:
                thread.join()  # it writes into the folder
        with self._opening:
            self._release_index()
            if self.file is not None:
                self.file.close()
            empty_folder(self._workspace.disk(), self._workspace.crystals)

    def close(self) -> None:
        """Release the files; a build in progress is given up, and started again by whoever opens the index next.

        Waits for the builder: another process may write into the folder as soon as this returns.
        """
        with self._opening:
            self._closed = True
            self._release_index()
        for thread in (self._builder, self._filer):
            if thread is not None:
                thread.join(_GIVING_UP_SECONDS)
        if self.file is not None:
            self.file.close()

    def _release_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    def _check_open(self) -> None:
        if self._closed:
            raise StoppedError("the index was closed while it was built", "who opens it next builds it")
        self._check()

    def _build(self) -> None:
        try:
            with closing(open_database(self._workspace.database)) as connection:
                vectors = Crystals(connection).vectors
                index, _ = open_index(self._workspace.crystals, _COLLECTION, vectors, self._check_open)
        except StoppedError:
            return
        except Exception as error:
            # Searches work without the index; the error is reported, and the next call tries again.
            if self._failed is None:
                raise
            self._failed(error)
            return
        with self._opening:
            if self._closed:
                index.close()
            else:
                self._index = index
