"""Leases: which processes live, which of them holds a workspace, and the statement that records a generation.

A process lives as long as its session with PostgreSQL, which ends when the process dies or is silent for fifteen
seconds, because it hangs or the connection is cut. A lease is the holder's id in the workspace's row, valid while
that process lives. The object store is the fence: it takes one generation of a number, so a displaced holder may
commit as long as nobody else has, which is harmless: the new holder's commit of the same number is then refused. The
number here is a hint, and no commit makes it lower.
"""

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from state.budget import Spend
from state.errors import FencedError, NotFoundError, NotKeptError, UnreachableError
from state.fleet import InboxRow, Lease, Place
from state.stores.fleet.database import (
    BoundedConnection,
    FleetDatabase,
    Statements,
    explained_errors,
    open_session,
    storable,
)

ALIVE_SECONDS = 15.0
"""PostgreSQL ends a session after this long a silence; then others may take the workspaces of its process."""
HEARTBEAT_SECONDS = 5.0
# For this long PostgreSQL is asked again whether a commit succeeded.
_PATIENCE = Retrying(
    stop=stop_after_delay(20.0), wait=wait_fixed(0.5), retry=retry_if_exception_type(UnreachableError), reraise=True
)


# ------------------------------------------------------------------- processes


@dataclass(frozen=True, slots=True)
class Condition:
    """What a process reports about itself: workspaces owned and dreaming; `problem` is why it cannot work now."""

    owned: int = 0
    dreaming: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """A process as the status shows it. `alive`: it has a session; `draining`: it ends or ended as it was told."""

    id: UUID
    kind: str
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
    healthy_at: datetime

    @property
    def has_died(self) -> bool:
        """Return whether it went without a word."""
        return not (self.alive or self.draining)


_BEAT = """
INSERT INTO processes (id, kind, address, host, version, slots, owned, dreaming, problem)
VALUES (%(id)s, 'serve', %(address)s, %(host)s, %(version)s, %(slots)s, %(owned)s, %(dreaming)s, %(problem)s)
ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), owned = excluded.owned, dreaming = excluded.dreaming,
    problem = excluded.problem,
    healthy_at = CASE WHEN processes.problem = '' THEN clock_timestamp() ELSE processes.healthy_at END
RETURNING clock_timestamp() AS now
"""

_RIVAL = """
SELECT p.id, p.host, p.seen_at FROM living p WHERE p.address = %(address)s AND p.id <> %(id)s
AND p.started_at <= coalesce((SELECT started_at FROM processes WHERE id = %(id)s), clock_timestamp())
ORDER BY p.started_at LIMIT 1
"""

# The names of queues are those of `state.stores.fleet.schedule`.
_DRAIN = """
WITH passed_on AS (
    UPDATE procrastinate_jobs SET queue_name = 'fleet'
    WHERE queue_name = 'w' || replace(%(id)s::text, '-', '') AND status = 'todo')
UPDATE processes SET draining = true WHERE id = %(id)s
"""

# The row stays for an hour, as that of a process that died does; that one is not draining.
_END = """
WITH gone AS (
    UPDATE processes SET draining = true, owned = 0, dreaming = 0, seen_at = clock_timestamp() WHERE id = %(id)s),
owned AS MATERIALIZED (SELECT id FROM workspaces WHERE owner = %(id)s ORDER BY id FOR NO KEY UPDATE)
UPDATE workspaces w SET owner = NULL FROM owned WHERE w.id = owned.id AND w.owner = %(id)s
"""


@dataclass
class Session:
    """The session by which one process lives; others reach the process at `address`. Thread-safe."""

    database: FleetDatabase
    id: UUID
    address: str = ""
    host: str = ""
    version: str = ""
    slots: int = 0

    def __post_init__(self) -> None:
        self._row = {name: getattr(self, name) for name in ("id", "address", "host", "version", "slots")}
        self._lock = threading.Lock()
        self._connection: BoundedConnection | None = None

    @property
    def has_ended(self) -> bool:
        """Return whether PostgreSQL has ended the session since the last beat, as far as the socket shows."""
        connection = self._connection
        return connection is not None and not connection.closed and connection.is_told

    def beat(self, condition: Condition = Condition()) -> datetime:
        """Report that the process lives, and return PostgreSQL's time.

        If the session has ended, begin another one: workspaces that nobody has taken meanwhile still belong to the
        process. Raise UnreachableError.
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

    def rival(self) -> dict[str, Any] | None:
        """Return the id, host and last word of a living process that has had this one's address for longer."""
        return self.database.row(_RIVAL, {"id": self.id, "address": self.address})

    def drain(self) -> None:
        """Stop new work from being given to the process, and give its waiting jobs to all. Raise UnreachableError."""
        self.database.rows(_DRAIN, {"id": self.id})

    def end(self) -> None:
        """End cleanly: free what the process held at once. Raise UnreachableError."""
        try:
            self.database.rows(_END, {"id": self.id})
        finally:
            self.drop()

    def drop(self) -> None:
        """Close the session without notice, as if the process had died."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def processes(database: FleetDatabase) -> list[Process]:
    """Return every known process, including those that died or ended in the last hour."""
    return database.all(
        Process,
        "SELECT id, kind, address, host, version, slots, started_at, draining, owned, dreaming, problem,"
        " healthy_at,"
        " id IN (SELECT id FROM living) AS alive,"
        " greatest(0, extract(epoch FROM clock_timestamp() - seen_at))::float8 AS silent_seconds"
        " FROM processes ORDER BY kind, started_at",
    )


# ------------------------------------------------------------------- leases


class HeldElsewhereError(NotKeptError):
    """Another process holds the workspace, at `address`; if that is empty, it is about to change hands."""

    def __init__(self, handle: str, address: str) -> None:
        super().__init__(f"{handle} is held by another process", "ask that one")
        self.address = address


@dataclass(frozen=True, slots=True)
class Commit:
    """What a holder has put into the store: a generation, the inbox rows in it, and facts for the schedule.

    `due_in` is the time until it wants a job (None: when something arrives). `dreams` is the count for a dream that
    ended with it (0: it does not count), None if no dream ended. `erased`: older generations hold forgotten text.
    """

    generation: int
    size: int
    taken: tuple[int, ...] = ()
    dreams: int | None = None
    spent: Spend = field(default_factory=Spend)
    due_in: timedelta | None = None
    erased: bool = False


_TAKE = """
WITH taken AS (
    UPDATE workspaces w SET owner = %(owner)s, dreaming_at = NULL
    WHERE w.id = %(id)s AND w.removed_at IS NULL
      AND (w.owner IS NULL OR w.owner = %(owner)s OR NOT EXISTS (SELECT 1 FROM living p WHERE p.id = w.owner))
      AND EXISTS (SELECT 1 FROM living me WHERE me.id = %(owner)s)
    RETURNING w.*)
SELECT taken.id, taken.tenant, t.name AS tenant_name, taken.name, taken.timezone, taken.generation,
    taken.created_at, taken.committed_at,
    taken.due_at IS NOT NULL OR taken.queued_at IS NOT NULL OR taken.generation = 0 AS is_due
FROM taken JOIN tenants t ON t.id = taken.tenant WHERE t.removed_at IS NULL
"""

_HOLDER = """
SELECT p.id, coalesce(p.address, '') AS address FROM workspaces w LEFT JOIN living p ON p.id = w.owner
WHERE w.id = %(id)s AND w.removed_at IS NULL
"""

# An arrival during a queued job makes the workspace due; that time is kept, although this statement may not see the
# arrival. A problem may quote forgotten text, and rows set aside may hold it.
_COMMIT = """
WITH held AS (
    UPDATE workspaces w SET generation = %(generation)s, bytes = %(size)s,
        committed_at = clock_timestamp(),
        dreaming_at = CASE WHEN %(dreams)s::int IS NULL THEN dreaming_at END,
        problem = CASE WHEN %(erased)s AND problem <> ''
            THEN 'it failed before something was forgotten there' ELSE problem END,
        due_at = CASE WHEN queued_at IS NOT NULL THEN due_at
            ELSE least(due_at, clock_timestamp() + %(due_in)s::interval) END
    WHERE w.id = %(id)s AND w.generation < %(generation)s AND w.removed_at IS NULL
    RETURNING w.*),
taken AS (
    UPDATE inbox i SET body = '', taken_at = clock_timestamp() FROM held
    WHERE i.workspace = held.id AND i.taken_at IS NULL AND i.id = ANY(%(taken)s::bigint[])),
aside AS (
    UPDATE inbox i SET body = '', taken_at = clock_timestamp() FROM held
    WHERE %(erased)s AND i.workspace = held.id AND i.taken_at = 'infinity'),
erased AS (
    INSERT INTO erased (tenant, workspace, kept) SELECT tenant, id, %(generation)s FROM held WHERE %(erased)s),
spent AS (
    INSERT INTO spending AS s (day, tenant, workspace, dreams, calls, tokens, usd)
    SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date, held.tenant, held.id,
        coalesce(%(dreams)s::int, 0), %(calls)s, %(tokens)s, %(usd)s
    FROM held WHERE coalesce(%(dreams)s::int, 0) <> 0 OR %(calls)s <> 0 OR %(tokens)s <> 0 OR %(usd)s <> 0
    ON CONFLICT (day, tenant, workspace) DO UPDATE SET dreams = s.dreams + excluded.dreams,
        calls = s.calls + excluded.calls, tokens = s.tokens + excluded.tokens, usd = s.usd + excluded.usd)
SELECT generation FROM held
"""

_CHARGE = """
WITH charged AS (
    INSERT INTO spending AS s (day, tenant, workspace, calls, tokens, usd)
    SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date, w.tenant, w.id, %(calls)s, %(tokens)s, %(usd)s
    FROM workspaces w WHERE w.id = %(id)s
    ON CONFLICT (day, tenant, workspace) DO UPDATE SET calls = s.calls + excluded.calls,
        tokens = s.tokens + excluded.tokens, usd = s.usd + excluded.usd)
SELECT 1 FROM workspaces w WHERE w.id = %(id)s AND w.owner = %(owner)s AND w.removed_at IS NULL
"""

_WAITING = """
SELECT i.id, i.kind, i.key, i.body, i.at
FROM workspaces w LEFT JOIN inbox i ON i.workspace = w.id AND i.taken_at IS NULL
WHERE w.id = %(id)s AND w.owner = %(owner)s AND w.removed_at IS NULL ORDER BY i.id
"""

_SETTLE = """
UPDATE workspaces SET queued_at = NULL, due_at = least(due_at, clock_timestamp() + %(due_in)s::interval),
    failures = CASE WHEN %(done)s THEN 0 ELSE failures END, problem = CASE WHEN %(done)s THEN '' ELSE problem END
WHERE id = %(id)s AND removed_at IS NULL
"""

_SETTLE_FAILED = """
UPDATE workspaces SET queued_at = NULL, dreaming_at = NULL, problem = %(problem)s, failures = failures + 1,
    failed_at = CASE WHEN failures = 0 THEN clock_timestamp() ELSE failed_at END,
    due_at = clock_timestamp() + interval '1 minute' * power(2, least(failures, 8))
WHERE id = %(id)s AND removed_at IS NULL
"""


class Leases(Statements):
    """The leases of all workspaces. Methods raise UnreachableError while PostgreSQL is unreachable."""

    def take(self, workspace: int, owner: UUID) -> Lease:
        """Take the lease of the workspace.

        Raise HeldElsewhereError if another living process has it or `owner` is dead, NotFoundError if it is gone.
        """
        row = self._database.row(_TAKE, {"id": workspace, "owner": owner})
        if row is not None:
            place = Place(*(row.pop(key) for key in ("id", "tenant", "tenant_name", "name", "timezone")))
            return Lease(place, owner, **row)
        handle, holder = f"ws-{workspace}", self._database.row(_HOLDER, {"id": workspace})
        if holder is None:
            raise NotFoundError(f"there is no workspace {handle}", "it was removed")
        raise HeldElsewhereError(handle, holder["address"] if holder["id"] != owner else "")

    def held(self, owner: UUID) -> set[int]:
        """Return the existing workspaces that this process holds."""
        rows = self._database.rows(
            "SELECT id FROM workspaces WHERE owner = %(owner)s AND removed_at IS NULL", {"owner": owner}
        )
        return {row["id"] for row in rows}

    def waiting(self, lease: Lease) -> list[InboxRow]:
        """Return what waits in the workspace's inbox, by id; a lower id may still appear after a higher one.

        Raise HeldElsewhereError if somebody else has taken the workspace, because this holder's copy is then
        outdated.
        """
        rows = self._database.rows(_WAITING, {"id": lease.place.id, "owner": lease.owner})
        if not rows:
            raise HeldElsewhereError(lease.place.handle, "")
        return [InboxRow(**row) for row in rows if row["id"] is not None]

    def commit(self, lease: Lease, commit: Commit) -> Lease:
        """Record that the store has this generation of the workspace, and return the lease with it.

        Raise FencedError if the workspace was removed. Raise UnreachableError if PostgreSQL did not answer in time,
        or has a newer generation: whether that one builds on this one is not known.
        """
        values = {**asdict(commit), **asdict(commit.spent), "taken": list(commit.taken), "id": lease.place.id}
        now = _PATIENCE.copy()(self._committed, values)
        if now == commit.generation:  # possibly by an earlier try whose answer was lost
            return replace(lease, generation=now)
        if now is None:
            raise FencedError(f"ws-{lease.place.id} was removed", "nothing of what was under way is kept")
        raise UnreachableError(
            f"ws-{lease.place.id} has generation {now}, committed by another holder while this one put"
            f" {commit.generation}",
            "look whether it is there before you try again",
        )

    def _committed(self, values: Mapping[str, Any]) -> int | None:
        """Commit, and return the workspace's generation afterwards: another one if the commit was refused."""
        # The second statement waits for a commit still in progress; one that arrives later is refused like the first.
        row = self._database.row(_COMMIT, values) or self._database.row(
            "SELECT generation FROM workspaces WHERE id = %(id)s AND removed_at IS NULL FOR SHARE", values
        )
        return row["generation"] if row is not None else None

    def charge(self, lease: Lease, spent: Spend) -> bool:
        """Count what a dream cost before it is committed, whoever holds the workspace, because it is spent.

        Return whether this holder still has the workspace.
        """
        values = {"id": lease.place.id, "owner": lease.owner, **asdict(spent)}
        return bool(self._database.rows(_CHARGE, values))

    def release(self, lease: Lease) -> None:
        """Release the workspace."""
        self._database.rows(
            "UPDATE workspaces SET owner = NULL, dreaming_at = NULL WHERE id = %(id)s AND owner = %(owner)s",
            {"id": lease.place.id, "owner": lease.owner},
        )

    def take_away(self, workspace: int) -> None:
        """Remove the workspace's holder, who finds out at its next step and commits nothing more."""
        self._database.rows("UPDATE workspaces SET owner = NULL WHERE id = %(id)s", {"id": workspace})

    def settle(self, workspace: int, due_in: timedelta | None, *, done: bool = True) -> None:
        """Record that a job of the workspace is done, or not possible now; it wants another one after `due_in`."""
        self._database.rows(_SETTLE, {"id": workspace, "due_in": due_in, "done": done})

    def settle_failed(self, workspace: int, problem: str) -> None:
        """Record that a job of the workspace failed; each failure in a row doubles the wait for the next job."""
        self._database.rows(_SETTLE_FAILED, {"id": workspace, "problem": storable(problem)[:500]})
