"""Schedule: which workspaces are due, and their jobs, which Procrastinate hands to workers.

The time at which a workspace is due is a column of its row: arrivals and commits bring it forward, a queued job
clears it. A job finds out what to do once it has the folder. One process queues jobs at a time.

Jobs use no lock of Procrastinate's: the lease decides who dreams, and the job of a dead process blocks nobody. A
waiting job is recognised by its queueing lock.
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
# At most this many jobs are queued per slot, so that a process that ends one finds the next. All others wait in the
# registry, where they can be chosen again.
_WAITING_FOR_A_SLOT = 2
# The most jobs that a slot ends per second.
_ENDED_A_SECOND = 4
# A job that was fetched is dead if its workspace has no owner after this long.
_BEGIN_SECONDS = 20.0
# It is also dead if its Procrastinate worker, which sends a heartbeat every ten seconds, was silent for this long.
_SILENT_SECONDS = 45.0
# A process may die of anything, but repeated deaths with the same workspace are blamed on it. If other workspaces
# were lost with it, one of them may be the cause, so more deaths are allowed.
_LOST_BEFORE_A_PAUSE, _LOST_WITH_OTHERS = 2, 5
# A dead process's dream counts as under way for this long, or until the workspace has a new owner.
_DREAMING = "w.dreaming_at > statement_timestamp() - interval '1 hour'"


@dataclass(frozen=True, slots=True)
class Use:
    """What a tenant has used today; `dreaming` counts dreams under way, each of which may cost up to its ceiling."""

    dreaming: int = 0
    dreams: int = 0
    tokens: int = 0
    usd: float = 0.0


Refusal = Callable[[Quotas, Use, Use], str]
"""Returns why a tenant with these quotas, its own use and the use of all may not dream now; empty if it may."""

# No row while nothing is due.
_TAKE_TURN = f"""
SELECT pg_try_advisory_xact_lock({_LOCK}) AS is_ours FROM (
    SELECT FROM workspaces WHERE due_at <= statement_timestamp() AND queued_at IS NULL AND removed_at IS NULL
    LIMIT 1) AS due
"""

# First comes each tenant's workspace that is due the longest, then each tenant's second one, counting jobs that a
# tenant already has. A workspace without a slot is looked at again when its turn within its tenant may come, the
# first one at once; so thousands of one tenant never delay another tenant's only one. A workspace with a waiting job
# is only marked, because Procrastinate would refuse the whole batch for a second job.
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
    FROM marked m LEFT JOIN living l ON l.id = m.owner AND NOT l.draining WHERE m.chosen AND NOT EXISTS (
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

# A job is alive if it waits where somebody fetches it, or if a living Procrastinate worker began it after it was
# queued, and the workspace has an owner or the job began just now. Any other job is lost: its process can die while
# another one owns the workspace. The jobs of dead workers are deleted too, because Procrastinate leaves them.
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
    failed_at = CASE WHEN failures = 0 THEN clock_timestamp() ELSE failed_at END,
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
    """The due times of all workspaces. Methods raise UnreachableError while PostgreSQL is unreachable."""

    def queue_due(self, most: int) -> int:
        """Queue jobs of due workspaces, as many as there are slots for; return how many workspaces were looked at.

        Do nothing while another process does it.
        """
        with self._database.transaction() as cursor:
            # A statement of its own: jobs queued by another process are visible only to statements begun after its
            # commit.
            turn = cursor.execute(_TAKE_TURN).fetchone()
            if turn is None or not turn["is_ours"]:
                return 0
            done = cursor.execute(_QUEUE_DUE, {"most": most}).fetchone()
        return int(done["looked"]) if done else 0

    def queue(self, workspace: int, reason: str = "", queue: str = ANYBODYS_QUEUE) -> None:
        """Queue a job of this workspace unless one waits or runs; `reason` is that of a requested dream."""
        args = json.dumps({"workspace": workspace, "reason": reason})
        self._database.rows(_QUEUE_ONE, {"id": workspace, "queue": queue, "args": args})

    def admit(self, place: Place, refusal: Refusal, *, with_all: bool = False) -> str:
        """Count a dream of this workspace until its commit, unless there is a `refusal`, which is returned.

        Calls are serialised, so each sees what the others may cost. `with_all` passes the use of all to `refusal`.
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
        """Give up the jobs of these workspaces without counting a failure; each workspace is due at once."""
        self._database.rows(
            "WITH dead AS (DELETE FROM procrastinate_jobs WHERE queueing_lock = ANY(%(locks)s))"
            " UPDATE workspaces SET queued_at = NULL, dreaming_at = NULL, due_at = clock_timestamp()"
            " WHERE id = ANY(%(ids)s) AND removed_at IS NULL",
            {"locks": [f"ws-{one}" for one in workspaces], "ids": list(workspaces)},
        )

    def clear_lost(self) -> list[int]:
        """Make the workspaces of lost jobs due again, and return them.

        Each loss counts as a failure, unless an outage of PostgreSQL may have caused it; after some in a row the
        workspace rests for a while.
        """
        rows = self._database.rows(_CLEAR_LOST, {"begin": _BEGIN_SECONDS, "silent": _SILENT_SECONDS})
        return [row["id"] for row in rows]
