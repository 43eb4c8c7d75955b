"""Work: the jobs of workspaces: dreams and passes, each with the commit of what it made, under the ceilings."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from daemon.config.settings import Config, day_start
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.fleet.decision import refusal
from daemon.fleet.desk import Desk
from daemon.fleet.held import Held
from daemon.observability import logs
from daemon.observability.failures import failure
from daemon.observability.metrics import Metrics
from daemon.service.jobs import Jobs
from daemon.service.schedule import Action
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import (
    BusyError,
    DreamdError,
    FencedError,
    NotFoundError,
    NothingToDoError,
    NotKeptError,
    QuotaError,
    StoppedError,
    UnreachableError,
)
from state.fleet.tenant import Quotas
from state.stores.fleet.leases import Leases
from state.stores.fleet.schedule import Schedule, Use

# The queue of its holder gets the job then.
_NOT_KEPT_WAIT = timedelta(seconds=2)
_BUSY_WAIT = timedelta(seconds=10)
# Dreams under way may cost less than is counted for them, and a ceiling may be raised.
_CEILING_WAIT = timedelta(minutes=10)


class Work:
    """Carries out jobs in the workspaces of a desk. Any thread may call."""

    def __init__(
        self,
        config: Config,
        desk: Desk,
        leases: Leases,
        schedule: Schedule,
        metrics: Metrics,
        stopping: threading.Event,
    ) -> None:
        self._config = config
        self._desk = desk
        self._leases = leases
        self._schedule = schedule
        # The model is the operator's: errors stand in ledgers and generations, which are the tenants'.
        self._jobs = Jobs(metrics, stopping, discreet=True)
        self._lock = threading.Lock()
        self.dreaming = 0

    def run_job(self, workspace: int, reason: str = "") -> None:
        """Do what the workspace wants, or the dream for this reason.

        Whatever it fails with, the schedule knows when it is tried again.
        """
        log = logs.get(workspace=f"ws-{workspace}")
        try:
            with self._desk.holding(workspace) as held:
                held.absorb()
                self._do(held, reason)
        except (NotKeptError, BusyError, QuotaError) as error:
            log.info("job_put_off", why=str(error))
            with suppress(DreamdError):
                self._leases.put_off(workspace, _wait_after(error))
        except (NothingToDoError, StoppedError, FencedError, UnreachableError, NotFoundError) as error:
            log.info("job_ended", why=str(error))  # the sweep finds what was not committed
        except Exception as error:  # noqa: BLE001 - it is told, and tried again later
            log.error("job_failed", error=error)
            mine = self._desk.find(workspace)
            if mine is not None and mine.lost:  # another one's job is none of ours
                return
            with suppress(DreamdError):
                self._leases.settle_failed(workspace, failure(error).what)

    def _do(self, held: Held, reason: str) -> None:
        if held.dreaming:
            raise BusyError(f"{held.place.handle}: a dream is under way", "what it leaves is done afterwards")
        decision = held.decision()
        if reason or (decision is not None and decision.action is Action.DREAM):
            why = Reason(reason) if reason else decision.reason if decision is not None else None
            self.require_room(held)
            self.dream(held, why or Reason.MANUAL, Mode(self._config.dream.mode), lambda _: None, queued=True)
        elif decision is not None and decision.action is Action.PASS:
            self.consolidate(held, decision.reason)
        else:
            held.settle()

    def require_room(self, held: Held) -> None:
        """Count a dream of the workspace's tenant from now on, or raise QuotaError."""
        fleet = self._config.fleet

        def refused(quotas: Quotas, own: Use, everybody: Use) -> str:
            return refusal(self._config, quotas, own, everybody)

        with_all = bool(fleet.usd_per_day or fleet.tokens_per_day)
        if what := self._schedule.admit(held.place, refused, with_all=with_all):
            raise QuotaError(f"the day's ceiling of {what} is reached", "it opens at midnight UTC")

    def dream(
        self, held: Held, reason: Reason, mode: Mode, on_step: Callable[[Step], None], *, queued: bool = False
    ) -> Outcome:
        """Dream, and commit what came of it: also of one that failed, which cost something. Raise as `dream_now`.

        `queued`: it was a job, which has ended then, unless it failed: the schedule has to be told that by itself.
        """
        dreams, answered = 0, not queued and mode is not Mode.DRY

        def step(done: Step) -> None:
            held.charge()
            held.check()
            on_step(done)

        self._count(held, 1)
        try:
            if mode is not Mode.DRY:
                held.keeper.changed = False  # a dream reads by itself what a pass would read
            try:
                outcome = self._jobs.dream(held.keeper, reason, mode, step)
                dreams = int(mode is not Mode.DRY)
            except (FencedError, UnreachableError):
                held.lost = True
                raise
            except (NothingToDoError, StoppedError, BusyError) as error:
                held.keeper.changed = True
                if isinstance(error, BusyError):  # another dream is under way, and is counted
                    queued = answered = False
                raise
            except BaseException:
                held.keeper.changed, dreams, queued = True, int(mode is not Mode.DRY), False
                raise
            finally:
                if not held.lost:
                    held.commit(settled=queued, answered=answered, dreams=dreams)
            return outcome
        finally:
            self._count(held, -1)

    def consolidate(self, held: Held, reason: Reason | None) -> None:
        """Run a pass and what is due in sessions, and commit. Raise as the pass does.

        It was a job, which has ended then, unless it failed, as in `dream`.
        """
        now, settled = utc_now(), False
        held.keeper.last_pass = now
        if reason is Reason.SPIKE:
            held.keeper.last_spike_pass = now
        try:
            self._jobs.consolidate(held.keeper, reason, now)
            settled = True
        finally:
            if not held.lost:
                held.commit(settled=settled)

    def _count(self, held: Held, more: int) -> None:
        with self._lock:
            self.dreaming += more
            held.dreaming += more


def _wait_after(error: DreamdError) -> timedelta:
    """Return after how long a job that could not be done is tried again."""
    if isinstance(error, QuotaError):
        now = utc_now()
        return min(_CEILING_WAIT, day_start(now) + timedelta(days=1) - now)
    return _NOT_KEPT_WAIT if isinstance(error, NotKeptError) else _BUSY_WAIT
