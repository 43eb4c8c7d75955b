"""Lifetime: whether PostgreSQL counts this process as alive; its heartbeat, and its new beginnings.

The process goes by PostgreSQL's clock: what owners stamp and count by days is the same whoever does it.
"""

import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime
from importlib.metadata import version
from uuid import uuid4

from daemon.observability import logs
from daemon.workspace.stores import follow_clock
from state.errors import DreamdError, FencedError
from state.fleet.workspace import Worker
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.processes import ALIVE_SECONDS, HEARTBEAT_SECONDS, Condition, Kind, Processes

# It stops believing a little before PostgreSQL does.
_MARGIN_SECONDS = 2.0
_RETRY_SECONDS = 1.0


class Lifetime:
    """The row of a process: a worker, a gateway, or a command that owns a workspace for a moment.

    `condition` is what it says of itself; `ended` is called when it counts as dead, `after_each` after
    each heartbeat that PostgreSQL has heard.
    """

    def __init__(
        self,
        database: FleetDatabase,
        me: Worker,
        kind: Kind,
        condition: Callable[[], Condition],
        ended: Callable[[], None] = lambda: None,
        slots: int = 0,
        after_each: Callable[[], None] = lambda: None,
        seconds: float | None = None,
    ) -> None:
        self.worker = me
        self.problem = f"the {kind} is starting"
        """Why it takes nothing now; empty when it does."""
        self._processes = Processes(database)
        self._kind = kind
        self._slots = slots
        self._condition = condition
        self._ended = ended
        self._after_each = after_each
        self._seconds = seconds or HEARTBEAT_SECONDS
        self._believed_until = 0.0
        self._draining = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Enter the row. Raise UnreachableError."""
        self._begin()
        self._thread.start()

    def check(self) -> None:
        """Raise FencedError when PostgreSQL may count this process as dead."""
        if time.monotonic() >= self._believed_until:
            raise FencedError(
                f"PostgreSQL has not heard this {self._kind} for too long", "what is acknowledged is safe; try again"
            )

    def drain(self) -> None:
        """Have nothing more given to this process."""
        self._draining = True
        try:
            self._processes.heartbeat(self.worker.id, self._condition(), draining=True)
        except DreamdError as error:
            logs.get().warning("not_drained", error=error)

    def stop(self) -> None:
        """Take the row away."""
        self._draining = True  # it does not begin anew
        self._stopping.set()
        try:
            self._processes.end(self.worker.id)
        except DreamdError as error:
            logs.get().warning("not_signed_off", error=error)

    def _begin(self) -> None:
        self.worker = Worker(uuid4(), self.worker.address, self.worker.secret)
        asked = time.monotonic()
        self._processes.begin(self._kind, self.worker, socket.gethostname(), version("dreamd"), self._slots)
        self._heard(asked, self._processes.heartbeat(self.worker.id))

    def _beat(self) -> None:
        while not self._stopping.wait(min(_RETRY_SECONDS, self._seconds) if self.problem else self._seconds):
            asked = time.monotonic()
            try:
                heard = self._processes.heartbeat(self.worker.id, self._condition(), draining=self._draining)
                if heard is None:
                    self._lose("it was silent for too long")
                    if not self._draining:
                        self._begin()
                else:
                    self._heard(asked, heard)
                    self._after_each()
            except DreamdError as error:
                if time.monotonic() >= self._believed_until:
                    self._lose(str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, the next beat comes
                logs.get().error("heartbeat_failed", error=error)

    def _heard(self, asked: float, now: datetime | None) -> None:
        if now is None:
            return
        # The row lives from the moment at which PostgreSQL wrote it, which is after the question.
        self._believed_until = asked + ALIVE_SECONDS - _MARGIN_SECONDS
        if change := follow_clock(now, asked):
            logs.get().warning("clock_corrected", seconds=round(change.total_seconds(), 1))
        if self.problem:
            logs.get().info("ready", worker=str(self.worker.id))
        self.problem = ""

    def _lose(self, why: str) -> None:
        if not self.problem:
            logs.get().error("lifetime_lost", worker=str(self.worker.id), why=why)
        self.problem = "the database of the fleet cannot be asked"
        self._believed_until = 0.0
        self._ended()
