"""So many jobs at once: urgent ones first, the others in the order in which they came."""

import heapq
import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import Any, TypeVar

from state.errors import StoppedError

Result = TypeVar("Result")

_Job = tuple[int, int, str, Callable[[], Any], "Future[Any]"]


class Slots:
    """Threads that run jobs. A thread is started when a job finds none free, and ends when there is nothing to do."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._jobs: list[_Job] = []
        self._order = count()
        self._change = threading.Condition()
        self._running = 0
        self._at_work: set[str] = set()
        self._closed = False
        self.ended = 0
        """How many jobs have ended."""

    @property
    def running(self) -> int:
        """How many jobs run now."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many jobs wait for a slot."""
        return len(self._jobs)

    def resize(self, size: int) -> None:
        """From now on so many at once; what runs goes on."""
        with self._change:
            self._size = size
            self._start()

    def submit(self, job: Callable[[], Result], *, whose: str = "", urgent: bool = False) -> "Future[Result]":
        """Run the job when there is a slot and no other job of its owner runs. Raises StoppedError after `close`."""
        future: Future[Result] = Future()
        with self._change:
            if self._closed:
                raise StoppedError("the daemon is stopping", "try again when it runs")
            heapq.heappush(self._jobs, (not urgent, next(self._order), whose, job, future))
            self._start()
        return future

    def close(self) -> None:
        """Take no more jobs; what waits ends with StoppedError, what runs goes on."""
        with self._change:
            self._closed = True
            dropped, self._jobs = self._jobs, []
        for *_, future in dropped:
            future.set_exception(
                StoppedError("the daemon is stopping", "what was asked for waits for its next start")
            )

    def drained(self, seconds: float) -> bool:
        """Wait for what runs, at most so long; whether all has ended."""
        with self._change:
            return self._change.wait_for(lambda: not self._running, seconds)

    def _start(self) -> None:
        for _ in range(min(len(self._jobs), self._size - self._running)):
            self._running += 1
            # A daemon's thread: a job that does not end must not keep the process from ending.
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        whose = ""
        while True:
            with self._change:
                self._at_work.discard(whose)
                place = self._next()
                if place is None or self._running > self._size:
                    self._running -= 1
                    self._change.notify_all()
                    return
                *_, whose, job, future = self._jobs.pop(place)
                heapq.heapify(self._jobs)
                if whose:
                    self._at_work.add(whose)
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001 - it is the future's, who asked gets it
                future.set_exception(error)
            else:
                future.set_result(result)
            self.ended += 1
            del job, future  # looking for the next one, it keeps nothing alive

    def _next(self) -> int | None:
        """The place of the first job whose owner has none that runs."""
        free = (place for place, job in enumerate(self._jobs) if job[2] not in self._at_work)
        return min(free, key=self._jobs.__getitem__, default=None)
