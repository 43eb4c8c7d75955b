"""Processes of the fleet. Each lives as long as its session with PostgreSQL.

PostgreSQL ends the session when the process dies, and when it says nothing for fifteen seconds: because it hangs, or
the line is cut. What a process held is free from then on; which of two that believe to hold a workspace may commit,
the number of its generation tells.
"""

import select
import threading
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from state.stores.fleet.database import FleetDatabase, explained_errors, open_session

if TYPE_CHECKING:
    from psycopg.rows import DictRow

    from state.stores.fleet.connection import BoundedConnection

Kind = Literal["serve", "upkeep"]
"""`upkeep`: a command that holds a workspace for a moment."""
ALIVE_SECONDS = 15.0
"""After so long a silence PostgreSQL ends a session; whoever wants the workspaces of its process may take them."""
HEARTBEAT_SECONDS = 5.0


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
    draining: bool
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


@dataclass
class Session:
    """The session by which one process lives; `address`: where others reach it. Any thread may call."""

    database: FleetDatabase
    kind: Kind
    id: UUID
    address: str = ""
    host: str = ""
    version: str = ""
    slots: int = 0

    def __post_init__(self) -> None:
        self._row = {name: getattr(self, name) for name in ("id", "kind", "address", "host", "version", "slots")}
        self._lock = threading.Lock()
        self._connection: BoundedConnection[DictRow] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether PostgreSQL has ended the session since the last word, as far as its socket tells."""
        connection = self._connection
        if connection is None or connection.closed:
            return False
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def beat(self, condition: Condition = Condition()) -> datetime:
        """Say that the process lives, and return PostgreSQL's time.

        Where the session has ended another one begins: what nobody has taken meanwhile is still the process's own.
        Raise UnreachableError.
        """
        with self._lock:
            try:
                if self.has_ended:
                    self.drop()
                if self._connection is None:
                    self._connection = open_session(self.database.url, f"dreamd {self.id}", ALIVE_SECONDS)
                with explained_errors(self.database.url):
                    row = self._connection.execute(_BEAT, {**self._row, **asdict(condition)}).fetchone()
            except BaseException:
                self.drop()
                raise
        assert row is not None
        now: datetime = row["now"]
        return now

    def drain(self) -> None:
        """Have nothing more given to the process. Raise UnreachableError."""
        self.database.rows("UPDATE processes SET draining = true WHERE id = %(id)s", {"id": self.id})

    def end(self) -> None:
        """End in order: the row goes, and what the process held is free at once. Raise UnreachableError."""
        try:
            self.database.rows(
                "WITH gone AS (DELETE FROM processes WHERE id = %(id)s), owned AS MATERIALIZED ("
                " SELECT id FROM workspaces WHERE owner = %(id)s ORDER BY id FOR NO KEY UPDATE)"
                " UPDATE workspaces w SET owner = NULL FROM owned WHERE w.id = owned.id AND w.owner = %(id)s",
                {"id": self.id},
            )
        finally:
            self.drop()

    def drop(self) -> None:
        """Close the session without a word, as the death of the process does."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Processes:
    """The rows of processes."""

    def __init__(self, database: FleetDatabase) -> None:
        self._database = database

    def all(self) -> list[Process]:
        """Return every process that is known, also those that died in the last hour."""
        return [
            Process(**row)
            for row in self._database.rows(
                "SELECT id, kind, address, host, version, slots, started_at, draining, owned, dreaming, problem,"
                " id IN (SELECT id FROM living) AS alive,"
                " greatest(0, extract(epoch FROM clock_timestamp() - seen_at))::float8 AS silent_seconds"
                " FROM processes ORDER BY kind, started_at"
            )
        ]

    def sweep(self) -> None:
        """Forget processes that have been dead for an hour."""
        self._database.rows("DELETE FROM processes WHERE seen_at < clock_timestamp() - interval '1 hour'")
