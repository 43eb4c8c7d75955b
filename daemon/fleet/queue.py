"""Queue: Procrastinate hands jobs to this process: those of anybody, and those of workspaces that it holds.

Procrastinate fetches, locks and wakes; nothing is tried again by it: when a job is due again the schedule says, and
jobs that died with their process are found by the sweep.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from daemon.observability import logs
from state.errors import UnreachableError
from state.stores.fleet.database import KEEP_ALIVE, FleetDatabase, conninfo
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.places import Places
from state.stores.fleet.processes import Processes
from state.stores.fleet.schedule import ANYBODYS_QUEUE, WORK, Schedule

if TYPE_CHECKING:
    from procrastinate import App

_POLL_SECONDS = 5.0
_RETRY_SECONDS = 1.0
_TICK_SECONDS = 1.0
MOST_ROWS = 500
"""Of one statement of some tens of milliseconds, whose rows nobody else can write meanwhile."""
NET_SECONDS = 10.0
_OLD_SECONDS = 600.0

Run = Callable[[int, str], None]


class Queue:
    """One thread with an event loop for Procrastinate, and a thread for each job. `run(workspace, reason)`."""

    def __init__(self, url: str, size: int, own_queue: str, run: Run, stopping: threading.Event) -> None:
        """`own_queue`: of the jobs of workspaces that this process holds."""
        self._url = url
        self._size = size
        self._own_queue = own_queue
        self._run_job = run
        self._stopping = stopping
        self._interrupted = False  # since it could last be opened
        self.thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="queue", daemon=True)
        for name in ("procrastinate", "psycopg.pool"):  # what goes wrong is told by our own log
            logging.getLogger(name).setLevel(logging.CRITICAL)

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(self._size + 2, "job"))
        while not self._stopping.is_set():
            try:
                await self._serve_once()
            except Exception as error:  # noqa: BLE001 - the database is away, or was; the loop goes on
                if not (self._stopping.is_set() or self._interrupted):
                    logs.get().warning("queue_interrupted", error=error)
                self._interrupted = True
            if not self._stopping.is_set():
                await asyncio.sleep(_RETRY_SECONDS)

    async def _serve_once(self) -> None:
        """Take jobs until the process stops."""
        app = self._app()
        async with app.open_async():
            self._interrupted = False
            task = asyncio.create_task(
                app.run_worker_async(
                    queues=[ANYBODYS_QUEUE, self._own_queue],
                    concurrency=self._size,
                    fetch_job_polling_interval=_POLL_SECONDS,
                    abort_job_polling_interval=60.0,
                    delete_jobs="always",
                    install_signal_handlers=False,
                    update_heartbeat_interval=10.0,
                    stalled_worker_timeout=120.0,
                    shutdown_graceful_timeout=8.0,
                )
            )
            try:
                while not (task.done() or self._stopping.is_set()):
                    await asyncio.wait([task], timeout=0.2)
            finally:
                if not task.done():
                    task.cancel()
                [ended] = await asyncio.gather(task, return_exceptions=True)
            if isinstance(ended, Exception):
                raise ended

    def _app(self) -> "App":
        from procrastinate import App, PsycopgConnector

        connector = PsycopgConnector(
            conninfo=conninfo(self._url),
            min_size=1,
            max_size=self._size + 2,
            kwargs={"options": "-c search_path=dreamd,public", **KEEP_ALIVE},
        )
        app = App(connector=connector)

        def work(workspace: int, reason: str) -> None:
            self._run_job(workspace, reason)

        app.task(name=WORK, retry=False)(work)
        return app


class Sweeper:
    """Queues jobs for the workspaces that are due, and clears up after those that died.

    One thread in each process; whoever has the schedule's lock queues.
    """

    def __init__(self, database: FleetDatabase, stopping: threading.Event) -> None:
        self._schedule = Schedule(database)
        self._inbox = Inbox(database)
        self._processes = Processes(database)
        self._places = Places(database)
        self._stopping = stopping
        self._net_at = self._old_at = 0.0
        self._ended: set[int] = set()  # of the jobs, at the last look
        self.thread = threading.Thread(target=self._run, name="sweep", daemon=True)

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            try:
                while self.tick() >= MOST_ROWS and not self._stopping.is_set():
                    pass
            except UnreachableError:
                continue  # the lifetime says so
            except Exception as error:  # noqa: BLE001 - whatever it is, the next tick comes
                logs.get().error("sweep_failed", error=error)

    def tick(self) -> int:
        """Queue once what is due; return how many workspaces were looked at."""
        steady = time.monotonic()
        if steady >= self._net_at:
            self._net_at = steady + NET_SECONDS
            self._inbox.wake_waiting()
            if lost := self._schedule.clear_lost():
                logs.get().warning("jobs_lost", jobs=len(lost))
            if dead := self._schedule.clear_dead(self._ended):
                logs.get().warning("jobs_dead", jobs=dead)
            self._ended = self._schedule.ended_jobs()
        if steady >= self._old_at:
            self._old_at = steady + _OLD_SECONDS
            self._inbox.sweep()
            self._processes.sweep()
            self._places.sweep()
        return self._schedule.queue_due(MOST_ROWS) if self._schedule.is_due() else 0
