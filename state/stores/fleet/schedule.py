"""Schedule: which workspaces are due, and their jobs, which Procrastinate hands to workers.

One process sweeps at a time. What it decides is written in the transaction in which it read, jobs with it: a process
that dies in the middle has decided nothing.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from state.fleet.tenant import Quotas
from state.fleet.workspace import Place
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.tenants import quotas_of

if TYPE_CHECKING:
    from psycopg import Cursor
    from psycopg.rows import DictRow

ANYBODYS_QUEUE = "fleet"
DREAM, CONSOLIDATE = "dream", "consolidate"
_SWEEP_LOCK = 0x6472656172
# A job that was fetched and whose workspace has no owner after so long is dead.
_BEGIN_SECONDS = 20.0
# So is one whose worker of Procrastinate's, which speaks every ten seconds, was silent for so long.
_SILENT_SECONDS = 45.0
_LOOKED_AT_AGAIN = timedelta(seconds=20)
# A dream that was asked for of a worker that died is counted for so long, or until the workspace has a new owner.
_BUSY = (
    "(w.queued_at IS NOT NULL OR w.asked_at IS NOT NULL AND w.asked_at > statement_timestamp() - interval '1 hour')"
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits in an inbox. `latest`: when something came last."""

    notes: int = 0
    characters: int = 0
    oldest: datetime | None = None
    latest: datetime | None = None
    session_ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class DueRow:
    """A workspace that the sweep looks at. `queue`: of its living owner, else empty.

    `queued`: a job of it waits or runs; `lost`: that one is dead; `outage`: PostgreSQL has started anew since it was
    queued.
    """

    place: Place
    facts: str
    queue: str
    queued: bool
    lost: bool
    outage: bool
    failures: int
    due_at: datetime
    waiting: Waiting


@dataclass(frozen=True, slots=True)
class Use:
    """What a tenant uses today. `busy`: its workspaces with a job, or with a dream that somebody asked for."""

    quotas: Quotas
    busy: int = 0
    dreams: int = 0
    tokens: int = 0
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the fleet has: slots of living workers, workspaces that are `busy` as in `Use`, what today has cost."""

    now: datetime
    slots: int
    busy: int
    tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class Job:
    """A job to be queued."""

    workspace: int
    task: str
    reason: str
    queue: str
    urgent: bool = False


# The rows are locked first and read then: what came before the lock is seen, what comes later waits until this sweep
# has ended and wakes them anew.
_LOCK_DUE = """
SELECT id FROM workspaces WHERE due_at <= statement_timestamp() AND removed_at IS NULL
ORDER BY due_at LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED
"""

_LOST = "its worker went away, or lost PostgreSQL, before the job was done"

# A job waits where somebody fetches it, or a worker of Procrastinate's that lives does it, while its workspace has an
# owner or the job has just begun. Any other one is lost: its worker can die while another process owns the workspace.
_DUE = """
SELECT w.id, w.tenant, t.name AS tenant_name, w.name, w.facts, w.failures, w.due_at,
    CASE WHEN p.id IS NOT NULL THEN 'w' || replace(p.id::text, '-', '') ELSE '' END AS queue,
    w.queued_at IS NOT NULL AS queued,
    w.queued_at IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM procrastinate_jobs j WHERE j.status = 'todo' AND j.queueing_lock = 'ws-' || w.id
        AND (j.queue_name = %(anybodys)s OR EXISTS (
            SELECT 1 FROM living q WHERE 'w' || replace(q.id::text, '-', '') = j.queue_name)))
    AND NOT EXISTS (
        SELECT 1 FROM procrastinate_jobs j JOIN procrastinate_workers k ON k.id = j.worker_id
        WHERE j.status = 'doing' AND j.lock = 'ws-' || w.id
        AND k.last_heartbeat > clock_timestamp() - make_interval(secs => %(silent)s)
        AND (p.id IS NOT NULL OR EXISTS (
            SELECT 1 FROM procrastinate_events e WHERE e.job_id = j.id AND e.type = 'started'
            AND e.at > clock_timestamp() - make_interval(secs => %(begin)s)))) AS lost,
    w.queued_at IS NOT NULL AND w.queued_at < pg_postmaster_start_time() AS outage,
    i.notes, i.characters, i.oldest, i.latest, i.session_ended
FROM workspaces w JOIN tenants t ON t.id = w.tenant AND t.removed_at IS NULL
LEFT JOIN living p ON p.id = w.owner
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE kind = 'note') AS notes,
        coalesce(sum(length(body)) FILTER (WHERE kind = 'note'), 0) AS characters,
        min(at) FILTER (WHERE kind = 'note') AS oldest, max(at) FILTER (WHERE kind = 'note') AS latest,
        max(at) FILTER (WHERE kind = 'session_end') AS session_ended
    FROM inbox WHERE workspace = w.id AND taken_at IS NULL) i
WHERE w.id = ANY(%(ids)s)
ORDER BY w.due_at, w.id
"""

_USE = f"""
SELECT t.id, t.quotas, coalesce(s.dreams, 0) AS dreams, coalesce(s.tokens, 0) AS tokens, coalesce(s.usd, 0) AS usd,
    (SELECT count(*) FROM workspaces w WHERE w.tenant = t.id AND {_BUSY}) AS busy
FROM tenants t LEFT JOIN (
    SELECT tenant, sum(dreams) AS dreams, sum(tokens) AS tokens, sum(usd) AS usd FROM spending
    WHERE day = (now() AT TIME ZONE 'UTC')::date AND tenant = ANY(%(tenants)s) GROUP BY tenant) s
ON s.tenant = t.id WHERE t.id = ANY(%(tenants)s)
"""

_CAPACITY = f"""
SELECT clock_timestamp() AS now,
    (SELECT coalesce(sum(slots), 0) FROM living WHERE kind = 'worker' AND NOT draining) AS slots,
    (SELECT count(*) FROM workspaces w WHERE {_BUSY}) AS busy,
    s.tokens, s.usd
FROM (SELECT coalesce(sum(tokens), 0) AS tokens, coalesce(sum(usd), 0) AS usd FROM spending
      WHERE %(summed)s AND day = (now() AT TIME ZONE 'UTC')::date) s
"""

# A workspace that has a waiting job already is marked alone: Procrastinate would refuse all of them for a second one.
_DEFER = """
WITH given AS (
    SELECT * FROM unnest(%(ids)s::bigint[], %(tasks)s::text[], %(args)s::jsonb[], %(queues)s::text[],
                         %(priorities)s::int[]) AS g (id, task, args, queue, priority)),
marked AS (
    UPDATE workspaces w SET queued_at = clock_timestamp(), due_at = clock_timestamp() + %(again)s, seen = arrived
    FROM given WHERE w.id = given.id AND w.removed_at IS NULL RETURNING w.id)
SELECT procrastinate_defer_jobs_v1(array_agg(
    ROW(g.queue, g.task, g.priority, 'ws-' || g.id, 'ws-' || g.id, g.args, NULL)::procrastinate_job_to_defer_v1))
FROM given g JOIN marked ON marked.id = g.id
WHERE NOT EXISTS (
    SELECT 1 FROM procrastinate_jobs j WHERE j.status = 'todo' AND j.queueing_lock = 'ws-' || g.id)
"""
_DELETE_JOBS = """
DELETE FROM procrastinate_jobs WHERE (status = 'todo' AND queueing_lock = ANY(%(locks)s))
    OR (status = 'doing' AND lock = ANY(%(locks)s))
"""
# A workspace is marked from the time at which its job is queued to its end.
_ENDED = """
j.status = 'doing' AND NOT EXISTS (
    SELECT 1 FROM workspaces w WHERE 'ws-' || w.id = j.lock AND w.queued_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs o WHERE o.lock = j.lock AND o.status = 'todo'))
"""
_DEFER_ONE = _DEFER.replace("WHERE w.id = given.id", "WHERE w.id = given.id AND w.queued_at IS NULL")


class Sweep:
    """One look at all that is due, within a transaction."""

    def __init__(self, cursor: "Cursor[DictRow]", database: FleetDatabase) -> None:
        self._cursor = cursor
        self._database = database

    def due(self, most: int) -> list[DueRow]:
        """Return at most so many workspaces, those that have been due the longest."""
        locked = [row["id"] for row in self._rows(_LOCK_DUE, {"most": most})]
        if not locked:
            return []
        values = {"ids": locked, "anybodys": ANYBODYS_QUEUE, "begin": _BEGIN_SECONDS, "silent": _SILENT_SECONDS}
        return [_due_row(row) for row in self._rows(_DUE, values)]

    def capacity(self, *, spent: bool) -> Capacity:
        """Return what the fleet has now; `spent`: with what today has cost all tenants together."""
        [row] = self._rows(_CAPACITY, {"summed": spent})
        return Capacity(row["now"], int(row["slots"]), int(row["busy"]), int(row["tokens"]), float(row["usd"]))

    def use(self, tenants: Sequence[int]) -> dict[int, Use]:
        """Return what these tenants use today."""
        return {
            row["id"]: Use(
                quotas_of(row["quotas"]),
                int(row["busy"]),
                int(row["dreams"]),
                int(row["tokens"]),
                float(row["usd"]),
            )
            for row in self._rows(_USE, {"tenants": sorted(set(tenants))})
        }

    def postpone(self, until: Sequence[tuple[int, datetime | None]]) -> None:
        """Look at these workspaces at these times; None: when something comes."""
        self._rows(
            "UPDATE workspaces w SET due_at = g.at FROM unnest(%(ids)s::bigint[], %(at)s::timestamptz[])"
            " AS g (id, at) WHERE w.id = g.id",
            {"ids": [one for one, _ in until], "at": [at for _, at in until]},
        )

    def clear_lost(self, workspaces: Sequence[int], blamed: Sequence[int]) -> None:
        """Take away the dead jobs of these workspaces: their locks hold up later ones.

        Of those that are `blamed` each counts as a failure.
        """
        self._rows(
            f"WITH dead AS ({_DELETE_JOBS})"
            " UPDATE workspaces SET queued_at = NULL, failures = failures + (id = ANY(%(blamed)s))::int,"
            " problem = CASE WHEN id = ANY(%(blamed)s) THEN %(problem)s ELSE problem END WHERE id = ANY(%(ids)s)",
            {**_lost_values(workspaces), "blamed": list(blamed), "problem": _LOST},
        )

    def forgive_lost(self, workspaces: Sequence[int]) -> None:
        """Forgive these workspaces their lost jobs, if no other has failed: nothing is left to do of those."""
        self._rows(
            "UPDATE workspaces SET failures = 0, problem = '' WHERE id = ANY(%(ids)s) AND problem = %(problem)s",
            {"ids": list(workspaces), "problem": _LOST},
        )

    def count_asked(self, workspace: int) -> None:
        """Note that the workspace has a dream that somebody asked for."""
        self._rows("UPDATE workspaces SET asked_at = clock_timestamp() WHERE id = %(id)s", {"id": workspace})

    def defer(self, jobs: Sequence[Job]) -> None:
        """Queue these jobs, and mark their workspaces."""
        self._rows(_DEFER, _job_values(jobs))

    def _rows(self, statement: str, values: dict[str, Any]) -> list[dict[str, Any]]:
        self._database.statements += 1
        self._cursor.execute(statement, values)
        return self._cursor.fetchall() if self._cursor.description is not None else []


class Schedule:
    """The due times of all workspaces. Raises UnreachableError while PostgreSQL is away."""

    def __init__(self, database: FleetDatabase) -> None:
        self._database = database

    def is_due(self) -> bool:
        """Tell whether any workspace is due now."""
        return bool(
            self._database.row(
                "SELECT 1 FROM workspaces WHERE due_at <= statement_timestamp() AND removed_at IS NULL"
                " ORDER BY due_at LIMIT 1"
            )
        )

    def ask(self, place: Place, refusal: Callable[[Capacity, Use], str]) -> str:
        """Count a dream that somebody asked for, until its commit, unless there is a `refusal`; return that.

        One at a time, and none during a sweep: each sees what the others may cost.
        """
        with self._database.transaction() as cursor:
            sweep = Sweep(cursor, self._database)
            self._database.statements += 1
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_SWEEP_LOCK,))
            refused = refusal(sweep.capacity(spent=True), sweep.use([place.tenant])[place.tenant])
            if not refused:
                sweep.count_asked(place.id)
            return refused

    def abandon(self, workspaces: Sequence[int]) -> None:
        """Give up the jobs of these workspaces, which is no failure: each is due at once."""
        self._database.rows(
            f"WITH dead AS ({_DELETE_JOBS}) UPDATE workspaces SET queued_at = NULL, due_at = clock_timestamp()"
            " WHERE id = ANY(%(ids)s) AND removed_at IS NULL",
            _lost_values(workspaces),
        )

    def clear_dead(self, ended: Collection[int] = ()) -> int:
        """Take away jobs that nobody does any more, and return how many. The lock of each holds up its workspace.

        Their worker died after its commit, so that no mark of a queued job tells of them; or it lives, and could not
        say that they have ended: of `ended_jobs` those that it had some time ago.
        """
        return len(
            self._database.rows(
                f"DELETE FROM procrastinate_jobs j WHERE {_ENDED} AND (j.id = ANY(%(ended)s) OR NOT EXISTS ("
                " SELECT 1 FROM procrastinate_workers k WHERE k.id = j.worker_id"
                " AND k.last_heartbeat > clock_timestamp() - make_interval(secs => %(silent)s)))"
                " RETURNING j.id",
                {"silent": _SILENT_SECONDS, "ended": list(ended)},
            )
        )

    def ended_jobs(self) -> set[int]:
        """Return the jobs that have ended as their workspaces say, and not yet as Procrastinate does."""
        return {row["id"] for row in self._database.rows(f"SELECT j.id FROM procrastinate_jobs j WHERE {_ENDED}")}

    def queue(self, job: Job) -> None:
        """Queue this job, unless one of its workspace waits or runs."""
        self._database.rows(_DEFER_ONE, _job_values([job]))

    @contextmanager
    def sweep(self) -> Iterator[Sweep | None]:
        """Begin a sweep; None while another process sweeps."""
        with self._database.transaction() as cursor:
            self._database.statements += 1
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s) AS free", (_SWEEP_LOCK,))
            row = cursor.fetchone()
            yield Sweep(cursor, self._database) if row is not None and row["free"] else None


def _lost_values(workspaces: Sequence[int]) -> dict[str, Any]:
    return {"locks": [f"ws-{one}" for one in workspaces], "ids": list(workspaces)}


def _job_values(jobs: Sequence[Job]) -> dict[str, Any]:
    return {
        "ids": [one.workspace for one in jobs],
        "tasks": [one.task for one in jobs],
        "args": [json.dumps({"workspace": one.workspace, "reason": one.reason}) for one in jobs],
        "queues": [one.queue or ANYBODYS_QUEUE for one in jobs],
        "priorities": [int(one.urgent) for one in jobs],
        "again": _LOOKED_AT_AGAIN,
    }


def _due_row(row: dict[str, Any]) -> DueRow:
    return DueRow(
        Place(row["id"], row["tenant"], row["tenant_name"], row["name"]),
        row["facts"],
        row["queue"],
        row["queued"],
        row["lost"],
        row["outage"],
        row["failures"],
        row["due_at"],
        Waiting(int(row["notes"]), int(row["characters"]), row["oldest"], row["latest"], row["session_ended"]),
    )
