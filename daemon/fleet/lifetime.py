"""Lifetime: the session by which PostgreSQL counts a process as alive; its heartbeat, and its new beginnings.

A process lives as long as its session with PostgreSQL, which ends it when the process dies, and when it says nothing
for fifteen seconds: because it hangs, or the line is cut. The process goes by PostgreSQL's clock: what holders stamp
and count by days is the same whoever does it.
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Literal
from uuid import UUID, uuid4

from daemon.observability import logs
from daemon.workspace.stores import follow_clock
from state.errors import DreamdError
from state.stores.fleet.database import BoundedConnection, FleetDatabase, explained_errors, open_session

Kind = Literal["serve", "upkeep"]
"""`upkeep`: a command that holds a workspace for a moment."""
ALIVE_SECONDS = 15.0
"""After so long a silence PostgreSQL ends a session; whoever wants the workspaces of its process may take them."""
HEARTBEAT_SECONDS = 5.0
# Longer than a restart of PostgreSQL takes.
_SILENT_SECONDS = 13.0
_LOOK_SECONDS = 0.25
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Condition:
    """What a process says of itself: what it holds and dreams; `problem`: why it can do nothing now."""

    owned: int = 0
    dreaming: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """A process as the status shows it. `alive`: its session is there."""

    id: UUID
    kind: Kind
    address: str
    host: str
    version: str
    slots: int
    started_at: datetime
    alive: bool
    silent_seconds: float
    owned: int
    dreaming: int
    problem: str


_BEAT = """
INSERT INTO processes (id, kind, address, host, version, slots, owned, dreaming, problem)
VALUES (%(id)s, %(kind)s, %(address)s, %(host)s, %(version)s, %(slots)s, %(owned)s, %(dreaming)s, %(problem)s)
ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), owned = excluded.owned, dreaming = excluded.dreaming,
    problem = excluded.problem
RETURNING clock_timestamp() AS now
"""

_END = """
WITH gone AS (DELETE FROM processes WHERE id = %(id)s),
owned AS MATERIALIZED (SELECT id FROM workspaces WHERE owner = %(id)s ORDER BY id FOR NO KEY UPDATE)
UPDATE workspaces w SET owner = NULL, dreaming_at = NULL, job_at = NULL,
    due_at = CASE WHEN job_at IS NOT NULL THEN clock_timestamp() ELSE due_at END
FROM owned WHERE w.id = owned.id AND w.owner = %(id)s
"""

_PROCESSES = """
SELECT id, kind, address, host, version, slots, started_at, owned, dreaming, problem,
    id IN (SELECT id FROM living) AS alive,
    greatest(0, extract(epoch FROM clock_timestamp() - seen_at))::float8 AS silent_seconds
FROM processes ORDER BY kind, started_at
"""


def processes(database: FleetDatabase) -> list[Process]:
    """Return every process that is known, also those that died in the last hour."""
    return database.all(Process, _PROCESSES)


class Lifetime:
    """The life of a process that serves, or of a command that holds a workspace for a moment. Any thread may call."""

    def __init__(
        self,
        database: FleetDatabase,
        kind: Kind,
        condition: Callable[[], Condition] = Condition,
        address: str = "",
        slots: int = 0,
    ) -> None:
        """`condition` is what it says of itself; `address`: where other processes reach it."""
        self.id = uuid4()
        self._database, self._condition = database, condition
        own = {"id": self.id, "kind": kind, "address": address, "slots": slots}
        self._row = {**own, "host": socket.gethostname(), "version": version("dreamd")}
        self._lock = threading.Lock()
        self._connection: BoundedConnection | None = None
        self._heard_at = float("-inf")
        self._is_heard = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    @property
    def problem(self) -> str:
        """Why the process takes nothing now; empty when it does."""
        is_silent = time.monotonic() - self._heard_at > _SILENT_SECONDS
        return "the database of the fleet cannot be asked" if is_silent else ""

    @property
    def has_ended(self) -> bool:
        """Whether PostgreSQL has ended the session since the last word, as far as its socket tells."""
        connection = self._connection
        return connection is not None and not connection.closed and connection.is_told

    def start(self) -> None:
        """Begin the session, and its heartbeat. Raise UnreachableError."""
        self.beat()
        self._thread.start()

    def stop(self) -> None:
        """End in order: what the process held is free at once, and its jobs are due.

        Without PostgreSQL the session ends by itself.
        """
        self._stopping.set()
        with suppress(DreamdError):
            self._database.rows(_END, {"id": self.id})
        self.drop()

    def drop(self) -> None:
        """Close the session without a word, as the death of the process does."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def beat(self) -> None:
        """Say that the process lives, and go by PostgreSQL's time.

        Where the session has ended another one begins: what nobody has taken meanwhile is still the process's own.
        Raise UnreachableError.
        """
        asked = time.monotonic()
        with self._lock:
            try:
                if self.has_ended:
                    self.drop()
                if self._connection is None:
                    self._connection = open_session(self._database.url, f"dreamd {self.id}", ALIVE_SECONDS)
                with explained_errors(self._database.url):
                    values = {**self._row, **asdict(self._condition())}
                    [row] = self._connection.execute(_BEAT, values).fetchall()
            except BaseException:
                self.drop()
                raise
        self._heard_at = asked
        if change := follow_clock(row["now"], asked):
            logs.get().warning("clock_corrected", seconds=round(change.total_seconds(), 1))
        if not self._is_heard:
            logs.get().info("ready", process=str(self.id))
        self._is_heard = True

    def _run(self) -> None:
        due = time.monotonic() + HEARTBEAT_SECONDS
        while not self._stopping.wait(_LOOK_SECONDS):
            if time.monotonic() < due and not self.has_ended:
                continue
            due = time.monotonic() + HEARTBEAT_SECONDS
            try:
                self.beat()
            except DreamdError as error:
                due = time.monotonic() + _RETRY_SECONDS
                if self._is_heard:
                    logs.get().warning("session_lost", why=str(error))
                self._is_heard = False
            except Exception as error:  # noqa: BLE001 - whatever it is, the next beat comes
                logs.get().error("heartbeat_failed", error=error)
