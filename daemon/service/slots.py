"""Slots: so many jobs at once, each in a thread of its own, for the event loop that gives them their turns."""

import asyncio
import heapq
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

Result = TypeVar("Result")


def in_thread(job: Callable[[], Result]) -> "asyncio.Future[Result]":
    """Begin the job in a thread that keeps no process from ending. Raise RuntimeError when there can be no more."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def work() -> None:
        result, failure = None, None
        try:
            result = job()
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            failure = error
        with suppress(RuntimeError):  # the loop is closed: the daemon did not wait for this
            loop.call_soon_threadsafe(_settle, done, result, failure)

    threading.Thread(target=work, name="work", daemon=True).start()
    return done


def _settle(done: "asyncio.Future[Any]", result: object, failure: BaseException | None) -> None:
    if done.cancelled():
        return
    if failure is None:
        done.set_result(result)
    else:
        done.set_exception(failure)


class Slots:
    """At most `size` jobs at once, urgent ones first; one that takes longer than `patience` seconds counts no more.

    That one hangs, on a disk perhaps. Any thread may read `running` and `waiting`; the rest belongs to the loop.
    """

    def __init__(self, size: int, patience: float = math.inf) -> None:
        self.running = 0
        self._size = size
        self._patience = patience
        self._order = count()
        self._turns: list[tuple[bool, int, asyncio.Future[None]]] = []

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return sum(not turn.done() for *_, turn in self._turns.copy())

    def resize(self, size: int) -> None:
        """Have so many at once from now on; those that run go on."""
        self._size = size
        self._admit()

    def turn(self, *, urgent: bool = False) -> "asyncio.Future[None]":
        """Return what is done when the turn has come; then `run` or `leave` it."""
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._turns, (not urgent, next(self._order), turn))
        self._admit()
        return turn

    def leave(self, turn: "asyncio.Future[None]") -> None:
        """Give the turn up, whether it has come or not."""
        if not turn.cancel():
            self._free()

    async def run(self, job: Callable[[], Result]) -> Result:
        """Do the job in the slot of a turn that has come."""
        try:
            work = in_thread(job)
            await asyncio.wait((work,), timeout=None if self._patience == math.inf else self._patience)
        finally:
            self._free()
        return await work

    def _free(self) -> None:
        self.running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._turns and self.running < self._size:
            *_, turn = heapq.heappop(self._turns)
            if not turn.done():
                self.running += 1
                turn.set_result(None)
