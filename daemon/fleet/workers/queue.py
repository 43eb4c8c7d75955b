"""Queue: Procrastinate hands jobs to this worker: those of anybody, and those of workspaces that it owns.

Procrastinate fetches, locks and wakes; nothing is tried again by it: when a job is due again the schedule says, and
jobs that died with their worker are found by the sweep.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from daemon.observability import logs
from state.stores.fleet.database import KEEP_ALIVE, conninfo
from state.stores.fleet.schedule import ANYBODYS_QUEUE, WORK

if TYPE_CHECKING:
    from procrastinate import App

_POLL_SECONDS = 5.0
_RETRY_SECONDS = 1.0

Run = Callable[[int, str], None]


class Queue:
    """One thread with an event loop for Procrastinate, and a thread for each job. `run(workspace, reason)`."""

    def __init__(self, url: str, size: int, own_queue: str, run: Run, stopping: threading.Event) -> None:
        """`own_queue`: of the jobs of workspaces that this worker owns."""
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
        """Take jobs until the worker stops."""
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
