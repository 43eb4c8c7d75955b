"""Workers: the threads in which the daemon's servers call the synchronous core.

Short and long calls (dreams) have separate threads, so that no number of dreams delays a note. No workspace may take
all of them, so that one on a hanging disk does not block the others. A call without a thread waits in the event loop,
where waiting costs nothing.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeVar
from weakref import WeakValueDictionary

from daemon.observability import logs
from state.errors import OverloadedError

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of concurrency, size and time. Threads count over both listeners together, connections at each."""

    short_threads: int = 40
    long_threads: int = 32
    threads_of_a_workspace: int = 16
    # For all workspaces of one owner together, if there are several owners.
    threads_of_an_owner: int = 16
    requests: int = 256
    connections: int = 512
    # Connections at the port that wait for a request or the rest of one; beyond that the oldest is closed.
    waiting: int = 256
    body_bytes: int = 1024 * 1024
    # Enough for a query with the longest text that an operation takes, percent-encoded.
    header_bytes: int = 128 * 1024
    # From the first to the last byte of a request's head, and then of its body; slower clients are disconnected.
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    keep_alive_seconds: int = 75
    # For requests under way when the daemon stops.
    grace_seconds: int = 7


class Workers:
    """Thread pools, made, used and closed in one event loop. `owner_of`: returns a workspace's owner, or empty."""

    def __init__(self, limits: Limits, owner_of: Callable[[str], str] = lambda _: "") -> None:
        self.limits = limits
        self._owner_of = owner_of
        self.stopping = asyncio.Event()
        self._short = ThreadPoolExecutor(limits.short_threads, "http-short")
        self._long = ThreadPoolExecutor(limits.long_threads, "http-long")
        self._slots: WeakValueDictionary[tuple[str, str, bool], asyncio.Semaphore] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[object]] = set()

    def begin(self, workspace: str, work: Callable[[], Made], *, long: bool) -> "asyncio.Task[Made]":
        """Run the work in a thread, to its end even if nobody waits for the task any more.

        Raise OverloadedError if too many calls are under way.
        """
        if len(self._tasks) >= self.limits.requests:
            raise OverloadedError(f"{self.limits.requests} requests are being answered already", "try again")
        task = asyncio.create_task(self._run(workspace, work, long=long))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run(self, work: Callable[[], Made], workspace: str = "", *, long: bool = False) -> Made:
        """Return the result of the work, which goes on even if the caller is cancelled. Raise what it raises."""
        task = self.begin(workspace, work, long=long)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)  # no caller is left to get the error
            raise

    async def _run(self, workspace: str, work: Callable[[], Made], *, long: bool) -> Made:
        owner, limits = self._owner_of(workspace), self.limits
        most = limits.threads_of_an_owner if owner else limits.short_threads + limits.long_threads
        of_workspace = self._share("workspace", workspace, limits.threads_of_a_workspace, long=long)
        async with of_workspace, self._share("owner", owner, most, long=long):
            return await asyncio.get_running_loop().run_in_executor(self._long if long else self._short, work)

    def _share(self, kind: Literal["workspace", "owner"], name: str, most: int, *, long: bool) -> asyncio.Semaphore:
        """Return the shared semaphore of this name, which is kept as long as somebody uses it."""
        return self._slots.setdefault((kind, name, long), asyncio.Semaphore(most))

    async def close(self) -> None:
        """Start nothing more, and do not wait for running work, which ends with the daemon or the process."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pool in (self._short, self._long):
            pool.shutdown(wait=False, cancel_futures=True)


def _log_failure(task: asyncio.Task[object]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logs.get().warning("call_failed_after_its_caller_left", error=error)
