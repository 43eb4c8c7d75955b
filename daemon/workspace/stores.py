"""Stores: the open database, files, index and embedder of one workspace, owned or read-only."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from sqlite3 import Connection

from daemon.config.settings import Config
from daemon.workspace.notices import Notices
from daemon.workspace.redaction import redacted
from daemon.workspace.vector_index import Embedding, Index
from state.document.document import Block
from state.document.redaction import redacted_line, redacted_lines
from state.errors import BusyError, DocumentError, StorageError
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.hormones import Feelings, Questions
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import may_write
from state.stores.database.meta import Meta
from state.stores.database.opening import open_database, open_reading
from state.stores.disk.lock import Lock, acquire
from state.stores.disk.workspace import Workspace
from state.stores.erasing.intent import is_unfinished
from state.stores.history.inbox import NoteInbox
from state.stores.history.ledger import Ledger
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory
from state.stores.history.notes import Notes
from state.stores.history.proposals import Proposals
from state.stores.history.reading import is_checkout
from state.stores.history.wordings import texts_behind


@dataclass(slots=True)
class _Clock:
    """This process's clock: the machine's clock plus a correction."""

    behind: timedelta = timedelta(0)


_clock = _Clock()
_LEAST_CORRECTION = timedelta(seconds=1)


def utc_now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC) + _clock.behind


def follow_clock(said: datetime, asked: float) -> timedelta:
    """Follow another clock from now on; return by how much that changed `utc_now`.

    It was asked at `asked` (`time.monotonic`) and answered `said`. Differences below a second are ignored.
    """
    now, waited = utc_now(), timedelta(seconds=time.monotonic() - asked)
    change = said - min(max(said, now - waited), now)
    if abs(change) < _LEAST_CORRECTION:
        return timedelta(0)
    _clock.behind += change
    return change


@dataclass(frozen=True, slots=True)
class Store:
    """The open stores of one workspace. Whoever opens them closes them, and reports the `notices`.

    Several stores of a workspace may share its `index`.
    """

    workspace: Workspace
    config: Config
    connection: Connection
    meta: Meta
    crystals: Crystals
    supersessions: Supersessions
    feelings: Feelings
    questions: Questions
    proposals: Proposals
    lineage: Lineage
    ledger: Ledger
    notes: Notes
    memory: Memory
    index: Index
    notices: Notices = field(default_factory=Notices)

    @property
    def shown(self) -> Callable[[str], str]:
        """Return how a text that is remembered is shown: without what is forgotten, and without its secrets.

        A long list shows many texts, the same ones again and again: what was redacted is known for a while.
        """
        redaction, forgotten = self.config.redaction, self.crystals.forgotten.tombstones()

        def shown(text: str) -> str:
            left = forgotten.without(text)
            done = redacted(redaction, left)
            return left if done == left else redacted_line(left, redaction, self.grounds)

        return shown

    def shown_memory(self, text: str) -> str:
        """Return a text of MEMORY.md as it is shown: line by line, without its secrets."""
        return redacted_lines(text, self.config.redaction, self.grounds)

    def grounds(self, line: str) -> tuple[str, ...]:
        """Return the texts that a line of MEMORY.md rests on; none for other texts."""
        return texts_behind(self.connection, Block(line, content=True).text)

    def close(self) -> None:
        """Close the database. The index is closed by whoever opened it, because stores may share it."""
        self.connection.close()


@contextmanager
def open_exclusive(
    workspace: Workspace, config: Config, command: str, embedding: Embedding | None = None
) -> Iterator[Store]:
    """Take the workspace's lock, open it, and finish interrupted commits."""
    with acquire(workspace, command) as lock, open_locked(lock, config, embedding) as store:
        yield store


@contextmanager
def open_locked(
    lock: Lock, config: Config, embedding: Embedding | None = None, kept: Index | None = None
) -> Iterator[Store]:
    """Open the workspace of this lock, and finish interrupted commits. An index that is `kept` stays open."""
    with ExitStack() as stack:
        if (index := kept) is None:
            index = Index(lock.workspace, lock.check, embedding or Embedding(config.embeddings.model))
            stack.callback(index.close)
        index.check = lock.check
        store = stack.enter_context(closing(open_owned(index, config)))
        recover(store)
        yield store


@contextmanager
def open_readonly(workspace: Workspace, config: Config, embedding: Embedding | None = None) -> Iterator[Store]:
    """Open the workspace for reading, without its lock, beside an owner at work."""

    def refuse_write() -> None:
        raise BusyError(f"{workspace.root} is open for reading only", "nothing was written")

    index = Index(workspace, refuse_write, embedding or Embedding(config.embeddings.model))
    with closing(_opened(index, config, owned=False)) as store:
        yield store


def open_owned(index: Index, config: Config, alone: AbstractContextManager[object] | None = None) -> Store:
    """Open the stores of the index's workspace, whose lock this process holds. Close them after use.

    `alone` is held while state.db and MEMORY.md change together.
    """
    disk = index.workspace.disk()
    for folder in folders(index.workspace):  # a copy may lack them: some tools leave out empty folders
        disk.make_folder(folder)
    return _opened(index, config, owned=True, alone=alone)


def _opened(
    index: Index, config: Config, *, owned: bool, alone: AbstractContextManager[object] | None = None
) -> Store:
    workspace, disk = index.workspace, index.workspace.disk()
    opens = open_database if owned or may_write(workspace.database) else open_reading
    connection = opens(workspace.database)
    crystals = Crystals(connection)
    crystals.vectors.may_write = owned
    index.prepare(crystals)
    redaction = config.redaction
    lineage, notes = Lineage(connection), Notes(NoteInbox(workspace, disk), connection, partial(redacted, redaction))
    memory = Memory(workspace, disk, crystals, lineage, notes, index.check, redaction, utc_now)
    memory.alone = alone or nullcontext()
    memory.is_checkout = partial(is_checkout, workspace, connection)
    memory.is_forgetting = partial(is_unfinished, connection)
    store = Store(
        workspace=workspace,
        config=config,
        connection=connection,
        meta=Meta(connection),
        crystals=crystals,
        supersessions=Supersessions(crystals),
        feelings=Feelings(connection, config.baselines),
        questions=Questions(connection),
        proposals=Proposals(connection),
        lineage=lineage,
        ledger=Ledger(connection, redaction),
        notes=notes,
        memory=memory,
        index=index,
    )
    if owned and full_text.is_behind(connection):
        full_text.rebuild(connection)
        store.notices.add("the word index was rebuilt from state.db")
    return store


def recover(store: Store) -> None:
    """Finish interrupted commits."""
    with suppress(DocumentError, StorageError):  # whoever needs the text reports the problem
        if store.memory.recover():
            store.notices.add(f"MEMORY.md was not version {store.lineage.standing()[0]}, and is written again")


def folders(workspace: Workspace) -> tuple[Path, ...]:
    """Return the folders that an owner writes to, parents first."""
    return (workspace.scratch.parent, workspace.index, workspace.checkpoints)
