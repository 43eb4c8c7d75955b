"""Access: a client's call on a workspace that this process holds, over its open stores."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.api.access import LockedWorkspace, WorkspaceAccess
from daemon.config.per_dream import DreamSettings
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.engine.held import Held
from daemon.workspace.status import Problem, ServiceStatus
from daemon.workspace.stores import Store, open_readonly
from state.dream import Reason
from state.errors import NotKeptError
from state.stores.database.connection import may_write
from state.stores.disk.lock import KEEPER, acquire
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.dream.run import Mode, Outcome

_RELEASE_SECONDS = 5.0  # how long releasing the lock may take


def not_kept(root: Path, why: Problem | None) -> NotKeptError:
    """Return the error that says why the daemon does not keep this workspace; by default, it is still opening it."""
    why = why or Problem("the daemon is still opening this workspace", "try again")
    return NotKeptError(f"{root} is not in the daemon's keeping: {why.what}", why.advice)


@dataclass(slots=True)
class HeldAccess(WorkspaceAccess):
    """One client's call on a held workspace; `on_step` reports a dream's steps, `settings` are for its dream."""

    held: Held
    config: Config = field()
    on_step: Callable[[Step], None]
    notices: list[str] = field(default_factory=list, kw_only=True)
    settings: DreamSettings | None = field(default=None, kw_only=True)

    @abstractmethod
    def dream_now(self, reason: Reason, mode: "Mode") -> "Outcome":
        """Run a dream, ahead of those that no client waits for."""

    @abstractmethod
    def dream_soon(self, reason: Reason) -> bool:
        """Request a dream. A session's end is recorded durably, and the schedule decides when to dream."""

    @abstractmethod
    def service(self) -> ServiceStatus:
        """Return the daemon's part of this workspace's status."""

    def acquire(self) -> None:
        """Take the workspace again after it was released."""
        self.held.acquire()

    @property
    def workspace(self) -> Workspace:
        """Return the workspace that is held."""
        return self.held.workspace

    def read(self) -> AbstractContextManager[Store]:
        """Open the stores as `write` does, but read-only while another process has the workspace, or without room."""
        if not (self.held.holds_lock and may_write(self.workspace.database)):
            return self._noticing(open_readonly(self.workspace, self.config))
        return self._noticing(self.held.store())

    def write(self) -> AbstractContextManager[Store]:
        """Open the stores, also while a dream runs."""
        return self._noticing(self.require_held().store())

    def exclusive(self, *, wait: bool = False) -> AbstractContextManager[Store]:
        """Open the stores for one user at a time. Raise BusyError during a dream, unless `wait` is set.

        Always wait for a pass, which takes seconds. With `wait` the caller queues, because retries might never
        succeed between consecutive dreams.
        """
        held = self.require_held()
        if not wait:
            held.wait_for_pass()
        return self._noticing(held.exclusive(wait=wait))

    @contextmanager
    def offline(self) -> Iterator[LockedWorkspace]:
        """Release the workspace and lock it for this call; afterwards it is acquired again."""
        held = self.require_held()
        held.wait_for_pass()
        try:
            with held.offline(), acquire(self.workspace, KEEPER, _RELEASE_SECONDS) as lock:
                yield LockedWorkspace(lock.check, held.embedding)
        finally:
            self.acquire()

    def dream(self, reason: Reason, mode: "Mode") -> "Outcome":
        """Run a dream, or follow the one that is running.

        Raise BusyError if one of the two is a dry run, which changes nothing.
        """
        from daemon.dream.run import Mode  # late: an idle daemon does not load what dreams need

        held = self.require_held()
        if (running := held.running) is not None and Mode.DRY not in (running.mode, mode):
            self.report(Step("follow", "a dream was running already; what came since it began is for the next one"))
            self.ignore_settings()
            return running.follow(held, self.report)
        held.require_awake()
        return self.dream_now(reason, mode)

    def take(self, settings: DreamSettings) -> None:
        """Use these settings for a dream of this call. Raise ConfigError for invalid ones."""
        settings.applied(self.config)
        self.settings = settings

    def ignore_settings(self) -> None:
        """Say so if this call has settings that are not used."""
        if self.settings is not None and self.settings.sections:
            self.notices.append("the daemon dreams with its own settings; those of this call are not used")

    def reload(self) -> None:
        """Do nothing, as the configuration of a fleet's process is read once."""

    def report(self, step: Step) -> None:
        """Report the step to the client."""
        self.on_step(step)

    def mark_changed(self) -> None:
        """Record that a note was written."""
        self.held.changed = True

    def require_held(self) -> Held:
        """Return the workspace, if its lock is held. Raise BusyError while it is offline, else NotKeptError."""
        if self.held.offline_reason:
            raise self.held.unkept()
        if not self.held.holds_lock:
            raise not_kept(self.workspace.root, next(iter(self.service().problems), None))
        return self.held

    @contextmanager
    def _noticing(self, using: AbstractContextManager[Store]) -> Iterator[Store]:
        with using as store:
            try:
                yield store
            finally:
                self.notices += store.notices
