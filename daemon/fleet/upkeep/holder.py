"""Holder: a command as a process of the fleet, so that it may own a workspace for a moment."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING
from uuid import uuid4

from state.errors import DreamdError, FencedError
from state.fleet.workspace import Worker
from state.stores.fleet.processes import ALIVE_SECONDS, HEARTBEAT_SECONDS, Condition, Processes

if TYPE_CHECKING:
    from state.stores.fleet.database import FleetDatabase

_MARGIN_SECONDS = 2.0


class Holder:
    """The row of this process. `check` raises FencedError when PostgreSQL may count it as dead."""

    def __init__(self, database: "FleetDatabase") -> None:
        self.me = Worker(uuid4(), "", "")
        self._processes = Processes(database)
        self._until = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def check(self) -> None:
        """Raises FencedError when what it owned may be another process's by now."""
        if time.monotonic() >= self._until:
            raise FencedError("PostgreSQL has not heard this command for too long", "run it again")

    def start(self) -> None:
        """Be known to the fleet. Raises UnreachableError."""
        asked = time.monotonic()
        self._processes.begin("upkeep", self.me, socket.gethostname(), version("dreamd"))
        self._until = asked + ALIVE_SECONDS - _MARGIN_SECONDS
        self._thread.start()

    def stop(self) -> None:
        """Be gone; what it owned is free."""
        self._stopping.set()
        self._thread.join()
        self._processes.end(self.me.id)

    def _beat(self) -> None:
        while not self._stopping.wait(HEARTBEAT_SECONDS):
            asked = time.monotonic()
            try:
                if self._processes.heartbeat(self.me.id, Condition(1)) is not None:
                    self._until = asked + ALIVE_SECONDS - _MARGIN_SECONDS
            except DreamdError:
                continue  # `check` says so in time


@contextmanager
def holding(database: "FleetDatabase") -> Iterator[Holder]:
    """Be a process of the fleet as long as the context lasts. Raises UnreachableError."""
    holder = Holder(database)
    holder.start()
    try:
        yield holder
    finally:
        holder.stop()
