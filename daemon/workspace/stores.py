"""Stores: one workspace with its database, files, index and embedder open, owned or for reading only."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from sqlite3 import OperationalError

from daemon.config.settings import Config
from daemon.workspace.vector_index import Embedding, Index
from state.errors import BusyError, DocumentError, DreamdError, ModelError, StorageError
from state.signals.hormones import Baselines
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.hormones import Feelings, Questions
from state.stores.crystals.nearest import SCANNED_UP_TO
from state.stores.crystals.search import Beside, Searcher
from state.stores.database.connection import (
    compact,
    from_text,
    may_write,
    open_database,
    open_reading,
    to_text,
    transaction,
)
from state.stores.database.copies import copies_of, is_copy_due, make_copy, next_number, number_of
from state.stores.database.meta import Meta
from state.stores.disk.lock import Lock, acquire
from state.stores.disk.workspace import Workspace
from state.stores.erasing.intent import is_unfinished
from state.stores.git.reading import is_checkout
from state.stores.history.bootstraps import keep_last
from state.stores.history.changes import Changes
from state.stores.history.inbox import NoteInbox
from state.stores.history.ledger import Call, Ledger
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory
from state.stores.history.notes import Notes
from state.stores.history.originals import Originals
from state.stores.repair.former_files import take_in_records, take_in_segments
from state.stores.vectors.chroma import VectorIndex
from state.stores.vectors.embedder import Embedder, Unavailable

EMBED_BATCH = 256
_SWEPT = "swept_at"
_LEFTOVER_AGE = timedelta(hours=1)


@dataclass(slots=True)
class _Clock:
    """This process's clock: the machine's, and how much that is behind."""

    behind: timedelta = timedelta(0)


_clock = _Clock()
_LEAST_CORRECTION = timedelta(seconds=1)


def utc_now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC) + _clock.behind


def follow_clock(said: datetime, asked: float) -> timedelta:
    """Go by another clock from now on, and return by how much that changed `utc_now`.

    It was `asked` at that moment of `time.monotonic`, and `said` its time some time since. Less than a second is no
    difference.
    """
    now, waited = utc_now(), timedelta(seconds=time.monotonic() - asked)
    change = said - min(max(said, now - waited), now)
    if abs(change) < _LEAST_CORRECTION:
        return timedelta(0)
    _clock.behind += change
    return change


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a model that a dream is about to make, and the most that it may cost."""

    dream: str
    most: Call


class Store:
    """The open stores of one workspace, which whoever opens them closes. `notices` are messages for a person.

    `check` raises when this process owns the workspace no longer; `embedding` and `indexing` may be shared with other
    stores of it.
    """

    def __init__(
        self,
        workspace: Workspace,
        config: Config,
        check: Callable[[], None],
        embedding: Embedding,
        indexing: Index,
        *,
        owned: bool,
    ) -> None:
        self.workspace, self.config, self.check, self.owned = workspace, config, check, owned
        self.embedding, self.indexing = embedding, indexing
        self.notices: list[str] = []
        # The transcripts that the last reading of all of them could not read; None: there was none yet.
        self.unread: tuple[str, ...] | None = None
        # Of this process, or shared with its parent; None where nobody dreams with these stores.
        self.lock: Lock | None = None
        # Told of each call of a model before it is made, and of None when it is recorded.
        self.asking: Callable[[Asked | None], None] = lambda _: None
        # What is raised in place of a model's error.
        self.hide: Callable[[ModelError], ModelError] = lambda error: error
        self.disk = workspace.disk()
        opens = open_database if owned or may_write(workspace.database) else open_reading
        self.connection = connection = opens(workspace.database)
        self.crystals = Crystals(connection, indexing.vectors)
        self.crystals.vectors.may_write = owned
        indexing.prepare(self.crystals)
        levels, self.redaction = config.hormones, config.secrets.redaction
        baselines = Baselines(levels.dopamine_baseline, levels.cortisol_baseline, levels.oxytocin_baseline)
        self.lineage = Lineage(connection)
        self.ledger, self.changes = Ledger(connection, self.redaction), Changes(connection)
        self.feelings, self.questions = Feelings(connection, baselines), Questions(connection)
        self.notes = Notes(NoteInbox(workspace, self.disk), connection)
        self.memory = Memory(workspace, self.disk, self.crystals, self.lineage, self.notes, check, now=utc_now)
        self.memory.is_checkout = partial(is_checkout, workspace, connection)
        self.memory.is_forgetting = partial(is_unfinished, connection)
        if owned and full_text.is_behind(connection):
            full_text.rebuild(connection)
            self.notice("the word index was rebuilt from state.db")

    def embedder(self) -> Embedder | None:
        """Return the embedding model, loaded at the first call; None when there is none (a notice says so)."""
        embedder = self.embedding.get()
        if isinstance(embedder, Unavailable):
            self.notice(embedder.reason)
            return None
        if self.owned:
            self.crystals.vectors.use_model(embedder.name)
        return embedder

    def notice(self, text: str) -> None:
        """Add a message for a person, unless it is among the notices already."""
        if text not in self.notices:
            self.notices.append(text)

    def searcher(self, beside: Beside | None = None) -> Searcher:
        """Return a searcher of the crystals that are indexed now, and of those `beside` them."""
        return Searcher(self.crystals, self.embedder(), self.index(), beside)

    def index(self) -> VectorIndex | None:
        """Return ChromaDB if the store is too large to read its vectors; while it is not open yet, have it opened."""
        return self.indexing.ready(self.crystals) if self.crystals.newest() > SCANNED_UP_TO and self.owned else None

    def embed(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Embed the crystals that wait for a vector, have ChromaDB told, and return how many."""
        vectors, done = self.crystals.vectors, 0
        if embedder := self.embedder():
            while not stop() and (count := vectors.embed_pending(embedder, EMBED_BATCH)):
                done += count
        if done and not stop():
            self.indexing.tell(self.crystals, stop)
        return done

    def sweep(self, now: datetime) -> int:
        """Delete rows of the ledger older than `retention` allows, once a day; return how many.

        Of the receipts of bootstraps the last ones stay. Files that nobody waits for any more go each time.
        """
        workspace = self.workspace
        self.notes.sweep(now)
        for folder in (workspace.root, workspace.scratch.parent, workspace.state, workspace.index):
            self.disk.remove_leftovers(folder, (now - _LEFTOVER_AGE).timestamp())
        sweeps = {
            "the receipts of bootstraps were not shortened": partial(keep_last, workspace, self.disk),
            "old originals of redacted texts were not removed": partial(Originals(workspace).sweep, now),
        }
        for failed, sweep in sweeps.items():
            try:
                sweep()
            except DreamdError as error:
                self.notice(f"{failed} ({error})")
        keep, connection = self.config.retention, self.crystals.connection
        meta = Meta(connection)
        swept = meta.get(_SWEPT)
        if swept is not None and abs(now - from_text(swept)) < timedelta(days=1):
            return 0
        before = now - timedelta(days=keep.ledger_days)
        with transaction(connection):
            self.check()
            meta.put(_SWEPT, to_text(now))
            rows = self.ledger.sweep(before, now - timedelta(days=keep.answers_days))
            rows += self.feelings.sweep(before) + self.questions.sweep(now, keep.gaps)
            rows += self.changes.sweep(before)
        try:
            compact(connection)
        except OperationalError as error:  # another process reads for long, or there is no room for a second file
            self.notice(f"state.db was not made smaller ({error}); the next dream tries again")
        return rows

    def copy_if_due(self, now: datetime, every: timedelta) -> None:
        """Copy state.db if the last copy is older than that; a notice says why it was not copied."""
        database = self.workspace.database
        if is_unfinished(self.crystals.connection) or not is_copy_due(database, now, every):
            return
        try:
            with self.memory.alone:
                self.notes.rotate(next_number(database))
            make_copy(database, self.disk, self.check)
            self.notes.drop_covered(min(map(number_of, copies_of(database))))
        except StorageError as error:
            self.notice(f"state.db was not copied ({error})")

    def close(self) -> None:
        """Close the databases. Whoever opened the index closes it: stores may share one."""
        self.crystals.vectors.close()
        self.crystals.connection.close()


@contextmanager
def open_exclusive(
    workspace: Workspace, config: Config, command: str, wait_seconds: float = 0.0, embedding: Embedding | None = None
) -> Iterator[Store]:
    """Open the workspace with its lock held, and its interrupted commits finished."""
    with acquire(workspace, command, wait_seconds) as lock, ExitStack() as stack:
        indexing = Index(workspace, lock.check)
        stack.callback(indexing.close)
        store = open_owned(workspace, config, lock.check, embedding or Embedding(config.embeddings.model), indexing)
        stack.enter_context(closing(store))
        store.lock = lock
        recover(store)
        yield store


@contextmanager
def shared(store: Store, config: Config) -> Iterator[Store]:
    """Open the workspace of this store again for another thread, under its lock and with its index."""
    with closing(open_owned(store.workspace, config, store.check, store.embedding, store.indexing)) as again:
        yield again


@contextmanager
def open_readonly(workspace: Workspace, config: Config, embedding: Embedding | None = None) -> Iterator[Store]:
    """Open the workspace for reading, without its lock: it may have an owner at work."""

    def refuse_write() -> None:
        raise BusyError(f"{workspace.root} is open for reading only", "nothing was written")

    embedding, indexing = embedding or Embedding(config.embeddings.model), Index(workspace, refuse_write)
    with closing(Store(workspace, config, refuse_write, embedding, indexing, owned=False)) as store:
        yield store


def open_owned(
    workspace: Workspace, config: Config, check: Callable[[], None], embedding: Embedding, indexing: Index
) -> Store:
    """Open the stores of a workspace whose lock this process holds; `check` raises when it no longer does.

    Close it after use; `embedding` and `indexing` may be shared with other stores of this workspace.
    """
    disk = workspace.disk()
    for folder in folders(workspace):  # a copy of a workspace may lack them: copying tools leave empty ones out
        disk.make_folder(folder)
    return Store(workspace, config, check, embedding, indexing, owned=True)


def recover(store: Store) -> None:
    """Finish the commits that were interrupted, with the files of agents."""
    take_in_segments(store.workspace, store.disk, store.notes.inbox)
    for problem in take_in_records(store.workspace, store.disk, store.crystals, store.memory):
        store.notice(f"a version of an older dreamd cannot be shown or restored: {problem}")
    with suppress(DocumentError, StorageError):  # whoever needs its text says what is wrong with it
        if store.memory.recover():
            store.notice(f"MEMORY.md was not version {store.lineage.standing()[0]}, and is written again")
    from state.stores.database.migration import ENTRIES_FILE, ENTRIES_WRITTEN

    meta = Meta(store.connection)
    if count := meta.get(ENTRIES_WRITTEN):
        where = store.workspace.state / ENTRIES_FILE
        store.notice(f"{count} entries that programs kept here are now in {where}: docs/agents.md, LangGraph's store")
        meta.remove(ENTRIES_WRITTEN)
    from daemon.workspace.agent_files import write_agent_files  # which are about stores

    write_agent_files(store)


def folders(workspace: Workspace) -> tuple[Path, ...]:
    """Return the folders that an owner writes in, parents first."""
    return (workspace.scratch.parent, workspace.index, workspace.checkpoints)
