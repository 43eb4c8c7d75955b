"""Jobs: dreams and passes of workspaces: how they are queued, run, and bounded by the ceilings of the fleet.

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
from daemon.engine.schedule import Action, Decision
from daemon.engine.work import Work
from daemon.fleet.desk import Desk
from daemon.fleet.leased import Leased
from daemon.observability import logs
from daemon.observability.failures import failure
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
from state.fleet import Place, Quotas
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


class Jobs:
    """Carries out jobs in the workspaces of a desk. Any thread may call."""

    def __init__(self, desk: Desk, leases: Leases, work: Work) -> None:
        self._desk = desk
        self._leases = leases
        self._work = work

    def run(self, workspace: int, reason: str = "") -> None:
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

    def _do(self, held: Leased, reason: str) -> None:
        held.require_awake()
        _, decision = self._work.look(held)
        if reason:
            decision = Decision(Action.DREAM, Reason(reason), "asked for", utc_now())
        if decision is not None:
            self._work.do(held, decision)
        if held.is_changed:  # by what arrived, or by a session's maintenance
            held.commit()


def reserve(config: Config, schedule: Schedule, place: Place) -> str:
    """Reserve a dream under the ceilings of the tenant and of the fleet; return the one that forbids it."""

    def refused(quotas: Quotas, own: Use, everybody: Use) -> str:
        return refusal(config, quotas, own, everybody)

    with_all = bool(config.fleet.usd_per_day or config.fleet.tokens_per_day)
    return schedule.admit(place, refused, with_all=with_all)


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
