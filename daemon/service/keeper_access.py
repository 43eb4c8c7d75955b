"""DaemonAccess: one call's access to a workspace that the daemon keeps."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.api.access import LockedWorkspace
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.service.keeper import COMMAND, Keeper
from daemon.workspace.status import Problem
from daemon.workspace.status import ServiceStatus as Serving
from daemon.workspace.stores import Store, open_readonly
from state.dream import Reason
from state.errors import BusyError, DreamdError, NotKeptError
from state.stores.disk.lock import acquire
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from concurrent.futures import Future


# A pass ends within seconds (`daemon.service.jobs`).
_PASS_SECONDS = 10.0
_POLL_SECONDS = 0.02
_LEAVING_SECONDS = 5.0  # until the last one has let go


@dataclass(slots=True)
class DaemonAccess:
    """Works through the keeper; `submit` hands a dream to the slots, `wake` makes the daemon look at once."""

    keeper: Keeper
    config: Config
    on_step: Callable[[Step], None]
    submit: "Callable[[Keeper, Reason, Mode, Callable[[Step], None] | None], Future[Outcome]]"
    wake: Callable[[Keeper], None]
    serving: Callable[[Keeper], Serving]
    notices: list[str] = field(default_factory=list)

    @property
    def workspace(self) -> Workspace:
        """The keeper's."""
        return self.keeper.workspace

    def read(self) -> AbstractContextManager[Store]:
        """The same stores: they are open, and a reader takes no longer than a writer. Or beside another owner."""
        return self._noticing(self.keeper.store() if self.keeper.kept else open_readonly(self.workspace, self.config))

    def write(self) -> AbstractContextManager[Store]:
        """Beside a dream that runs."""
        return self._noticing(self._kept().store())

    def exclusive(self, *, wait: bool = False) -> AbstractContextManager[Store]:
        """Raises BusyError while a dream runs, which may take minutes; `wait`: queue behind it instead.

        A maintenance pass, which takes seconds, is always waited for. Polling instead of `wait` would lose against
        dreams that follow each other.
        """
        keeper = self._kept()
        if not wait:
            self._after_pass(keeper)
        return self._noticing(keeper.alone(wait=wait))

    def offline(self) -> AbstractContextManager[LockedWorkspace]:
        """The keeper lets it go for so long, and takes it up again."""
        keeper = self._kept()
        self._after_pass(keeper)
        return self._let_go(keeper)

    def dream(self, reason: Reason, mode: Mode) -> Outcome:
        """In a slot, before those that nobody waits for."""
        if self.keeper.dreaming:
            raise BusyError(f"{self.keeper.dreaming}", "wait for it, 'dreamd status' shows when it is done")
        return self.submit(self._kept(), reason, mode, self.report).result()

    def dream_soon(self, reason: Reason) -> bool:
        """When a slot is free; a session that has ended is remembered while another dream runs."""
        from daemon.workspace.stores import utc_now

        if reason is Reason.SESSION_END:
            self._kept().session_ends(utc_now())
            self.wake(self.keeper)
        else:
            self.submit(self._kept(), reason, Mode(self.config.dream.mode), None)
        return True

    def service(self) -> Serving:
        """What the daemon knows of this workspace."""
        return self.serving(self.keeper)

    def report(self, step: Step) -> None:
        """Pass the step on to the caller."""
        self.on_step(step)

    def mark_changed(self) -> None:
        """Have the daemon look for new notes at once."""
        self.keeper.changed = True
        self.wake(self.keeper)

    @contextmanager
    def _let_go(self, keeper: Keeper) -> Iterator[LockedWorkspace]:
        try:
            with keeper.vacated(), acquire(self.workspace, COMMAND, _LEAVING_SECONDS) as lock:
                yield LockedWorkspace(lock.check, keeper.embedding)
        finally:
            with suppress(DreamdError, sqlite3.Error):  # else the next look says what is in the way
                keeper.enter()

    @staticmethod
    def _after_pass(keeper: Keeper) -> None:
        until = time.monotonic() + _PASS_SECONDS
        while keeper.held_up and not keeper.dreaming and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)

    def _kept(self) -> Keeper:
        """The keeper, if it keeps the workspace. Raises NotKeptError, and BusyError while it has let it go."""
        if self.keeper.lent:
            raise BusyError(f"{self.workspace.root}: {self.keeper.lent}", "wait for it and try again")
        if not self.keeper.kept:
            why = next(iter(self.service().problems), Problem("it is being taken up", "try again"))
            raise NotKeptError(f"{self.workspace.root} is not in the daemon's keeping: {why.what}", why.advice)
        return self.keeper

    @contextmanager
    def _noticing(self, using: AbstractContextManager[Store]) -> Iterator[Store]:
        with using as store:
            try:
                yield store
            finally:
                self.notices += store.notices
