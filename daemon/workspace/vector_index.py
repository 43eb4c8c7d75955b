"""Vector index: the process's embedding model, loaded once for all workspaces, and the index of one workspace.

A process opens a ChromaDB folder only once, because two clients of one folder lose hits.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Self

from state.errors import StorageError
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.vectors import IndexState, index_state, put_index_state
from state.stores.database.connection import transaction
from state.stores.database.opening import open_database
from state.stores.disk.workspace import Workspace
from state.stores.vectors.chroma import BATCH, VectorIndex, clear, has_build, new_build, sync
from state.stores.vectors.embedder import Embedder, Unavailable, open_embedder

_RETRY_SECONDS = 60.0
# How long closing an index waits for its builder, which finishes a batch within a second or two.
_GIVING_UP_SECONDS = 10.0
# So many records are looked for when ChromaDB is opened; each is found by its own vector, with at least this cosine.
_SAMPLED, _FOUND = 30, 0.99


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of files that can be regenerated."""
    named = Path(environment.get("XDG_CACHE_HOME", ""))
    # The XDG specification ignores relative paths.
    return (named if named.is_absolute() else Path.home() / ".cache") / "dreamd"


class Embedding:
    """The embedding model, loaded on demand, or the reason why there is none. Thread-safe."""

    def __init__(self, model: Path | None = None) -> None:
        self._model = model
        self._found: Embedder | Unavailable | None = None
        self._asked_at = 0.0
        self._again_at = 0.0  # monotonic: when to look for a missing model again
        self._loading = Lock()

    @classmethod
    def given(cls, found: Embedder | Unavailable) -> Self:
        """Return an `Embedding` that holds this result."""
        embedding = cls()
        embedding._found, embedding._again_at = found, float("inf")
        return embedding

    def get(self) -> Embedder | Unavailable:
        """Return the model, or the reason why there is none."""
        with self._loading:
            self._asked_at = time.monotonic()
            if self._found is None or (isinstance(self._found, Unavailable) and self._asked_at >= self._again_at):
                # The model may be installed later.
                self._found = open_embedder(cache_folder(os.environ), model=self._model)
                self._again_at = time.monotonic() + _RETRY_SECONDS
            return self._found

    def try_again(self) -> None:
        """Look for a missing model again at the next `get`."""
        with self._loading:
            self._again_at = 0.0

    def rest(self, unused_seconds: float) -> bool:
        """Unload a model that was unused for this long; return whether it was. Callers in progress keep it."""
        with self._loading:
            unused = time.monotonic() - self._asked_at
            if self._found is None or isinstance(self._found, Unavailable) or unused < unused_seconds:
                return False
            self._found = None
            return True


class Index:
    """ChromaDB for one workspace: open in a process that stays (`background`), in a folder of its own.

    `check` raises if this process no longer owns the workspace. ChromaDB is opened and built in a thread, and
    searches do without it until then. Only one process writes to the folder, and state.db records whether its files
    are intact, and which crystals it has yet to learn of. `beside`: another process has ChromaDB open, or builds it.
    """

    def __init__(
        self,
        workspace: Workspace,
        check: Callable[[], None],
        embedding: Embedding | None = None,
        *,
        background: bool = False,
        beside: bool = False,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        self.workspace = workspace
        self.check = check
        self.embedding = embedding or Embedding()
        self._background = background
        self._beside = beside
        self._failed = failed
        self._index: VectorIndex | None = None
        self._stamp = ""  # that of the files when this process wrote to them last
        self._opening = Lock()
        self._writing = Lock()
        self._builder: Thread | None = None
        self._is_given_up = False  # it was closed, or will be dropped

    def prepare(self, crystals: Crystals) -> None:
        """Delete the folders of earlier builds."""
        with self._opening:
            is_mine = crystals.vectors.may_write and not self._beside
            if is_mine and self._index is None and not self._is_building():
                clear(self.workspace.index, keep=index_state(crystals.connection).build)

    def ready(self, crystals: Crystals) -> VectorIndex | None:
        """Return ChromaDB if it is open; else open or build it in the background, for later calls."""
        with self._opening:
            if (index := self._index) is not None:
                build, stamp = index_state(crystals.connection)
                # A stamp that is missing is being written; another one is another process's.
                if index.failed or build != index.build.name or stamp not in ("", self._stamp):
                    self._release()
            if self._index is None and self._background and not self._is_given_up and not self._is_building():
                self._builder = Thread(target=self._build, name="index", daemon=True)
                self._builder.start()
            return self._index

    def _is_building(self) -> bool:
        return self._builder is not None and self._builder.is_alive()

    def tell(self, crystals: Crystals, stop: Callable[[], bool] = lambda: False) -> None:
        """Bring ChromaDB up to date, in the background unless it is open; between batches `stop` is asked.

        Must not run in a transaction on state.db. If ChromaDB fails, report it and build it anew.
        """
        if (index := self.ready(crystals)) is None:
            return
        try:
            self._tell(index, crystals, stop)
        except StorageError as error:
            index.failed = True
            self._report(error)

    def open(self, crystals: Crystals) -> None:
        """Open ChromaDB here and now, and tell it of one batch; the lock is held until that is done."""
        if self.ready(crystals) is None:
            self._build(lambda: True)

    def wait(self) -> VectorIndex | None:
        """Wait for the background work; return ChromaDB, or None if it failed."""
        if self._builder is not None:
            self._builder.join()
        return self._index

    def drop(self, crystals: Crystals) -> None:
        """Delete ChromaDB's folder, because its own deletes leave texts behind; it is rebuilt on demand.

        Must not run in a transaction on state.db.
        """
        was_given_up, self._is_given_up = self._is_given_up, True
        try:
            self.wait()
            with self._opening:
                self._release()
                crystals.vectors.index_anew()
                clear(self.workspace.index)
        finally:
            self._is_given_up = was_given_up

    def rest(self) -> None:
        """Close ChromaDB until it is needed again; opening or building in the background continues."""
        with self._opening:
            self._release()

    def close(self) -> None:
        """Release the files. A build in progress ends with its current batch; the next opening continues it.

        Wait for the builder to stop, because another process may write to the folder as soon as this returns.
        """
        with self._opening:
            self._is_given_up = True
            self._release()
        if self._builder is not None:
            self._builder.join(_GIVING_UP_SECONDS)

    def _release(self) -> None:
        if self._index is not None:
            with (
                self._writing,
                suppress(StorageError),
            ):  # even closing may fail; the next opening finds the files torn
                self._index.close()
            self._index = None

    def _report(self, error: Exception) -> None:
        if self._failed is None:
            raise error
        self._failed(error)

    def _build(self, stop: Callable[[], bool] = lambda: False) -> None:
        try:
            with closing(open_database(self.workspace.database)) as connection:
                crystals = Crystals(connection)
                index = self._opened(crystals)
                try:
                    self._tell(index, crystals, lambda: self._is_given_up or stop())
                except BaseException:
                    index.close()
                    raise
                with self._opening:
                    if self._is_given_up:
                        index.close()
                        return
                    self._index = index
                self.tell(crystals, stop)  # what was embedded before others saw that it is open
        except Exception as error:  # noqa: BLE001 - searches work without the index, and the next call tries again
            self._report(error)

    def _opened(self, crystals: Crystals) -> VectorIndex:
        """Return ChromaDB as it was left if it is intact, else an empty one that is filled anew."""
        folder, state = self.workspace.index, index_state(crystals.connection)
        if has_build(folder, *state):
            with suppress(StorageError), self._changing(crystals, folder / state.build):
                index = VectorIndex(folder / state.build)
                if _is_whole(index, crystals):
                    return index
                index.close()
        self.check()
        build = new_build(folder)
        crystals.vectors.index_anew(build.name)
        with self._changing(crystals, build):
            return VectorIndex(build)

    def _tell(self, index: VectorIndex, crystals: Crystals, stop: Callable[[], bool]) -> None:
        with self._writing:
            while (changes := crystals.vectors.unindexed(BATCH))[0]:
                ids, records = changes
                with self._changing(crystals, index.build, ids):
                    index.update(list(dict.fromkeys(ids.values())), records)
                if stop():
                    break

    @contextmanager
    def _changing(self, crystals: Crystals, build: Path, changes: Iterable[int] = ()) -> Iterator[None]:
        """Mark these files as possibly torn in state.db during the context, and permanently if it fails.

        Afterwards ChromaDB knows these changes.
        """
        self.check()
        self._mark(crystals, IndexState(build.name))
        yield
        stamp = sync(build)
        # A displaced owner must not mark the files of the new one.
        self.check()
        self._stamp = stamp
        self._mark(crystals, IndexState(build.name, stamp), changes)

    def _mark(self, crystals: Crystals, state: IndexState, changes: Iterable[int] = ()) -> None:
        with transaction(crystals.connection) as connection:
            if index_state(connection).build != state.build:
                raise StorageError(f"{state.build}: it is of other vectors than those of now", "it is built anew")
            put_index_state(connection, state)
            crystals.vectors.mark_indexed(changes)


def _is_whole(index: VectorIndex, crystals: Crystals) -> bool:
    """Tell whether the index has every record, and a sample of them is found, so that a damaged file shows now."""
    late, newest = crystals.vectors.waiting()[1], crystals.newest()
    told = "SELECT key FROM crystals WHERE key % ? = 0 AND id NOT IN (SELECT id FROM to_index)"
    rows = crystals.connection.execute(told, (newest // _SAMPLED + 1,))
    _, sample = crystals.vectors.read(row["key"] for row in rows.fetchall())
    found = [index.nearest(vector, 1) for vector in sample] if sample is not None else []
    is_found = all(near and near[0][1] > _FOUND for near in found)
    return is_found and abs(index.count() - crystals.vectors.vector_count()) <= late
