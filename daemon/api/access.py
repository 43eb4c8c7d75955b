"""WorkspaceAccess: an operation's access to its workspace during one call, in the daemon or without one.

An operation does not know which one it has: `engine.access.HeldAccess`, whose stores are already open and beside
which a dream may run, or `LocalAccess`, which takes the workspace's lock on demand until the call ends.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from daemon.config.per_dream import DreamSettings
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.workspace.status import DREAM_COMMAND
from state.dream import Reason
from state.errors import BusyError, DreamdError, NothingToDoError
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.operations.operation import Operation
    from daemon.api.operations.request import Request
    from daemon.dream.run import Mode, Outcome
    from daemon.workspace.status import ServiceStatus
    from daemon.workspace.stores import Store
    from daemon.workspace.vector_index import Embedding, Index
    from state.stores.disk.lock import Holder, Lock

ReplyT = TypeVar("ReplyT")

# Several may have followed one dream, and look one by one what is new since then.
_TURN_SECONDS = 10.0
_STOPPED = "the dream has stopped and its notes wait: 'dreamd dream' goes on with it"


@dataclass(frozen=True, slots=True)
class LockedWorkspace:
    """A locked workspace whose stores are closed. `check` raises if the lock has been lost."""

    check: Callable[[], None]
    embedding: "Embedding"


class WorkspaceAccess(Protocol):
    """An operation's access to one workspace during one call."""

    @property
    def workspace(self) -> Workspace: ...
    @property
    def config(self) -> Config: ...
    @property
    def notices(self) -> list[str]:
        """Return messages for a person about this call, complete once it has ended."""

    def run(self, operation: "Operation[..., ReplyT]", request: "Request") -> ReplyT:
        """Return the operation's reply, by default after running it here. Raise what the operation raises."""
        return operation.answer(self, request)

    def read(self) -> "AbstractContextManager[Store]":
        """Open the stores read-only, even while another process owns the workspace."""

    def write(self) -> "AbstractContextManager[Store]":
        """Open the stores for a short change, even beside a dream. Raise BusyError if another process owns them."""

    def exclusive(self, *, wait: bool = False) -> "AbstractContextManager[Store]":
        """Open the stores, with no dream beside, for long work or a new version.

        Raise BusyError if another process owns them or this one dreams; `wait`: wait for that dream, perhaps for
        minutes.
        """

    def offline(self) -> "AbstractContextManager[LockedWorkspace]":
        """Lock the workspace with all its stores closed. Raise BusyError if another process owns it."""

    def dream(self, reason: Reason, mode: "Mode") -> "Outcome":
        """Dream now, or follow the dream that a daemon runs already, and report each step. Raise as `dream_now`."""

    def take(self, settings: DreamSettings) -> None:
        """Use these settings for a dream of this call. Raise ConfigError for invalid ones."""

    def dream_soon(self, reason: Reason) -> bool:  # noqa: ARG002 - the same for every reason
        """Queue a dream for the daemon without waiting; return False if there is no daemon."""
        return False

    def service(self) -> "ServiceStatus | None":
        """Return the daemon's part of the status; None without a daemon."""
        return None

    def report(self, step: Step) -> None:
        """Tell the caller about a finished step."""

    def mark_changed(self) -> None:
        """Tell the daemon about an addition to the scratch log; without a daemon the next owner finds it there."""
        return

    def reload(self) -> None:
        """Read the configuration again, and have a running daemon do so."""


@dataclass(slots=True)
class LocalAccess(WorkspaceAccess):
    """Access without a daemon; a context manager. `command` is the name written into the lock.

    `notices` is complete after the context, which passes each to `on_notice`. `embedding` may be shared by several
    calls. `beside`: this process's access that dreams now and holds the lock, under which only reads and short
    changes work. `index`: this process goes on after the call, and keeps this index.
    """

    workspace: Workspace = field()
    config: Config = field()
    command: str
    on_step: Callable[[Step], None] = lambda _: None
    embedding: "Embedding | None" = None
    wait_seconds: float = 0.0
    beside: "LocalAccess | None" = None
    index: "Index | None" = None
    on_notice: Callable[[str], None] = lambda _: None
    notices: list[str] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _store: "Store | None" = None
    _lock: "Lock | None" = None

    @property
    def open_store(self) -> "Store | None":
        """Return the stores if this access has opened them under its lock."""
        return self._store

    @contextmanager
    def read(self) -> "Iterator[Store]":
        """Open the stores without the lock."""
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
    def write(self) -> "Iterator[Store]":
        """Lock the workspace until the end of the call, and open the stores."""
        from daemon.workspace.stores import open_locked, open_owned
        from state.stores.disk.lock import acquire

        if self._store is None:
            dreaming = self.beside.open_store if self.beside is not None else None
            if dreaming is not None:  # share the dream's lock and index
                self._store = self._stack.enter_context(closing(open_owned(dreaming.index, self.config)))
            else:
                self._lock = self._stack.enter_context(acquire(self.workspace, self.command, self.wait_seconds))
                opening = open_locked(self._lock, self.config, self.embedding, self.index)
                self._store = self._stack.enter_context(opening)
        yield self._store

    def exclusive(self, *, wait: bool = False) -> "AbstractContextManager[Store]":  # noqa: ARG002 - who dreams here does not queue
        """Open the stores as `write` does. Raise BusyError while this process dreams, even with `wait`."""
        if self.beside is not None:
            raise BusyError(f"{self.workspace.root}: a dream is under way", "wait for it and try again")
        return self.write()

    @contextmanager
    def offline(self) -> "Iterator[LockedWorkspace]":
        """Lock the workspace and leave its stores closed."""
        from daemon.workspace.vector_index import Embedding
        from state.stores.disk.lock import acquire

        embedding = self.embedding or Embedding(model=self.config.embeddings.model)
        with acquire(self.workspace, self.command, self.wait_seconds) as lock:
            yield LockedWorkspace(lock.check, embedding)

    def take(self, settings: DreamSettings) -> None:
        """Use these settings from now on."""
        self.config = settings.applied(self.config)

    def dream(self, reason: Reason, mode: "Mode") -> "Outcome":
        """Dream in this process, or with a model in a child process if this one stays.

        First follow the dream of another `dreamd dream`; if nothing came since it began, its outcome is this one's.
        """
        followed: Outcome | None = None
        while True:
            if (holder := self._other_dreamer()) is not None:
                followed = self._follow(holder) or followed
                self.wait_seconds = max(self.wait_seconds, _TURN_SECONDS)
            try:
                return self._dream_here(reason, mode)
            except NothingToDoError:
                if followed is None:
                    raise
                return followed
            except BusyError:
                if self._store is not None or self._other_dreamer() is None:
                    raise
            except KeyboardInterrupt:
                raise KeyboardInterrupt(_STOPPED) from None

    def _dream_here(self, reason: Reason, mode: "Mode") -> "Outcome":
        with self.write() as store:
            if self.index is not None and self._lock is not None:
                from daemon.dream.process import dream_beside

                return dream_beside(store, self._lock, reason, mode, self.report)
            from daemon.dream.run import dream_now

            return dream_now(store, reason, mode, self.report)

    def _other_dreamer(self) -> "Holder | None":
        """Return another `dreamd dream` that holds the workspace."""
        from state.stores.disk.lock import is_stopped, present_holder

        holder = None if self._store or self.beside else present_holder(self.workspace)
        is_one = holder is not None and holder.command == DREAM_COMMAND and not is_stopped(holder)
        return holder if is_one else None

    def _follow(self, holder: "Holder") -> "Outcome | None":
        """Follow the dream of this holder to its end; return its outcome, None if it made no version."""
        from daemon.dream.elsewhere import follow_elsewhere

        is_dreaming = f"process {holder.pid} is dreaming already; then comes what is new since it began"
        try:
            self.report(Step("follow", is_dreaming))
            return follow_elsewhere(self.workspace, self.config, holder, self.report)
        except KeyboardInterrupt:
            goes_on = f"process {holder.pid} goes on with its dream: 'dreamd dream' follows it"
            raise KeyboardInterrupt(goes_on) from None

    def report(self, step: Step) -> None:
        """Pass the step on to the caller."""
        self.on_step(step)

    def reload(self) -> None:
        """Read the configuration again, and have a running daemon do so."""
        from daemon.api.client import daemon
        from daemon.config.settings import load

        if (client := daemon()) is not None:
            try:
                client.post("/v1/reload", {"key": "timezone"})
            except DreamdError as error:
                self.notices.append(f"the daemon did not read its configuration again: {error}")
        self.config = load(self.config.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self.notices += self._store.notices
            self._store = None
        for notice in dict.fromkeys(self.notices):
            self.on_notice(notice)
        self._stack.close()
