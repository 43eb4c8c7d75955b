"""Lifetime: the PostgreSQL session that shows that this process is alive: its heartbeat, and its reconnects.

The process follows PostgreSQL's clock, so that timestamps and daily counts do not depend on which process holds a
workspace.
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from uuid import uuid4

from daemon.observability import logs
from daemon.workspace.stores import follow_clock
from state.errors import ConfigError, DreamdError, UnreachableError
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.leases import HEARTBEAT_SECONDS, Condition, Session

# A silence longer than a restart of PostgreSQL takes.
_SILENT_SECONDS = 13.0
_LOOK_SECONDS = 0.25
_RETRY_SECONDS = 1.0


def every(seconds: float, name: str, act: Callable[[], object], stopping: threading.Event) -> None:
    """Call `act` now and every so many seconds in a thread until the process stops, even if a call fails."""

    def run() -> None:
        while not stopping.is_set():
            try:
                act()
            except UnreachableError:
                pass  # the heartbeat logs a lost database, callers of the object store a lost store
            except Exception as error:  # noqa: BLE001
                logs.get().error(f"{name}_failed", error=error)
            stopping.wait(seconds)

    threading.Thread(target=run, name=name, daemon=True).start()


class Lifetime(Session):
    """A session with its heartbeat, which reports the `condition`; others reach the process at `address`."""

    def __init__(self, database: FleetDatabase, condition: Callable[[], Condition], address: str, slots: int) -> None:
        super().__init__(database, uuid4(), address, socket.gethostname(), version("dreamd"), slots)
        self._condition = condition
        self._heard_at = float("-inf")
        self._is_heard = False
        self.is_draining = False
        """Whether the process is about to end: it still answers, and wants nothing new."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    @property
    def problem(self) -> str:
        """Return why the process accepts no work now; empty if it does."""
        if self.is_draining:
            return "the process is stopping"
        is_silent = time.monotonic() - self._heard_at > _SILENT_SECONDS
        return "the database of the fleet cannot be asked" if is_silent else ""

    def start(self) -> None:
        """Begin the session. Raise UnreachableError, and ConfigError if another living process has the address."""
        self._require_own_address()
        self._beat()
        try:
            self._require_own_address()  # of two that begin at once, the later one is refused
        except BaseException:
            self.stop()
            raise
        self._thread.start()

    def _require_own_address(self) -> None:
        """Wait until no other process has the address; one that died is gone in seconds. Raise ConfigError."""
        first = rival = self.rival()
        while first is not None and rival is not None:
            if rival["id"] == first["id"] and rival["seen_at"] > first["seen_at"]:  # it lives
                raise ConfigError(
                    f"another process of the fleet, on {rival['host']}, has the address {self.address}",
                    "set fleet.host or fleet.address to where others reach this one",
                )
            time.sleep(_LOOK_SECONDS)
            first, rival = first if rival["id"] == first["id"] else rival, self.rival()

    def drain(self) -> None:
        """Report that the process is about to end; without PostgreSQL only to those who ask it."""
        self.is_draining = True
        with suppress(DreamdError):
            super().drain()

    def stop(self) -> None:
        """End the session; if PostgreSQL cannot be reached, it ends by itself."""
        self._stopping.set()
        with suppress(DreamdError):
            self.end()

    def _run(self) -> None:
        due = time.monotonic() + HEARTBEAT_SECONDS
        while not self._stopping.wait(_LOOK_SECONDS):
            if time.monotonic() < due and not self.has_ended:
                continue
            due = time.monotonic() + HEARTBEAT_SECONDS
            try:
                self._beat()
            except DreamdError as error:
                due = time.monotonic() + _RETRY_SECONDS
                if self._is_heard:
                    logs.get().warning("session_lost", why=str(error))
                self._is_heard = False
            except Exception as error:  # noqa: BLE001 - the heart must go on beating
                logs.get().error("heartbeat_failed", error=error)

    def _beat(self) -> None:
        asked = time.monotonic()
        now = self.beat(self._condition())
        self._heard_at = asked
        if change := follow_clock(now, asked):
            logs.get().warning("clock_corrected", seconds=round(change.total_seconds(), 1))
        if not self._is_heard:
            logs.get().info("ready", process=str(self.id))
        self._is_heard = True
