"""Work: the jobs of workspaces, dreams and passes: who claims them, who does them, and under which ceilings.

    due_at <= now ─> claimed by a process that has room, which holds it then ─> desk ─> dream or pass ─> commit

Nothing is tried again by itself: when a job is due again the schedule says, and jobs whose process died are found by
whoever looks next.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

from daemon.config.settings import Config, day_start
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.fleet.desk import Desk, Held
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
from state.fleet import Quotas
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.registry import Places
from state.stores.fleet.schedule import Schedule, Use

_BUSY_WAIT = timedelta(seconds=10)
# Dreams under way may cost less than is counted for them, and a ceiling may be raised.
_CEILING_WAIT = timedelta(minutes=10)
LOST_SECONDS = 10.0
"""So often a process looks for jobs that died."""
_OLD_SECONDS = 600.0


class Work:
    """Claims jobs and carries them out in the workspaces of a desk. Any thread may call."""

    def __init__(
        self, config: Config, desk: Desk, database: FleetDatabase, metrics: Metrics, stopping: threading.Event
    ) -> None:
        self._config, self._desk = config, desk
        self._schedule, self._inbox, self._places = Schedule(database), Inbox(database), Places(database)
        # The model is the operator's: errors stand in ledgers and generations, which are the tenants'.
        self._jobs = Jobs(metrics, stopping, discreet=True)
        self._lock = threading.Lock()
        self.dreaming = 0
        self._running: set[int] = set()
        self._threads = ThreadPoolExecutor(config.fleet.dreams_at_once, "job")
        self._lost_at = self._old_at = 0.0

    # ------------------------------------------------------------ claims

    def tick(self) -> int:
        """Begin the jobs that this process has room for; return how many."""
        steady = time.monotonic()
        if steady >= self._lost_at:
            self._lost_at = steady + LOST_SECONDS
            if lost := self._schedule.clear_lost(self._desk.me, [*self._running]):
                logs.get().warning("jobs_lost", jobs=len(lost))
        if steady >= self._old_at:
            self._old_at = steady + _OLD_SECONDS
            self._inbox.sweep()
            self._places.sweep()
        room = self._config.fleet.dreams_at_once - len(self._running)
        if room <= 0 or not self._schedule.is_due():
            return 0
        claimed = self._schedule.claim(self._desk.me, room)
        self._running |= claimed.keys()
        for workspace, reason in claimed.items():
            self._threads.submit(self.run_job, workspace, reason)
        return len(claimed)

    def run_job(self, workspace: int, reason: str = "") -> None:
        """Do what the workspace wants, or the dream for this reason.

        Whatever it fails with, the schedule knows when it is tried again.
        """
        try:
            self._run_job(workspace, reason)
        finally:
            with suppress(DreamdError):
                self._desk.let_go(workspace)
            self._running.discard(workspace)

    def _run_job(self, workspace: int, reason: str) -> None:
        log = logs.get(workspace=f"ws-{workspace}")
        try:
            with self._desk.holding(workspace) as held:
                held.absorb()
                self._do(held, reason)
        except (NothingToDoError, StoppedError, FencedError, NotKeptError, NotFoundError) as error:
            log.info("job_ended", why=str(error))  # it is another process's, or is told already
        except (BusyError, QuotaError) as error:
            log.info("job_put_off", why=str(error))
            with suppress(DreamdError):
                self._schedule.end_job(workspace, self._desk.me, "put off", _wait_after(error))
        except Exception as error:  # noqa: BLE001 - it is told, and tried again later
            problem = self._desk.problem if isinstance(error, UnreachableError) else failure(error).what
            if not problem:  # PostgreSQL was away, which is no fault of the workspace
                log.info("job_ended", why=str(error))
                return
            log.error("job_failed", error=error)
            with suppress(DreamdError):
                self._schedule.end_job(workspace, self._desk.me, "failed", problem=problem)

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
        elif held.is_changed:
            held.commit(settled=True)
        else:
            self._schedule.end_job(held.place.id, self._desk.me, "done", held.due_in())

    def require_room(self, held: Held) -> None:
        """Count a dream of the workspace's tenant from now on, or raise QuotaError."""

        def refused(quotas: Quotas, own: Use, everybody: Use) -> str:
            return refusal(self._config, quotas, own, everybody)

        with_all = bool(self._config.fleet.usd_per_day or self._config.fleet.tokens_per_day)
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


def refusal(config: Config, quotas: Quotas, own: Use, everybody: Use) -> str:
    """Return why a tenant may have no dream beside those under way; empty when it may.

    What is under way may cost as much as its ceiling allows, and is counted so until it has ended.
    """
    limits, fleet = config.limits, config.fleet
    checks: list[tuple[str, float, float]] = [("dreams", own.dreams + own.dreaming, quotas.dreams_per_day)]
    if config.model.name is not None:  # else nothing costs
        for whose, use, usd, tokens in (
            ("", own, quotas.usd_per_day, quotas.tokens_per_day),
            (" of the fleet", everybody, fleet.usd_per_day, fleet.tokens_per_day),
        ):
            checks.append((f"usd{whose}", use.usd + use.dreaming * limits.usd_per_dream, usd))
            checks.append((f"tokens{whose}", use.tokens + use.dreaming * limits.tokens_per_dream, tokens))
    return next((what for what, used, most in checks if most and used >= most), "")


def _wait_after(error: DreamdError) -> timedelta:
    """Return after how long a job that could not be done is tried again."""
    if isinstance(error, QuotaError):
        now = utc_now()
        return min(_CEILING_WAIT, day_start(now) + timedelta(days=1) - now)
    return _BUSY_WAIT
