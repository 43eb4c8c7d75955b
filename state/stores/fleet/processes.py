"""Processes: the workers and gateways of the fleet, each alive until its row says otherwise."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from state.errors import ConflictError
from state.fleet.workspace import Worker
from state.stores.fleet.database import FleetDatabase

Kind = Literal["worker", "gateway", "upkeep"]
"""`upkeep`: a command that owns a workspace for a moment."""
ALIVE_SECONDS = 15.0
"""After its last word a process counts as dead; whoever wants its workspaces may take them."""
HEARTBEAT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Condition:
    """What a process says of itself: what it owns and dreams; `problem`: why it can do nothing now."""

    owned: int = 0
    dreaming: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """A process as the status shows it. `alive`: it has spoken in the last fifteen seconds."""

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


class Processes:
    """The rows of workers and gateways."""

    def __init__(self, database: FleetDatabase) -> None:
        self._database = database

    def begin(self, kind: Kind, one: Worker, host: str, version: str, slots: int = 0) -> None:
        """Enter a process that starts; it is alive from now on, as long as it says so.

        Raise ConflictError for an id that began before: a process that was silent for too long is another one.
        """
        begun = self._database.row(
            "INSERT INTO processes (id, kind, address, secret, host, version, slots, alive_until) VALUES (%(id)s,"
            " %(kind)s, %(address)s, %(secret)s, %(host)s, %(version)s, %(slots)s,"
            " clock_timestamp() + make_interval(secs => %(alive)s)) ON CONFLICT DO NOTHING RETURNING id",
            {
                "id": one.id,
                "kind": kind,
                "address": one.address,
                "secret": one.secret,
                "host": host,
                "version": version,
                "slots": slots,
                "alive": ALIVE_SECONDS,
            },
        )
        if begun is None:
            raise ConflictError(f"process {one.id} has begun before", "begin with a new id")

    def heartbeat(self, one: UUID, condition: Condition = Condition(), *, draining: bool = False) -> datetime | None:
        """Say that the process lives; PostgreSQL's time. None when it counts as dead already: it must begin anew."""
        found = self._database.row(
            "UPDATE processes SET alive_until = clock_timestamp() + make_interval(secs => %(alive)s),"
            " owned = %(owned)s, dreaming = %(dreaming)s, problem = %(problem)s, draining = draining OR %(draining)s"
            " WHERE id = %(id)s AND alive_until > clock_timestamp() RETURNING clock_timestamp() AS now",
            {"id": one, "alive": ALIVE_SECONDS, "draining": draining, **asdict(condition)},
        )
        return found["now"] if found else None

    def end(self, one: UUID) -> None:
        """Take away the row of a process that ends in order: what it owned is free at once."""
        self._database.rows(
            "WITH gone AS (DELETE FROM processes WHERE id = %(id)s), owned AS MATERIALIZED ("
            " SELECT id FROM workspaces WHERE owner = %(id)s ORDER BY id FOR NO KEY UPDATE)"
            " UPDATE workspaces w SET owner = NULL FROM owned WHERE w.id = owned.id AND w.owner = %(id)s",
            {"id": one},
        )

    def workers(self) -> list[Worker]:
        """Return the workers that live and take work, the least busy first."""
        return [
            Worker(row["id"], row["address"], row["secret"])
            for row in self._database.rows(
                "SELECT id, address, secret FROM processes WHERE kind = 'worker' AND NOT draining"
                " AND alive_until > clock_timestamp() ORDER BY owned, id"
            )
        ]

    def all(self) -> list[Process]:
        """Return every process that is known, also those that died in the last hour."""
        return [
            Process(**row)
            for row in self._database.rows(
                "SELECT id, kind, address, host, version, slots, started_at, draining, owned, dreaming, problem,"
                " alive_until > clock_timestamp() AS alive, greatest(0, %(alive)s"
                " + extract(epoch FROM clock_timestamp() - alive_until))::float8 AS silent_seconds"
                " FROM processes ORDER BY kind DESC, started_at",
                {"alive": ALIVE_SECONDS},
            )
        ]

    def sweep(self) -> int:
        """Forget processes that have been dead for an hour; return how many."""
        gone = self._database.rows(
            "DELETE FROM processes WHERE alive_until < clock_timestamp() - interval '1 hour' RETURNING id"
        )
        return len(gone)
