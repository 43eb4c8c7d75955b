"""What the stores of one process share: the embedding model, and the open vector index of a workspace.

The model is loaded once for all workspaces. ChromaDB's folder is opened once in a process, whoever asks: two clients
of one folder lose hits. An index that has to be built anew and is large is built in the background, where somebody
waits for answers; until then the vectors of state.db are compared one by one.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock, Thread
from typing import Self

from daemon.remembering import Remembering
from state.stores.crystals import Crystals
from state.stores.database import open_database
from state.stores.embeddings import Embedder, Unavailable, open_embedder
from state.stores.vectors import IndexReport, VectorIndex, is_whole, open_index
from state.stores.workspace import Workspace

# Up to so many vectors, reading them all from state.db is quicker than starting ChromaDB, and building is quick.
EXACT_SEARCH_UP_TO = 5_000
_RETRY_SECONDS = 60.0
_COLLECTION = "crystals"


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where derived files that can be made again are kept."""
    named = Path(environment.get("XDG_CACHE_HOME", ""))
    # Of the XDG specification: a path that is not absolute is ignored.
    return (named if named.is_absolute() else Path.home() / ".cache") / "dreamd"


class Embedding:
    """The embedding model, loaded when it is asked for; or why there is none. Several threads may use it."""

    def __init__(self, *, download: bool) -> None:
        self._download = download
        self._found: Embedder | Unavailable | None = None
        self._asked_at = 0.0
        self._again_at = 0.0  # monotonic; one that was not there is looked for again
        self._loading = Lock()

    @classmethod
    def given(cls, found: Embedder | Unavailable) -> Self:
        """One that is there already, or is known not to be."""
        embedding = cls(download=False)
        embedding._found, embedding._again_at = found, float("inf")
        return embedding

    def get(self) -> Embedder | Unavailable:
        """The model, or why there is none."""
        with self._loading:
            self._asked_at = time.monotonic()
            if self._found is None or (isinstance(self._found, Unavailable) and self._asked_at >= self._again_at):
                # It may be installed meanwhile. The network is asked once: it may keep everybody waiting.
                download, self._download = self._download, False
                found = open_embedder(cache_folder(os.environ), download=download)
                self._found = found if isinstance(found, Unavailable) else Remembering(found)
                self._again_at = time.monotonic() + _RETRY_SECONDS
            return self._found

    def try_again(self, *, download: bool) -> None:
        """Look for a model anew at the next call, if there was none; with `download` by the network as well."""
        with self._loading:
            self._download, self._again_at = download, 0.0

    def forget_texts(self) -> None:
        """Nothing is known any more of what was embedded."""
        with self._loading:
            if isinstance(self._found, Remembering):
                self._found.forget()

    def rest(self, unused_seconds: float) -> bool:
        """Let go of a model that nobody has asked for so long; whether there was one. Who uses it still keeps it."""
        with self._loading:
            unused = time.monotonic() - self._asked_at
            if self._found is None or isinstance(self._found, Unavailable) or unused < unused_seconds:
                return False
            self._found = None
            return True


class Indexing:
    """The vector index of one workspace, opened (and built anew if torn) at the first call of `get`.

    `background`: a large index is built in a thread of its own, and there is none until that has ended.
    """

    def __init__(
        self, workspace: Workspace, *, background: bool = False, failed: Callable[[Exception], None] | None = None
    ) -> None:
        self._workspace = workspace
        self._background = background
        self._failed = failed
        self._index: VectorIndex | None = None
        self._opening = Lock()
        self._builder: Thread | None = None
        self._closed = False

    @property
    def open_index(self) -> VectorIndex | None:
        """The index, if it is open."""
        return self._index

    def get(self, crystals: Crystals) -> tuple[VectorIndex | None, str]:
        """The index, opened if it is not; and what a person should know of that. None: not now."""
        with self._opening:
            if self._index is not None or self._closed:
                return self._index, ""
            if self._builder is not None and self._builder.is_alive():
                return None, ""
            count = crystals.vectors.vector_count()
            if not count:
                return None, ""
            if self._background and count > EXACT_SEARCH_UP_TO and not is_whole(self._workspace.crystals):
                self._builder = Thread(target=self._build, name="index", daemon=True)
                self._builder.start()
                return None, "the vector index is built anew in the background; searches are exact meanwhile"
            self._index, report = open_index(self._workspace.crystals, _COLLECTION, crystals.vectors)
            return self._index, _notice(report)

    def drop(self) -> None:
        """Delete the files, whose old pages keep what was in them; the next call of `get` builds the index anew."""
        from state.stores.erasing_files import empty_folder
        from state.stores.files import Disk

        while (builder := self._builder) is not None and builder.is_alive():
            builder.join()  # it writes into the folder
        with self._opening:
            if self._index is not None:
                self._index.close()
                self._index = None
            empty_folder(Disk(self._workspace.root), self._workspace.crystals)

    def close(self) -> None:
        """Release the files; an index that is being built is given up, and begun anew by who opens it next."""
        with self._opening:
            self._closed = True
            if self._index is not None:
                self._index.close()
                self._index = None

    def _build(self) -> None:
        try:
            with closing(open_database(self._workspace.database)) as connection:
                index, _ = open_index(self._workspace.crystals, _COLLECTION, Crystals(connection).vectors)
        except Exception as error:
            # What can be searched without it is; whoever wants to know is told, and the next call tries again.
            if self._failed is None:
                raise
            self._failed(error)
            return
        with self._opening:
            if self._closed:
                index.close()
            else:
                self._index = index


def _notice(report: IndexReport) -> str:
    rebuilt = report.rebuilt and report.reason
    return f"the vector index was rebuilt from state.db: {report.reason}" if rebuilt else ""
