"""Worker jobs: dreams and passes of owned workspaces, each with the commit of what it made."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.fleet.workers.owned import Owned
from daemon.observability.metrics import Metrics
from daemon.service.jobs import Jobs
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import BusyError, FencedError, NothingToDoError, StoppedError, UnreachableError


class WorkerJobs:
    """Carries out jobs in workspaces that are owned."""

    def __init__(self, metrics: Metrics, stopping: threading.Event) -> None:
        # The model is the operator's: errors stand in ledgers and generations, which are the tenants'.
        self._jobs = Jobs(metrics, stopping, discreet=True)
        self._lock = threading.Lock()
        self.dreaming = 0

    def dream(
        self, owned: Owned, reason: Reason, mode: Mode, on_step: Callable[[Step], None], *, queued: bool = False
    ) -> Outcome:
        """Dream, and commit what came of it: also of one that failed, which cost something. Raise as `dream_now`.

        `queued`: it was a job, which has ended then, unless it failed: the schedule has to be told that by itself.
        """
        dreams, answered = 0, not queued and mode is not Mode.DRY

        def step(done: Step) -> None:
            owned.charge()
            owned.check()
            on_step(done)

        with self._counted(owned):
            if mode is not Mode.DRY:
                owned.keeper.changed = False  # a dream reads by itself what a pass would read
            try:
                outcome = self._jobs.dream(owned.keeper, reason, mode, step)
                dreams = int(mode is not Mode.DRY)
            except (FencedError, UnreachableError):
                owned.lost = True
                raise
            except (NothingToDoError, StoppedError, BusyError) as error:
                owned.keeper.changed = True
                if isinstance(error, BusyError):  # another dream is under way, and is counted
                    queued = answered = False
                raise
            except BaseException:
                owned.keeper.changed, dreams, queued = True, int(mode is not Mode.DRY), False
                raise
            finally:
                if not owned.lost:
                    owned.commit(settled=queued, answered=answered, dreams=dreams)
            return outcome

    def consolidate(self, owned: Owned, reason: Reason | None) -> None:
        """Run a pass and what is due in sessions, and commit. Raise as the pass does.

        It was a job, which has ended then, unless it failed, as in `dream`.
        """
        now, settled = utc_now(), False
        owned.keeper.last_pass = now
        if reason is Reason.SPIKE:
            owned.keeper.last_spike_pass = now
        try:
            self._jobs.consolidate(owned.keeper, reason, now)
            settled = True
        finally:
            if not owned.lost:
                owned.commit(settled=settled)

    @contextmanager
    def _counted(self, owned: Owned) -> Iterator[None]:
        with self._lock:
            self.dreaming += 1
            owned.dreaming += 1
        try:
            yield
        finally:
            with self._lock:
                self.dreaming -= 1
                owned.dreaming -= 1
