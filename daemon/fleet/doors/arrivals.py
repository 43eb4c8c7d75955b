"""Arrivals: what came for inboxes, put by one statement for all who wait: one thread puts while the others queue.

Nobody waits for a timer: who comes while nobody puts is put at once, and whoever comes meanwhile is in the next
statement. Should nobody know whether a statement was carried out it is put again: the keys tell what was there.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from daemon.observability import logs
from state.errors import DreamdError, UnreachableError
from state.stores.fleet.inbox import Arrival, Arrived

MOST_AT_ONCE = 500
# PostgreSQL that starts again is waited for: a client whose note was refused would send it again under another key.
_PATIENCE_SECONDS = 8.0
_PAUSE_SECONDS = 0.2

Put = Callable[[Sequence[Arrival]], list[Arrived | None]]


@dataclass(slots=True, eq=False)
class _Waiting:
    """One arrival, and what became of it. `woken`: it is `done`, or it is its thread's turn to put."""

    arrival: Arrival
    woken: threading.Event = field(default_factory=threading.Event)
    done: bool = False
    arrived: Arrived | None = None
    error: DreamdError | None = None


class Arrivals:
    """What waits to be put; `put` is the inbox's. Any thread may call."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._is_led = False
        self.batches = 0
        """How many statements; for figures."""

    def put(self, arrival: Arrival) -> Arrived | None:
        """Put it durably and return what became of it; None when its workspace is gone. Raise UnreachableError."""
        mine = _Waiting(arrival)
        with self._lock:
            self._waiting.append(mine)
            leads, self._is_led = not self._is_led, True
        if not leads:
            mine.woken.wait()
        if not mine.done:
            self._lead(mine)
        if mine.error is not None:
            raise mine.error
        return mine.arrived

    def _lead(self, mine: _Waiting) -> None:
        """Put batch after batch until one's own is put; then the first of those who wait leads."""
        try:
            while not mine.done:
                batch = self._taken()
                self._put_batch(batch)
                for one in batch:  # each by itself: the others need not look
                    one.done = True
                    one.woken.set()
        finally:
            with self._lock:
                if self._waiting:
                    self._waiting[0].woken.set()
                else:
                    self._is_led = False

    def _taken(self) -> list[_Waiting]:
        """Return the first that wait, no two with the same key, in the same order at every process: no deadlocks."""
        batch, keys, later = list[_Waiting](), set[tuple[int, str]](), list[_Waiting]()
        with self._lock:
            while self._waiting and len(batch) < MOST_AT_ONCE:
                one = self._waiting.popleft()
                key = one.arrival.workspace, one.arrival.key
                (later if key in keys else batch).append(one)
                keys.add(key)
            self._waiting.extendleft(reversed(later))
        return sorted(batch, key=lambda one: one.arrival.workspace)

    def _put_batch(self, batch: list[_Waiting]) -> None:
        self.batches += 1
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                for one, arrived in zip(batch, self._put([one.arrival for one in batch]), strict=True):
                    one.arrived = arrived
            except UnreachableError as error:
                if time.monotonic() < until:
                    time.sleep(_PAUSE_SECONDS)
                    continue
                self._refuse(batch, error)
            except Exception as error:  # noqa: BLE001 - of many one may be what no statement takes: each by itself
                self._put_singly(batch, error)
            return

    def _put_singly(self, batch: list[_Waiting], why: Exception) -> None:
        if len(batch) == 1:
            logs.get().error("arrival_refused", error=why)
            self._refuse(batch, why if isinstance(why, DreamdError) else UnreachableError("it cannot be kept now"))
            return
        for one in batch:
            self._put_batch([one])

    @staticmethod
    def _refuse(batch: list[_Waiting], error: DreamdError) -> None:
        for one in batch:
            one.error = type(error)(error.what, error.advice)
