"""A desk at a workspace that the daemon keeps, for the length of one call."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.compose import Store, visited
from daemon.config import Config
from daemon.dreaming import Mode, Outcome
from daemon.keeping import Keeper
from daemon.progress import Step
from daemon.status import Problem
from daemon.status import Service as Serving
from state.dream import Reason
from state.errors import BusyError, NotKeptError
from state.stores.workspace import Workspace

if TYPE_CHECKING:
    from concurrent.futures import Future


@dataclass(slots=True)
class KeeperDesk:
    """Works through the keeper; `submit` hands a dream to the slots, `wake` makes the daemon look at once."""

    keeper: Keeper
    config: Config
    tell: Callable[[Step], None]
    submit: "Callable[[Keeper, Reason, Mode, Callable[[Step], None] | None], Future[Outcome]]"
    wake: Callable[[Keeper], None]
    serving: Callable[[Keeper], Serving]
    notices: list[str] = field(default_factory=list)

    @property
    def workspace(self) -> Workspace:
        """The keeper's."""
        return self.keeper.workspace

    def reading(self) -> AbstractContextManager[Store]:
        """The same stores: they are open, and a reader takes no longer than a writer. Or beside another owner."""
        return self._noticing(self.keeper.store() if self.keeper.kept else visited(self.workspace, self.config))

    def store(self) -> AbstractContextManager[Store]:
        """Beside a dream that runs."""
        return self._noticing(self._kept().store())

    def alone(self) -> AbstractContextManager[Store]:
        """Raises BusyError while a dream runs: it may take minutes, and whoever asks is told rather than kept."""
        return self._noticing(self._kept().alone(wait=False))

    def dream(self, reason: Reason, mode: Mode) -> Outcome:
        """In a slot, before those that nobody waits for."""
        if self.keeper.dreaming:
            raise BusyError(f"{self.keeper.dreaming}; wait for it, 'dreamd status' shows when it is done")
        return self.submit(self._kept(), reason, mode, self.told).result()

    def dream_soon(self, reason: Reason) -> bool:
        """When a slot is free; a session that has ended is remembered while another dream runs."""
        from daemon.compose import clock

        if reason is Reason.SESSION_END:
            self.keeper.session_ended = clock()
            self.wake(self.keeper)
        else:
            self.submit(self._kept(), reason, Mode(self.config.dream.mode), None)
        return True

    def service(self) -> Serving:
        """What the daemon knows of this workspace."""
        return self.serving(self.keeper)

    def told(self, step: Step) -> None:
        """To whoever asked."""
        self.tell(step)

    def noted(self) -> None:
        """The daemon looks at once."""
        self.keeper.changed = True
        self.wake(self.keeper)

    def _kept(self) -> Keeper:
        """The keeper, if it keeps the workspace. Raises NotKeptError."""
        if not self.keeper.kept:
            why = next(iter(self.service().problems), Problem("it is being taken up", "try again"))
            raise NotKeptError(f"{self.workspace.root} is not in the daemon's keeping: {why.what}; {why.advice}")
        return self.keeper

    @contextmanager
    def _noticing(self, using: AbstractContextManager[Store]) -> Iterator[Store]:
        with using as store:
            try:
                yield store
            finally:
                self.notices += store.notices
