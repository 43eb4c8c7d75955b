"""The one place where concrete things are put together: an owned workspace with its stores open."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from daemon.config import Config
from daemon.remembering import Remembering
from state.crystal import Crystal
from state.errors import BusyError
from state.hormones import Baselines
from state.ranking import Findings
from state.stores import lexical
from state.stores.crystals import Crystals
from state.stores.database import open_database
from state.stores.embeddings import Embedder, Unavailable, open_embedder
from state.stores.feelings import Feelings, Questions
from state.stores.files import Disk
from state.stores.journal import Journal
from state.stores.ledger import Ledger
from state.stores.lineage import Lineage
from state.stores.lock import acquire
from state.stores.search import Searcher
from state.stores.segments import Segments
from state.stores.vectors import VectorIndex, open_index
from state.stores.workspace import Workspace

EMBED_BATCH = 256
# Up to so many vectors, reading them all from state.db is quicker than starting ChromaDB.
EXACT_SEARCH_UP_TO = 5_000


def clock() -> datetime:
    """Now, aware, in UTC."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Store:
    """One workspace's stores, open. `notices` are things that a person should know."""

    workspace: Workspace
    config: Config
    disk: Disk
    crystals: Crystals
    lineage: Lineage
    ledger: Ledger
    feelings: Feelings
    questions: Questions
    segments: Segments
    journal: Journal
    check: Callable[[], None]
    owned: bool
    notices: list[str] = field(default_factory=list)
    _embedder: Embedder | Unavailable | None = None
    _index: VectorIndex | None = None

    def embedder(self) -> Embedder | None:
        """The embedding model, loaded at the first call; None when there is none (a notice says so)."""
        if self._embedder is None:
            found = open_embedder(cache_folder(os.environ), download=self.config.embeddings.download)
            self._embedder = found if isinstance(found, Unavailable) else Remembering(found)
            if isinstance(found, Unavailable):
                self.notices.append(found.reason)
        if isinstance(self._embedder, Unavailable):
            return None
        if self.owned:
            self.crystals.vectors.use_model(self._embedder.name)
        return self._embedder

    def index(self) -> VectorIndex | None:
        """ChromaDB over the vectors, opened (probed, rebuilt if torn) at the first call.

        None without vectors, and for who does not own the workspace: state.db answers exactly then.
        """
        if self._index is None and self.owned and self.crystals.vectors.vector_count():
            self._index, report = open_index(self.workspace.crystals, "crystals", self.crystals.vectors)
            if report.rebuilt and report.reason:
                self.notices.append(f"the vector index was rebuilt from state.db: {report.reason}")
        return self._index

    def searcher(self) -> Searcher:
        """memory_search over what is indexed now.

        A small store that has not opened ChromaDB yet is searched exactly: that is quicker than starting it.
        """
        index = self._index
        if index is None and self.crystals.vectors.vector_count() > EXACT_SEARCH_UP_TO:
            index = self.index()
        return Searcher(self.crystals, self.embedder(), index)

    def search(self, query: str, now: datetime, limit: int = 8) -> Findings:
        """memory_search, coloured by the hormones."""
        return self.searcher().search(query, now, limit=limit, hormones=self.feelings.levels(now))

    def embed(self) -> int:
        """Give vectors to the crystals that wait for one, and tell ChromaDB; returns how many."""
        embedder, done = self.embedder(), 0
        while embedder and (count := self.crystals.vectors.embed_pending(embedder, EMBED_BATCH)):
            done += count
        index = self.index()
        while index and self.crystals.vectors.index_pending(index, EMBED_BATCH):
            pass
        return done

    def remember(self, crystals: list[Crystal]) -> int:
        """Write crystals; they are found by their words at once, by their meaning after `embed`."""
        return self.crystals.upsert(crystals)

    def close(self) -> None:
        """Leave everything as the next owner wants to find it."""
        if self._index is not None:
            self._index.close()
        self.crystals.connection.close()


@contextmanager
def owned(workspace: Workspace, config: Config, command: str, wait_seconds: float = 0.0) -> Iterator[Store]:
    """The workspace, locked for this process, its interrupted commits finished."""
    with acquire(workspace, command, wait_seconds) as lock, ExitStack() as stack:
        _make_folders(workspace)
        store = _opened(workspace, config, lock.check, owned=True)
        stack.callback(store.close)
        finished = store.journal.recover()
        if finished:
            store.notices.append(f"an interrupted commit was finished (version {store.lineage.last_version()})")
        yield store


@contextmanager
def visited(workspace: Workspace, config: Config) -> Iterator[Store]:
    """The workspace for reading, without its lock: beside an owner that may be at work."""

    def not_mine() -> None:
        raise BusyError(f"{workspace.root} is open for reading only; nothing was written")

    store = _opened(workspace, config, not_mine, owned=False)
    try:
        yield store
    finally:
        store.close()


def _make_folders(workspace: Workspace) -> None:
    """What a copy of a workspace may lack: tools that copy or archive leave empty folders out."""
    disk = Disk(workspace.root)
    for folder in folders(workspace):
        disk.make_folder(folder)


def folders(workspace: Workspace) -> tuple[Path, ...]:
    """The folders that an owner writes in, each after the one that it is in."""
    inside = (workspace.history, workspace.segments, workspace.retired, workspace.crystals, workspace.checkpoints)
    return (workspace.scratch.parent, *inside)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where derived files that can be made again are kept."""
    named = Path(environment.get("XDG_CACHE_HOME", ""))
    # Of the XDG specification: a path that is not absolute is ignored.
    return (named if named.is_absolute() else Path.home() / ".cache") / "dreamd"


def _opened(workspace: Workspace, config: Config, check: Callable[[], None], *, owned: bool) -> Store:
    disk = Disk(workspace.root)
    connection = open_database(workspace.database)
    crystals, lineage = Crystals(connection), Lineage(connection)
    segments = Segments(workspace, disk)
    levels = config.hormones
    baselines = Baselines(levels.dopamine_baseline, levels.cortisol_baseline, levels.oxytocin_baseline)
    store = Store(
        workspace=workspace,
        config=config,
        disk=disk,
        crystals=crystals,
        lineage=lineage,
        ledger=Ledger(connection),
        feelings=Feelings(connection, baselines),
        questions=Questions(connection),
        segments=segments,
        journal=Journal(workspace, disk, crystals, lineage, segments, check),
        check=check,
        owned=owned,
    )
    if owned and lexical.is_behind(connection):
        lexical.rebuild(connection)
        store.notices.append("the word index was rebuilt from state.db")
    return store
