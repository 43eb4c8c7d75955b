"""Daemon access: one client's call on a workspace that the daemon keeps."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.api.access import LockedWorkspace, ReplyT
from daemon.api.dispatch import KEEPER
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.service.keeper import Keeper
from daemon.workspace.status import Problem, ServiceStatus
from daemon.workspace.stores import Store, open_readonly
from state.dream import Reason
from state.errors import BusyError, NotKeptError
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from concurrent.futures import Future

    from daemon.api.operations.operation import Operation
    from daemon.api.operations.request import Request


# A pass ends within seconds (`daemon.service.jobs`).
_PASS_SECONDS = 10.0
_RELEASE_SECONDS = 5.0  # until the keeper's lock is free


@dataclass(slots=True)
class DaemonAccess:
    """Implements `WorkspaceAccess` with the keeper's stores.

    `submit` asks for a dream, `wake` makes the scheduler look at once, `service_status` is what `service` returns,
    `acquire` takes up a workspace that was released.
    """

    keeper: Keeper
    config: Config
    on_step: Callable[[Step], None]
    submit: "Callable[[Keeper, Reason, Mode, Callable[[Step], None] | None], Future[Outcome]]"
    wake: Callable[[Keeper], None]
    service_status: Callable[[Keeper], ServiceStatus]
    acquire: Callable[[], object]
    notices: list[str] = field(default_factory=list)

    @property
    def workspace(self) -> Workspace:
        """The keeper's."""
        return self.keeper.workspace

    def run(self, operation: "Operation[..., ReplyT]", request: "Request") -> ReplyT:
        """Run the operation in this process."""
        return operation.answer(self, request)

    def read(self) -> AbstractContextManager[Store]:
        """Open the stores, as for `write`; to read only while another process has the workspace."""
        return self._noticing(
            self.keeper.store() if self.keeper.holds_lock else open_readonly(self.workspace, self.config)
        )

    def write(self) -> AbstractContextManager[Store]:
        """Open the stores, also while a dream runs."""
        return self._noticing(self._kept().store())

    def exclusive(self, *, wait: bool = False) -> AbstractContextManager[Store]:
        """Use the stores, one user at a time. Raise BusyError while a dream runs, or waits for it with `wait`.

        A pass, which takes seconds, is always waited for. Retries instead of `wait` would come too late when dreams
        follow each other.
        """
        keeper = self._kept()
        if not wait:
            keeper.wait_for_pass(_PASS_SECONDS)
        return self._noticing(keeper.exclusive(wait=wait))

    def offline(self) -> AbstractContextManager[LockedWorkspace]:
        """Release the workspace and lock it for this call alone; the keeper acquires it again afterwards."""
        keeper = self._kept()
        keeper.wait_for_pass(_PASS_SECONDS)
        return self._released(keeper)

    def dream(self, reason: Reason, mode: Mode) -> Outcome:
        """Have it dreamt before those that nobody waits for, and wait for it. Raise BusyError while one runs."""
        if self.keeper.dreaming:
            raise BusyError(f"{self.keeper.dreaming}", "wait for it, 'dreamd status' shows when it is done")
        return self.submit(self._kept(), reason, mode, self.report).result()

    def dream_soon(self, reason: Reason) -> bool:
        """Ask for a dream; a session's end is made durable, and the schedule decides when it is dreamt for."""
        from daemon.workspace.stores import utc_now

        if reason is Reason.SESSION_END:
            self._kept().record_session_end(utc_now())
            self.wake(self.keeper)
        else:
            self.submit(self._kept(), reason, Mode.AUTO, None)
        return True

    def service(self) -> ServiceStatus:
        """Return the daemon's part of this workspace's status."""
        return self.service_status(self.keeper)

    def report(self, step: Step) -> None:
        """Report the step to the client."""
        self.on_step(step)

    def mark_changed(self) -> None:
        """Have the scheduler look at once: a note was written."""
        self.keeper.changed = True
        self.wake(self.keeper)

    @contextmanager
    def _released(self, keeper: Keeper) -> Iterator[LockedWorkspace]:
        try:
            with keeper.offline(), acquire(self.workspace, KEEPER, _RELEASE_SECONDS) as lock:
                yield LockedWorkspace(lock.check, keeper.embedding)
        finally:
            self.acquire()

    def _kept(self) -> Keeper:
        """Return the keeper, if it holds the lock. Raise BusyError while it is offline, else NotKeptError."""
        if self.keeper.offline_reason:
            raise self.keeper.unkept()
        if not self.keeper.holds_lock:
            why = next(
                iter(self.service().problems), Problem("the daemon is still opening this workspace", "try again")
            )
            raise NotKeptError(f"{self.workspace.root} is not in the daemon's keeping: {why.what}", why.advice)
        return self.keeper

    @contextmanager
    def _noticing(self, using: AbstractContextManager[Store]) -> Iterator[Store]:
        with using as store:
            try:
                yield store
            finally:
                self.notices += store.notices
