"""Job queue: runs at most so many jobs at once, urgent ones first, never two of one owner."""

import heapq
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import Any, TypeVar

from state.errors import StoppedError

Result = TypeVar("Result")

_Job = tuple[int, int, str, Callable[[], Any], "Future[Any]"]

# At most so many hanging jobs are replaced by new threads: a thread costs little, and not nothing.
_MOST_HANGING = 64


class JobQueue:
    """Runs jobs in at most `size` threads, which start when a job needs one and end when no job waits.

    A job that runs for longer than `patience` seconds is taken to hang, on a disk perhaps, and no longer counts.
    """

    def __init__(self, name: str, size: int, patience: float = math.inf) -> None:
        self._name = name
        self._size = size
        self._patience = patience
        self._jobs: list[_Job] = []
        self._order = count()
        self._change = threading.Condition()
        self._started: dict[object, float] = {}  # by thread: when its job began
        self._busy_owners: set[str] = set()
        self._once: dict[str, Future[Any]] = {}  # waiting jobs by their `once`
        self._closed = False

    @property
    def running(self) -> int:
        """How many jobs run now."""
        return len(self._started)

    @property
    def waiting(self) -> int:
        """How many jobs wait for a slot."""
        return len(self._jobs)

    def resize(self, size: int) -> None:
        """Run so many jobs at once from now on; those that run go on."""
        with self._change:
            self._size = size
            self._start()

    def submit(
        self, job: Callable[[], Result], *, owner: str = "", urgent: bool = False, once: str = ""
    ) -> "Future[Result]":
        """Run the job when there is a thread for it and no other job of its owner runs; return its future.

        While a job with the same `once` waits, that job's future is returned and this job is dropped. Raise
        StoppedError after `close`.
        """
        with self._change:
            if self._closed:
                raise StoppedError("the daemon is stopping", "try again when it runs")
            future = self._once.get(once)
            if future is None or future.done():
                future = Future()
                if once:
                    self._once[once] = future
                    job = self._no_longer_waiting(once, job)
                heapq.heappush(self._jobs, (not urgent, next(self._order), owner, job, future))
            self._start()
        return future

    def start_waiting(self) -> None:
        """Start jobs that waited for others which have since been found to hang."""
        with self._change:
            self._start()

    def close(self) -> None:
        """Take no more jobs: those that wait end with StoppedError, those that run go on."""
        with self._change:
            self._closed = True
            dropped, self._jobs = self._jobs, []
        for *_, future in dropped:
            future.set_exception(
                StoppedError("the daemon is stopping", "what was asked for waits for its next start")
            )

    def drained(self, seconds: float) -> bool:
        """Wait at most so long for the jobs that run; return whether all have ended."""
        with self._change:
            return self._change.wait_for(lambda: not self._started, seconds)

    def _no_longer_waiting(self, once: str, job: Callable[[], Result]) -> Callable[[], Result]:
        def run() -> Result:
            with self._change:
                self._once.pop(once, None)
            return job()

        return run

    def _slots_taken(self) -> int:
        """Return how many running jobs count."""
        late = time.monotonic() - self._patience
        hanging = sum(started < late for started in self._started.values())
        return len(self._started) - min(hanging, _MOST_HANGING)

    def _start(self) -> None:
        for _ in range(min(len(self._jobs), self._size - self._slots_taken())):
            thread = object()
            self._started[thread] = time.monotonic()
            try:
                # A daemon thread: a job that does not end must not keep the process from ending.
                threading.Thread(target=self._run, args=(thread,), name=self._name, daemon=True).start()
            except RuntimeError:  # this user may have no more of them: `start_waiting` tries again
                del self._started[thread]
                return

    def _run(self, thread: object) -> None:
        owner = ""
        while True:
            with self._change:
                self._busy_owners.discard(owner)
                self._started[thread] = time.monotonic()
                entry = self._next() if self._slots_taken() <= self._size else None
                if entry is None:
                    del self._started[thread]
                    self._change.notify_all()
                    return
                *_, owner, job, future = entry
                if owner:
                    self._busy_owners.add(owner)
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001 - it is raised where the future's result is asked for
                future.set_exception(error)
            else:
                future.set_result(result)
            del entry, job, future  # while the thread waits nothing of them stays alive

    def _next(self) -> _Job | None:
        """Take out the first job whose owner has none that runs."""
        skipped, first = list[_Job](), None
        while self._jobs and first is None:
            job = heapq.heappop(self._jobs)
            if job[2] in self._busy_owners:
                skipped.append(job)
            else:
                first = job
        for job in skipped:
            heapq.heappush(self._jobs, job)
        return first
