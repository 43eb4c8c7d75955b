"""Presence: that a gateway lives, for the fleet to see; and what the fleet has forgotten, for its copies to go."""

import socket
import threading
import time
from importlib.metadata import version
from typing import TYPE_CHECKING
from uuid import uuid4

from daemon.fleet.lifetime import follow
from daemon.observability import logs
from state.errors import DreamdError
from state.fleet.workspace import Worker
from state.stores.fleet.places import Places
from state.stores.fleet.processes import HEARTBEAT_SECONDS, Processes

if TYPE_CHECKING:
    from daemon.fleet.gateways.gateway import Gateway
    from state.stores.fleet.database import FleetDatabase

_END_SECONDS = 5.0


class Presence:
    """The row of a gateway, and its watch over erasures. `start` it, and `stop` it."""

    def __init__(
        self, database: "FleetDatabase", gateway: "Gateway", address: str, seconds: float = HEARTBEAT_SECONDS
    ) -> None:
        self._processes, self._places = Processes(database), Places(database)
        self._gateway = gateway
        self._address = address
        self._seconds = seconds
        self._id = uuid4()
        self._seen = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="presence", daemon=True)

    def start(self) -> None:
        """Be known to the fleet. Raises UnreachableError."""
        self._seen = self._places.last_erasure()  # there are no copies yet
        self._begin()
        self.look()
        self._gateway.problem = ""
        self._thread.start()

    def stop(self) -> None:
        """The gateway ends."""
        self._gateway.problem = "the gateway is stopping"
        self._stopping.set()
        self._thread.join(_END_SECONDS)
        try:
            self._processes.end(self._id)
        except DreamdError as error:
            logs.get().warning("not_signed_off", error=error)

    def look(self) -> None:
        """Say that the gateway lives, and drop the copies of what was forgotten since. Raises UnreachableError."""
        asked = time.monotonic()
        now = self._processes.heartbeat(self._id)
        if now is None:
            self._id = uuid4()
            self._begin()
        else:
            follow(now, asked)
        for number, workspace in self._places.erasures(self._seen):
            self._gateway.drop(workspace)
            self._seen = number

    def _begin(self) -> None:
        self._processes.begin("gateway", Worker(self._id, self._address, ""), socket.gethostname(), version("dreamd"))

    def _beat(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the next beat tries again
                self._gateway.problem = "PostgreSQL cannot be asked"
                logs.get().warning("heartbeat_failed", error=error)
            else:
                if not self._stopping.is_set():
                    self._gateway.problem = ""
