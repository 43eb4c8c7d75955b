"""Where a window (command line, MCP, HTTP) works on one workspace: at the daemon's desk, or at one of its own.

An operation gets a desk and does not know which: the daemon's keeps the workspace open and has a dream under way
perhaps; one's own takes the workspace's lock when it is first needed and gives it back at the end of the call.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from daemon.config.settings import Config
from daemon.dream.progress import Step
from state.dream import Reason
from state.errors import BusyError
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.dream.run import Mode, Outcome
    from daemon.workspace.status import ServiceStatus
    from daemon.workspace.stores import Store
    from daemon.workspace.vector_index import Embedding


@dataclass(frozen=True, slots=True)
class LockedWorkspace:
    """A workspace that is locked and not open. `check` raises when it is this process's no more."""

    check: Callable[[], None]
    embedding: "Embedding"


class WorkspaceAccess(Protocol):
    """One workspace, for the length of one call."""

    @property
    def workspace(self) -> Workspace: ...
    @property
    def config(self) -> Config: ...
    @property
    def notices(self) -> list[str]:
        """What a person should know of this call; complete when the call has ended."""

    def reading(self) -> "AbstractContextManager[Store]":
        """The stores, for what writes nothing; works beside another owner."""

    def store(self) -> "AbstractContextManager[Store]":
        """The stores, for what is soon done; one caller at a time. Raises BusyError: somebody else owns them."""

    def alone(self) -> "AbstractContextManager[Store]":
        """The stores, for what takes long or makes a version; nobody dreams meanwhile. Raises BusyError."""

    def in_turn(self) -> "AbstractContextManager[Store]":
        """The same, after whoever is at work in this process: it may take minutes. Raises BusyError."""

    def vacant(self) -> "AbstractContextManager[LockedWorkspace]":
        """The workspace for this caller alone, with none of its stores open. Raises BusyError."""

    def dream(self, reason: Reason, mode: "Mode") -> "Outcome":
        """One dream now, its steps told. Raises what `dream_now` raises, BusyError while another one runs."""

    def dream_soon(self, reason: Reason) -> bool:
        """Ask for a dream and do not wait; False: nobody is there to dream it."""

    def service(self) -> "ServiceStatus | None":
        """What the daemon adds to the status; None: no daemon."""

    def told(self, step: Step) -> None:
        """Tell whoever waits how far it is."""

    def noted(self) -> None:
        """Something was added to the scratch log."""


@dataclass(slots=True)
class LocalAccess:
    """A desk without a daemon; use it as a context manager. `command` signs the lock.

    What a person should know is in `notices` at the end. `embedding` may be kept from call to call. `beside`: a desk
    of this process that has the lock, because it dreams; what is soon done works under its lock, and nothing else.
    """

    workspace: Workspace
    config: Config
    command: str
    tell: Callable[[Step], None] = lambda _: None
    embedding: "Embedding | None" = None
    wait_seconds: float = 0.0
    beside: "LocalAccess | None" = None
    notices: list[str] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _store: "Store | None" = None

    @property
    def open_store(self) -> "Store | None":
        """The stores, if they are open with the lock."""
        return self._store

    @contextmanager
    def reading(self) -> "Iterator[Store]":
        """Without the lock."""
        from daemon.workspace.stores import open_readonly

        if self._store is not None:
            yield self._store
            return
        with open_readonly(self.workspace, self.config, self.embedding) as store:
            try:
                yield store
            finally:
                self.notices += store.notices

    @contextmanager
    def store(self) -> "Iterator[Store]":
        """With the lock, which is kept until the end of the call."""
        from daemon.workspace.stores import open_exclusive, shared

        if self._store is None:
            dreaming = self.beside.open_store if self.beside is not None else None
            if dreaming is not None:
                using = shared(dreaming, self.config)
            else:
                using = open_exclusive(self.workspace, self.config, self.command, self.wait_seconds, self.embedding)
            self._store = self._stack.enter_context(using)
        yield self._store

    def alone(self) -> "AbstractContextManager[Store]":
        """The same, unless this process dreams."""
        if self.beside is not None:
            raise BusyError(f"{self.workspace.root}: a dream is under way", "wait for it and try again")
        return self.store()

    def in_turn(self) -> "AbstractContextManager[Store]":
        """The same."""
        return self.alone()

    @contextmanager
    def vacant(self) -> "Iterator[LockedWorkspace]":
        """With the lock."""
        from daemon.workspace.vector_index import Embedding
        from state.stores.disk.lock import acquire

        embedding = self.embedding or Embedding(download=self.config.embeddings.download)
        with acquire(self.workspace, self.command, self.wait_seconds) as lock:
            yield LockedWorkspace(lock.check, embedding)

    def dream(self, reason: Reason, mode: "Mode") -> "Outcome":
        """In this process."""
        from daemon.dream.run import dream_now

        with self.store() as store:
            return dream_now(store, reason, mode, self.told)

    def dream_soon(self, reason: Reason) -> bool:  # noqa: ARG002 - the same for every reason
        """Nobody is there to dream it."""
        return False

    def service(self) -> None:
        """No daemon."""
        return

    def told(self, step: Step) -> None:
        """To whoever opened the desk."""
        self.tell(step)

    def noted(self) -> None:
        """The next owner finds it in the log."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self.notices += self._store.notices
            self._store = None
        self._stack.close()
