"""Sweeper: queues jobs for the workspaces that are due, and clears up after those that died."""

import threading
import time

from daemon.observability import logs
from state.errors import UnreachableError
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.places import Places
from state.stores.fleet.processes import Processes
from state.stores.fleet.schedule import Schedule

TICK_SECONDS = 1.0
# In one statement of some tens of milliseconds, whose rows nobody else can write meanwhile.
MOST_ROWS = 500
_NET_SECONDS = 10.0
_OLD_SECONDS = 600.0


class Sweeper:
    """One thread in each worker; whoever has the schedule's lock queues jobs."""

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
        while not self._stopping.wait(TICK_SECONDS):
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
            self._net_at = steady + _NET_SECONDS
            self._inbox.wake_waiting()
            _log("jobs_lost", len(self._schedule.clear_lost()))
            _log("jobs_dead", self._schedule.clear_dead(self._ended))
            self._ended = self._schedule.ended_jobs()
        if steady >= self._old_at:
            self._old_at = steady + _OLD_SECONDS
            self._inbox.sweep()
            self._processes.sweep()
            self._places.sweep()
        return self._schedule.queue_due(MOST_ROWS) if self._schedule.is_due() else 0


def _log(event: str, jobs: int) -> None:
    if jobs:
        logs.get().warning(event, jobs=jobs)
