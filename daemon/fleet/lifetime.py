"""Lifetime: the session by which PostgreSQL counts this process as alive; its heartbeat, and its new beginnings.

The process goes by PostgreSQL's clock: what owners stamp and count by days is the same whoever does it.
"""

import socket
import threading
import time
from collections.abc import Callable
from importlib.metadata import version

from daemon.observability import logs
from daemon.workspace.stores import follow_clock
from state.errors import DreamdError
from state.fleet.workspace import Worker
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.processes import HEARTBEAT_SECONDS, Condition, Kind, Session

# Longer than a restart of PostgreSQL takes.
_SILENT_SECONDS = 13.0
_LOOK_SECONDS = 0.25
_RETRY_SECONDS = 1.0


class Lifetime:
    """The life of a process: a worker, a gateway, or a command that owns a workspace for a moment.

    `condition` is what it says of itself; `after_each` is called after each heartbeat that PostgreSQL has heard.
    """

    def __init__(
        self,
        database: FleetDatabase,
        me: Worker,
        kind: Kind,
        condition: Callable[[], Condition],
        slots: int = 0,
        after_each: Callable[[], None] = lambda: None,
        seconds: float | None = None,
    ) -> None:
        self.worker = me
        self._session = Session(database, kind, me, socket.gethostname(), version("dreamd"), slots)
        self._condition = condition
        self._after_each = after_each
        self._seconds = seconds or HEARTBEAT_SECONDS
        self._heard_at = float("-inf")
        self._is_heard = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    @property
    def problem(self) -> str:
        """Why the process takes nothing now; empty when it does."""
        is_silent = time.monotonic() - self._heard_at > _SILENT_SECONDS
        return "the database of the fleet cannot be asked" if is_silent else ""

    def start(self) -> None:
        """Begin the session. Raise UnreachableError."""
        self._beat()
        self._thread.start()

    def drain(self) -> None:
        """Have nothing more given to this process."""
        try:
            self._session.drain()
        except DreamdError as error:
            logs.get().warning("not_drained", error=error)

    def stop(self) -> None:
        """End the session."""
        self._stopping.set()
        try:
            self._session.end()
        except DreamdError as error:
            logs.get().warning("not_signed_off", error=error)

    def _run(self) -> None:
        due = time.monotonic() + self._seconds
        while not self._stopping.wait(min(_LOOK_SECONDS, self._seconds)):
            if time.monotonic() < due and not self._session.has_ended:
                continue
            due = time.monotonic() + self._seconds
            try:
                self._beat()
                self._after_each()
            except DreamdError as error:
                due = time.monotonic() + _RETRY_SECONDS
                if self._is_heard:
                    logs.get().warning("session_lost", why=str(error))
                self._is_heard = False
            except Exception as error:  # noqa: BLE001 - whatever it is, the next beat comes
                logs.get().error("heartbeat_failed", error=error)

    def _beat(self) -> None:
        asked = time.monotonic()
        now = self._session.beat(self._condition())
        self._heard_at = asked
        if change := follow_clock(now, asked):
            logs.get().warning("clock_corrected", seconds=round(change.total_seconds(), 1))
        if not self._is_heard:
            logs.get().info("ready", worker=str(self.worker.id))
        self._is_heard = True
