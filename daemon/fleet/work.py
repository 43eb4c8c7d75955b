"""Work: the jobs of workspaces, dreams and passes: how they are queued, run, and bounded by ceilings.

    sweep: due_at <= now ─> job of Procrastinate ─> this process's queue ─> desk ─> dream or pass ─> commit

Procrastinate only fetches and wakes. It retries nothing: the schedule says when a job is due again, and the sweep
finds jobs that died with their process.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

from procrastinate import App, PsycopgConnector

from daemon.config.settings import Config, day_start
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.fleet.desk import Desk
from daemon.fleet.held import Held
from daemon.observability import logs
from daemon.observability.failures import failure
from daemon.observability.metrics import Metrics
from daemon.service.jobs import Jobs
from daemon.service.schedule import Action
from daemon.workspace.stores import utc_now
from state.budget import Spend
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
from state.stores.fleet.database import KEEP_ALIVE, FleetDatabase, conninfo
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.leases import Leases
from state.stores.fleet.registry import Places
from state.stores.fleet.schedule import ANYBODYS_QUEUE, WORK, Schedule, Use
from state.stores.generations.guard import StoreAwayError

# After this wait, the job goes to the queue of the workspace's holder.
_NOT_KEPT_WAIT = timedelta(seconds=2)
_BUSY_WAIT = timedelta(seconds=10)
# A full ceiling may open before midnight: dreams under way cost less than was reserved, or the operator raises it.
_CEILING_WAIT = timedelta(minutes=10)
_POLL_SECONDS = 5.0
_RETRY_SECONDS = 1.0
MOST_ROWS = 500
"""Rows that one statement queues and locks meanwhile, for some tens of milliseconds."""
LOOK_SECONDS = 10.0
_OLD_SECONDS = 600.0


class Work:
    """Carries out jobs in the workspaces of a desk. Any thread may call."""

    def __init__(
        self, config: Config, desk: Desk, database: FleetDatabase, metrics: Metrics, stopping: threading.Event
    ) -> None:
        self._config = config
        self._desk = desk
        self._leases = Leases(database)
        self._schedule = Schedule(database)
        # Discreet: tenants can read ledgers and generations, so errors of the operator's model go to the log alone.
        self._jobs = Jobs(metrics, stopping, discreet=True)
        self._lock = threading.Lock()
        self.dreaming = 0

    def run_job(self, workspace: int, reason: str = "") -> None:
        """Do what the workspace needs, or dream for this reason if one is given.

        After any failure, the schedule says when the job is tried again.
        """
        log = logs.get(workspace=f"ws-{workspace}")
        try:
            with self._desk.holding(workspace) as held:
                held.require_store()
                held.absorb()
                with suppress(NothingToDoError, StoppedError):
                    self._do(held, reason)
                self._leases.settle(workspace, held.due_in())
        except (NotKeptError, BusyError, QuotaError, StoreAwayError) as error:
            log.info("job_put_off", why=str(error))
            with suppress(DreamdError):
                self._leases.settle(workspace, _wait_after(error), done=False)
        except (FencedError, UnreachableError, NotFoundError) as error:
            log.info("job_ended", why=str(error))  # the sweep queues again what was not committed
        except Exception as error:  # noqa: BLE001 - it is recorded, and tried again later
            log.error("job_failed", error=error)
            mine = self._desk.find(workspace)
            if mine is None or not mine.lost:  # else another process has the job
                with suppress(DreamdError):
                    self._leases.settle_failed(workspace, failure(error).what)

    def _do(self, held: Held, reason: str) -> None:
        if held.dreaming:
            raise BusyError(f"{held.place.handle}: a dream is under way", "what it leaves is done afterwards")
        decision = held.decision()
        if reason or (decision is not None and decision.action is Action.DREAM):
            why = Reason(reason) if reason else decision.reason if decision is not None else None
            self.require_room(held)
            self.dream(held, why or Reason.MANUAL, Mode.AUTO, lambda _: None)
        elif decision is not None and decision.action is Action.PASS:
            self.consolidate(held, decision.reason)
        elif held.is_changed:
            held.commit()

    def require_room(self, held: Held) -> None:
        """Reserve a dream under the ceilings of the workspace's tenant and of the fleet, or raise QuotaError."""

        def refused(quotas: Quotas, own: Use, everybody: Use) -> str:
            return refusal(self._config, quotas, own, everybody)

        with_all = bool(self._config.fleet.usd_per_day or self._config.fleet.tokens_per_day)
        if what := self._schedule.admit(held.place, refused, with_all=with_all):
            raise QuotaError(f"the day's ceiling of {what} is reached", "it opens at midnight UTC")

    def dream(self, held: Held, reason: Reason, mode: Mode, on_step: Callable[[Step], None]) -> Outcome:
        """Dream, and commit the result, even of a failed dream, which cost something too. Raise as `dream_now`."""
        is_real = mode is not Mode.DRY
        dreams = 0 if is_real else None

        def step(done: Step) -> None:
            held.charge()
            held.check()
            on_step(done)

        self._count(held, 1)
        try:
            if is_real:
                held.keeper.changed = False  # a dream also reads what a pass would read
            held.charged = Spend()
            outcome = self._jobs.dream(held.keeper, reason, mode, step)
            dreams = 1 if is_real else None
        except (FencedError, UnreachableError):
            held.lost = True
            raise
        except BaseException as error:
            held.keeper.changed = True
            if isinstance(error, BusyError):  # another dream is under way, which is counted already
                dreams = None
            elif is_real and not isinstance(error, NothingToDoError | StoppedError):
                dreams = 1
            raise
        finally:
            try:
                if not held.lost:
                    held.commit(dreams=dreams)
            finally:
                self._count(held, -1)
        return outcome

    def consolidate(self, held: Held, reason: Reason | None) -> None:
        """Run a pass and the maintenance due in sessions, and commit. Raise as the pass does."""
        try:
            self._jobs.consolidate(held.keeper, reason, utc_now())
        finally:
            if not held.lost:
                held.commit()

    def _count(self, held: Held, more: int) -> None:
        with self._lock:
            self.dreaming += more
            held.dreaming += more


def refusal(config: Config, quotas: Quotas, own: Use, everybody: Use) -> str:
    """Return the ceiling that forbids a tenant another dream now; empty if there is none.

    Until a dream has ended, it counts as much as its own ceiling allows.
    """
    limits, fleet = config.limits, config.fleet
    checks: list[tuple[str, float, float]] = [("dreams", own.dreams + own.dreaming, quotas.dreams_per_day)]
    if config.model.name is not None:  # without a model dreams are free
        for whose, use, usd, tokens in (
            ("", own, quotas.usd_per_day, quotas.tokens_per_day),
            (" of the fleet", everybody, fleet.usd_per_day, fleet.tokens_per_day),
        ):
            checks.append((f"usd{whose}", use.usd + use.dreaming * limits.usd_per_dream, usd))
            checks.append((f"tokens{whose}", use.tokens + use.dreaming * limits.tokens_per_dream, tokens))
    return next((what for what, used, most in checks if most and used >= most), "")


def _wait_after(error: DreamdError) -> timedelta:
    """Return how long to wait before a job that was put off is tried again."""
    if isinstance(error, QuotaError):
        now = utc_now()
        return min(_CEILING_WAIT, day_start(now) + timedelta(days=1) - now)
    return _NOT_KEPT_WAIT if isinstance(error, NotKeptError) else _BUSY_WAIT


# ------------------------------------------------------------------- running and queueing jobs


def job_queue(
    url: str,
    size: int,
    own_queue: str,
    run: Callable[[int, str], None],
    stopping: threading.Event,
    grace_seconds: float = 8.0,
) -> threading.Thread:
    """Return a thread in which Procrastinate calls `run(workspace, reason)` for each job, in a thread of its own.

    `own_queue`: the queue of jobs for workspaces that this process holds. After `stopping` it takes no job, and those
    under way have so long to end.
    """
    for name in ("procrastinate", "psycopg.pool"):  # our own log reports their errors
        logging.getLogger(name).setLevel(logging.CRITICAL)
    settings = {"options": "-c search_path=dreamd,public", **KEEP_ALIVE}

    def work(workspace: int, reason: str) -> None:
        run(workspace, reason)

    async def serve() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(size + 2, "job"))
        is_told = False
        while not stopping.is_set():
            connector = PsycopgConnector(conninfo=conninfo(url), min_size=1, max_size=size + 2, kwargs=settings)
            app = App(connector=connector)
            app.task(name=WORK, retry=False)(work)
            try:
                async with app.open_async():
                    is_told = False
                    await _take_jobs(app, size, own_queue, stopping, grace_seconds)
            except Exception as error:  # noqa: BLE001 - the database was unreachable; try again
                if not (stopping.is_set() or is_told):
                    logs.get().warning("queue_interrupted", error=error)
                is_told = True
            if not stopping.is_set():
                await asyncio.sleep(_RETRY_SECONDS)

    return threading.Thread(target=lambda: asyncio.run(serve()), name="queue", daemon=True)


async def _take_jobs(app: App, size: int, own_queue: str, stopping: threading.Event, grace_seconds: float) -> None:
    """Take jobs until the process stops."""
    task = asyncio.create_task(
        app.run_worker_async(
            queues=[ANYBODYS_QUEUE, own_queue],
            concurrency=size,
            fetch_job_polling_interval=_POLL_SECONDS,
            abort_job_polling_interval=60.0,
            delete_jobs="always",
            install_signal_handlers=False,
            update_heartbeat_interval=10.0,
            stalled_worker_timeout=120.0,
            shutdown_graceful_timeout=grace_seconds,
        )
    )
    try:
        while not (task.done() or stopping.is_set()):
            await asyncio.wait([task], timeout=0.2)
    finally:
        task.cancel()
        [ended] = await asyncio.gather(task, return_exceptions=True)
    if isinstance(ended, Exception):
        raise ended


class Sweeper:
    """Queues jobs for the workspaces that are due, and clears jobs whose process died.

    Each process has one; whichever has the schedule's lock does the queueing.
    """

    def __init__(self, database: FleetDatabase) -> None:
        self._schedule = Schedule(database)
        self._inbox = Inbox(database)
        self._places = Places(database)
        self._look_at = self._old_at = 0.0

    def sweep(self) -> None:
        """Queue jobs for all workspaces that are due."""
        while self.tick() >= MOST_ROWS:
            pass

    def tick(self) -> int:
        """Queue jobs for at most `MOST_ROWS` workspaces; return how many were looked at."""
        steady = time.monotonic()
        if steady >= self._look_at:
            self._look_at = steady + LOOK_SECONDS
            if lost := self._schedule.clear_lost():
                logs.get().warning("jobs_lost", jobs=len(lost))
        if steady >= self._old_at:
            self._old_at = steady + _OLD_SECONDS
            self._inbox.sweep()
            self._places.sweep()
        return self._schedule.queue_due(MOST_ROWS)
