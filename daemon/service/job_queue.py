"""So many jobs at once: urgent ones first, the others in the order in which they came."""

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

# Of jobs that hang so many hold no slot: a thread costs little, and not nothing.
_MOST_HANGING = 64


class JobQueue:
    """Threads that run jobs. A thread is started when a job finds none free, and ends when there is nothing to do.

    A job that runs for longer than `patience` seconds is taken to hang, on a disk perhaps, and holds no slot.
    """

    def __init__(self, name: str, size: int, patience: float = math.inf) -> None:
        self._name = name
        self._size = size
        self._patience = patience
        self._jobs: list[_Job] = []
        self._order = count()
        self._change = threading.Condition()
        self._begun: dict[object, float] = {}  # by thread: when its job began
        self._at_work: set[str] = set()
        self._once: dict[str, Future[Any]] = {}
        self._closed = False
        self.ended = 0
        """How many jobs have ended."""

    @property
    def running(self) -> int:
        """How many jobs run now."""
        return len(self._begun)

    @property
    def waiting(self) -> int:
        """How many jobs wait for a slot."""
        return len(self._jobs)

    def resize(self, size: int) -> None:
        """From now on so many at once; what runs goes on."""
        with self._change:
            self._size = size
            self._start()

    def submit(
        self, job: Callable[[], Result], *, whose: str = "", urgent: bool = False, once: str = ""
    ) -> "Future[Result]":
        """Run the job when there is a slot and no other job of its owner runs. Raises StoppedError after `close`.

        While one that was submitted `once` under a name waits, that one's future is the answer to the next.
        """
        with self._change:
            if self._closed:
                raise StoppedError("the daemon is stopping", "try again when it runs")
            future = self._once.get(once)
            if future is None or future.done():
                future = Future()
                if once:
                    self._once[once] = future
                    job = self._begins(once, job)
                heapq.heappush(self._jobs, (not urgent, next(self._order), whose, job, future))
            self._start()
        return future

    def go_on(self) -> None:
        """Run what waits for jobs that have been found to hang."""
        with self._change:
            self._start()

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
            return self._change.wait_for(lambda: not self._begun, seconds)

    def _begins(self, once: str, job: Callable[[], Result]) -> Callable[[], Result]:
        def begun() -> Result:
            with self._change:
                self._once.pop(once, None)
            return job()

        return begun

    def _held(self) -> int:
        """How many slots are held."""
        late = time.monotonic() - self._patience
        hanging = sum(begun < late for begun in self._begun.values())
        return len(self._begun) - min(hanging, _MOST_HANGING)

    def _start(self) -> None:
        for _ in range(min(len(self._jobs), self._size - self._held())):
            thread = object()
            self._begun[thread] = time.monotonic()
            try:
                # A daemon's thread: a job that does not end must not keep the process from ending.
                threading.Thread(target=self._run, args=(thread,), name=self._name, daemon=True).start()
            except RuntimeError:  # this user may have no more of them: `go_on` tries again
                del self._begun[thread]
                return

    def _run(self, thread: object) -> None:
        whose = ""
        while True:
            with self._change:
                self._at_work.discard(whose)
                self._begun[thread] = time.monotonic()
                taken = self._next() if self._held() <= self._size else None
                if taken is None:
                    del self._begun[thread]
                    self._change.notify_all()
                    return
                *_, whose, job, future = taken
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
            del taken, job, future  # a thread that waits keeps nothing alive

    def _next(self) -> _Job | None:
        """The first job whose owner has none that runs, taken out."""
        held, found = list[_Job](), None
        while self._jobs and found is None:
            job = heapq.heappop(self._jobs)
            if job[2] in self._at_work:
                held.append(job)
            else:
                found = job
        for job in held:
            heapq.heappush(self._jobs, job)
        return found
