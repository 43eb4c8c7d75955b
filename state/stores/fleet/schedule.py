"""Schedule: which workspaces are due, and their jobs, which Procrastinate hands to workers.

When a workspace is due is a column of its row: arrivals and commits bring the moment nearer, a job that is queued
takes it away. What is to be done the job finds out once it has the folder. One process queues jobs at a time.

Jobs have no lock of Procrastinate's: who dreams alone is the lease's matter, and a job whose process died holds up
nobody. One that waits is told by its queueing lock.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from state.fleet import Place, Quotas
from state.stores.fleet.database import Statements
from state.stores.fleet.registry import quotas_of

ANYBODYS_QUEUE = "fleet"
WORK = "work"
_LOCK = 0x6472656172
# So many jobs wait for each slot: a process that ends one finds the next, and what waits longer waits in the
# registry, where it can be chosen again.
_WAITING_FOR_A_SLOT = 2
# Of jobs in one slot, at most.
_ENDED_A_SECOND = 4
# A job that was fetched and whose workspace has no owner after so long is dead.
_BEGIN_SECONDS = 20.0
# So is one whose worker of Procrastinate's, which speaks every ten seconds, was silent for so long.
_SILENT_SECONDS = 45.0
# A process may die of anything; of the same workspace again and again it dies of that. Where others were lost with
# it, one of them may be what it died of.
_LOST_BEFORE_A_PAUSE, _LOST_WITH_OTHERS = 2, 5
# A dream of a process that died is counted for so long, or until the workspace has a new owner.
_DREAMING = "w.dreaming_at > statement_timestamp() - interval '1 hour'"


@dataclass(frozen=True, slots=True)
class Use:
    """What a tenant has used today; `dreaming`: dreams under way, which may cost as much as their ceiling allows."""

    dreaming: int = 0
    dreams: int = 0
    tokens: int = 0
    usd: float = 0.0


Refusal = Callable[[Quotas, Use, Use], str]
"""Why a tenant with these quotas may have no dream now, beside its own use and that of all; empty when it may."""

# No row while nothing is due.
_TAKE_TURN = f"""
SELECT pg_try_advisory_xact_lock({_LOCK}) AS is_ours FROM (
    SELECT FROM workspaces WHERE due_at <= statement_timestamp() AND queued_at IS NULL AND removed_at IS NULL
    LIMIT 1) AS due
"""

# Of each tenant the one that is due the longest comes first, then the second of each, after those that have jobs. Who
# finds no slot is looked at again when its turn among its tenant's may come, the first one at once: so thousands of
# one tenant never stand before the one of another. A workspace that has a waiting job already is marked alone:
# Procrastinate would refuse all of them for a second one.
_QUEUE_DUE = f"""
WITH due AS MATERIALIZED (
    SELECT id, tenant, due_at FROM workspaces
    WHERE due_at <= statement_timestamp() AND queued_at IS NULL AND removed_at IS NULL
    ORDER BY due_at LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED),
busy AS MATERIALIZED (SELECT tenant, count(*) AS jobs FROM workspaces WHERE queued_at IS NOT NULL GROUP BY tenant),
slots AS MATERIALIZED (
    SELECT coalesce(sum(slots), 0) AS all FROM living WHERE NOT draining),
turns AS (
    SELECT d.id, d.due_at, coalesce(b.jobs, 0) + row_number() OVER (PARTITION BY d.tenant ORDER BY d.due_at, d.id)
        AS turn FROM due d LEFT JOIN busy b ON b.tenant = d.tenant),
placed AS MATERIALIZED (
    SELECT id, turn, row_number() OVER (ORDER BY turn, due_at, id) + (SELECT coalesce(sum(jobs), 0) FROM busy)
        <= {_WAITING_FOR_A_SLOT} * (SELECT s.all FROM slots s) AS chosen FROM turns),
marked AS (
    UPDATE workspaces w SET queued_at = CASE WHEN p.chosen THEN clock_timestamp() END,
        due_at = CASE WHEN NOT p.chosen THEN clock_timestamp() + least(interval '10 minutes', make_interval(
            secs => 1 + p.turn / ({_ENDED_A_SECOND}.0 * (SELECT greatest(1, s.all) FROM slots s)))) END
    FROM placed p WHERE w.id = p.id RETURNING w.id, w.owner, p.chosen),
deferred AS (
    SELECT procrastinate_defer_jobs_v1(array_agg(ROW(
        CASE WHEN l.id IS NULL THEN '{ANYBODYS_QUEUE}' ELSE 'w' || replace(l.id::text, '-', '') END, '{WORK}', 0,
        NULL, 'ws-' || m.id, jsonb_build_object('workspace', m.id, 'reason', ''), NULL
        )::procrastinate_job_to_defer_v1)) AS jobs
    FROM marked m LEFT JOIN living l ON l.id = m.owner WHERE m.chosen AND NOT EXISTS (
        SELECT 1 FROM procrastinate_jobs j WHERE j.status = 'todo' AND j.queueing_lock = 'ws-' || m.id)
    HAVING count(*) > 0)
SELECT (SELECT count(*) FROM due) AS looked, (SELECT count(*) FROM deferred) AS deferred
"""

_QUEUE_ONE = f"""
WITH marked AS (
    UPDATE workspaces SET queued_at = clock_timestamp(), due_at = NULL
    WHERE id = %(id)s AND queued_at IS NULL AND removed_at IS NULL RETURNING id)
SELECT procrastinate_defer_jobs_v1(ARRAY[ROW(
    %(queue)s, '{WORK}', 0, NULL, 'ws-' || m.id, %(args)s::jsonb, NULL)::procrastinate_job_to_defer_v1])
FROM marked m WHERE NOT EXISTS (
    SELECT 1 FROM procrastinate_jobs j WHERE j.status = 'todo' AND j.queueing_lock = 'ws-' || m.id)
"""

# A job waits where somebody fetches it, or a worker of Procrastinate's that lives has begun it since it was queued,
# while its workspace has an owner or just now. Any other one is lost: its process can die while another one owns the
# workspace. What dead workers had goes with it: Procrastinate leaves it.
_CLEAR_LOST = f"""
WITH lost AS MATERIALIZED (
    SELECT w.id, w.queued_at < pg_postmaster_start_time() AS outage
    FROM workspaces w LEFT JOIN living p ON p.id = w.owner
    WHERE w.queued_at < statement_timestamp() - make_interval(secs => %(begin)s) AND w.removed_at IS NULL
    AND NOT EXISTS (
        SELECT 1 FROM procrastinate_jobs j WHERE j.status = 'todo' AND j.queueing_lock = 'ws-' || w.id
        AND (j.queue_name = '{ANYBODYS_QUEUE}' OR EXISTS (
            SELECT 1 FROM living q WHERE 'w' || replace(q.id::text, '-', '') = j.queue_name)))
    AND NOT EXISTS (
        SELECT 1 FROM procrastinate_jobs j JOIN procrastinate_workers k ON k.id = j.worker_id
        JOIN procrastinate_events e ON e.job_id = j.id AND e.type = 'started' AND e.at >= w.queued_at
        WHERE j.status = 'doing' AND j.queueing_lock = 'ws-' || w.id
        AND k.last_heartbeat > clock_timestamp() - make_interval(secs => %(silent)s)
        AND (p.id IS NOT NULL OR e.at > clock_timestamp() - make_interval(secs => %(begin)s)))
    FOR NO KEY UPDATE OF w SKIP LOCKED),
dead AS (
    DELETE FROM procrastinate_jobs j
    WHERE j.queueing_lock IN (SELECT 'ws-' || lost.id FROM lost) OR (j.status = 'doing' AND NOT EXISTS (
        SELECT 1 FROM procrastinate_workers k WHERE k.id = j.worker_id
        AND k.last_heartbeat > clock_timestamp() - make_interval(secs => %(silent)s))))
UPDATE workspaces w SET queued_at = NULL, dreaming_at = NULL, failures = failures + (NOT lost.outage)::int,
    problem = CASE WHEN lost.outage THEN problem
        ELSE 'its process went away, or lost PostgreSQL, before the job was done' END,
    due_at = clock_timestamp() + CASE WHEN NOT lost.outage AND failures >= CASE
            WHEN (SELECT count(*) FROM lost) = 1 THEN {_LOST_BEFORE_A_PAUSE} ELSE {_LOST_WITH_OTHERS} END
        THEN interval '1 minute' * power(2, least(failures, 8)) ELSE interval '0' END
FROM lost WHERE w.id = lost.id RETURNING w.id
"""

_USE_OF_ALL = f"""
SELECT s.*, (SELECT count(*) FROM workspaces w WHERE w.id <> %(id)s AND {_DREAMING}) AS dreaming
FROM (SELECT coalesce(sum(dreams), 0)::int AS dreams, coalesce(sum(tokens), 0)::bigint AS tokens,
          coalesce(sum(usd), 0)::float8 AS usd
      FROM spending s WHERE s.day = (statement_timestamp() AT TIME ZONE 'UTC')::date) s
"""
_USE = _USE_OF_ALL.replace("WHERE ", "WHERE %(tenant)s = tenant AND ").replace(
    "SELECT s.*", "SELECT s.*, (SELECT quotas FROM tenants WHERE id = %(tenant)s) AS quotas", 1
)


class Schedule(Statements):
    """The due times of all workspaces. Raises UnreachableError while PostgreSQL is away."""

    def queue_due(self, most: int) -> int:
        """Queue the jobs of what is due, as many as there are slots for; return how many workspaces were looked at.

        None of it while another process does.
        """
        with self._database.transaction() as cursor:
            # Apart: what another process has queued is seen only by a statement that begins after its commit.
            turn = cursor.execute(_TAKE_TURN).fetchone()
            if turn is None or not turn["is_ours"]:
                return 0
            done = cursor.execute(_QUEUE_DUE, {"most": most}).fetchone()
        return int(done["looked"]) if done else 0

    def queue(self, workspace: int, reason: str = "", queue: str = ANYBODYS_QUEUE) -> None:
        """Queue a job of this workspace, unless one waits or runs. `reason`: of a dream that somebody asked for."""
        args = json.dumps({"workspace": workspace, "reason": reason})
        self._database.rows(_QUEUE_ONE, {"id": workspace, "queue": queue, "args": args})

    def admit(self, place: Place, refusal: Refusal, *, with_all: bool = False) -> str:
        """Count a dream of this workspace until its commit, unless there is a `refusal`; return that.

        One at a time: each sees what the others may cost. `with_all`: the refusal is told what all have used.
        """
        with self._database.transaction() as cursor:

            def use(statement: str) -> dict[str, Any]:
                cursor.execute(statement, {"tenant": place.tenant, "id": place.id})
                return cursor.fetchone() or {}

            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK + 1,))
            own = use(_USE)
            quotas = quotas_of(own.pop("quotas", None) or {})
            refused = refusal(quotas, Use(**own), Use(**use(_USE_OF_ALL)) if with_all else Use())
            if not refused:
                cursor.execute("UPDATE workspaces SET dreaming_at = clock_timestamp() WHERE id = %s", (place.id,))
            return refused

    def abandon(self, workspaces: Sequence[int]) -> None:
        """Give up the jobs of these workspaces, which is no failure: each is due at once."""
        self._database.rows(
            "WITH dead AS (DELETE FROM procrastinate_jobs WHERE queueing_lock = ANY(%(locks)s))"
            " UPDATE workspaces SET queued_at = NULL, dreaming_at = NULL, due_at = clock_timestamp()"
            " WHERE id = ANY(%(ids)s) AND removed_at IS NULL",
            {"locks": [f"ws-{one}" for one in workspaces], "ids": list(workspaces)},
        )

    def clear_lost(self) -> list[int]:
        """Have the workspaces of jobs that died looked at again, and return which they are.

        Each counts as a failure, but for those that an outage of PostgreSQL may have cost; after some in a row the
        workspace rests for a while.
        """
        rows = self._database.rows(_CLEAR_LOST, {"begin": _BEGIN_SECONDS, "silent": _SILENT_SECONDS})
        return [row["id"] for row in rows]
