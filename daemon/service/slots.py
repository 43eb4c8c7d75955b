"""Slots: so many workspaces at once may do what takes long."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daemon.service.managed import ManagedWorkspace

_LOOK_SECONDS = 1.0


class Slots:
    """At most `size` at once, those first for which a client waits. Any thread may call.

    One that takes longer than `patience` seconds counts no more: it hangs, on a disk perhaps.
    """

    def __init__(self, size: int, patience: float) -> None:
        self._size = size
        self._patience = patience
        self._moved = threading.Condition()
        self._waiting: list[ManagedWorkspace] = []
        self._since: dict[ManagedWorkspace, float] = {}  # of each that has a slot

    @property
    def running(self) -> int:
        """How many have a slot."""
        return len(self._since)

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return len(self._waiting)

    def resize(self, size: int) -> None:
        """Have so many at once from now on; those that run go on."""
        self._size = size
        self.look_again()

    def look_again(self) -> None:
        """Have all who wait see whether they are next, or give up."""
        with self._moved:
            self._moved.notify_all()

    @contextmanager
    def turn(self, managed: "ManagedWorkspace", gives_up: Callable[[], bool]) -> Iterator[bool]:
        """Wait for a slot and have it for the context; False, and none, if it gives up first."""
        with self._moved:
            self._waiting.append(managed)
            while not (has_slot := self._is_next(managed)) and not gives_up():
                self._moved.wait(_LOOK_SECONDS)
            self._waiting.remove(managed)
            if has_slot:
                self._since[managed] = time.monotonic()
            self._moved.notify_all()
        try:
            yield has_slot
        finally:
            with self._moved:
                self._since.pop(managed, None)
                self._moved.notify_all()

    def _is_next(self, managed: "ManagedWorkspace") -> bool:
        now = time.monotonic()
        busy = sum(now - since < self._patience for since in self._since.values())
        first = next((one for one in self._waiting if one.is_awaited), self._waiting[0])
        return busy < self._size and first is managed
