"""Schedule: which workspaces are due, and the jobs of them that processes have claimed.

When a workspace is due is a column of its row: arrivals and commits bring the moment nearer, a claim takes it away.
A process that has room claims what is due in one statement, which makes it the holder as well: a job runs at the
workspace's owner from `job_at` on. What is to be done the job finds out once it has the folder.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from state.fleet import Place, Quotas
from state.stores.fleet.database import FleetDatabase, storable
from state.stores.fleet.registry import quotas_of

_ADMISSION_LOCK = 0x6472656173
# A process may die of anything; of the same workspace again and again it dies of that. Where others were lost with
# it, one of them may be what it died of.
_LOST_BEFORE_A_PAUSE, _LOST_WITH_OTHERS = 2, 5
# A dream of a process that died is counted for so long, or until the workspace has a new owner.
_DREAMING = "w.dreaming_at > statement_timestamp() - interval '1 hour'"
LOST = "its process went away before the job was done"
"""The problem of a workspace whose job died."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a tenant has used today; `dreaming`: dreams under way, which may cost as much as their ceiling allows."""

    dreaming: int = 0
    dreams: int = 0
    tokens: int = 0
    usd: float = 0.0


Refusal = Callable[[Quotas, Use, Use], str]
"""Why a tenant with these quotas may have no dream now, beside its own use and that of all; empty when it may."""

# Of each tenant the one that is due the longest comes first, then the second of each, after those that have jobs: so
# thousands of one tenant never stand before the one of another. What a living process holds is claimed by that one.
_CLAIM = """
WITH alive AS MATERIALIZED (SELECT id FROM living),
busy AS MATERIALIZED (SELECT tenant, count(*) AS jobs FROM workspaces WHERE job_at IS NOT NULL GROUP BY tenant),
due AS MATERIALIZED (
    SELECT d.id, d.due_at, coalesce(b.jobs, 0) + row_number() OVER (PARTITION BY t.id ORDER BY d.due_at, d.id) AS turn
    FROM tenants t CROSS JOIN LATERAL (
        SELECT w.id, w.due_at FROM workspaces w
        WHERE w.tenant = t.id AND w.due_at <= statement_timestamp() AND w.job_at IS NULL AND w.removed_at IS NULL
            AND (w.owner IS NULL OR w.owner = %(me)s OR w.owner NOT IN (SELECT id FROM alive))
        ORDER BY w.due_at, w.id LIMIT %(most)s) d
    LEFT JOIN busy b ON b.tenant = t.id),
chosen AS MATERIALIZED (
    SELECT w.id, w.wanted FROM workspaces w
    JOIN (SELECT id, turn, due_at FROM due ORDER BY turn, due_at, id LIMIT %(most)s) first ON first.id = w.id
    WHERE w.job_at IS NULL AND w.removed_at IS NULL
        AND (w.owner IS NULL OR w.owner = %(me)s OR w.owner NOT IN (SELECT id FROM alive))
    ORDER BY first.turn, first.due_at, w.id FOR NO KEY UPDATE OF w SKIP LOCKED)
UPDATE workspaces w SET job_at = clock_timestamp(), due_at = NULL, wanted = '', owner = %(me)s,
    dreaming_at = CASE WHEN w.owner = %(me)s THEN w.dreaming_at END
FROM chosen WHERE w.id = chosen.id AND EXISTS (SELECT 1 FROM alive WHERE id = %(me)s)
RETURNING w.id, chosen.wanted
"""

# A job runs at the owner for as long as that lives and has it: a claim whose answer was lost, and a job whose end
# could not be told, are in the row alone. These, and what an outage of PostgreSQL may have cost, are no fault of
# the workspace.
_CLEAR_LOST = f"""
WITH lost AS MATERIALIZED (
    SELECT w.id, coalesce(w.owner = %(me)s, false) OR w.job_at < pg_postmaster_start_time() AS excused
    FROM workspaces w LEFT JOIN living p ON p.id = w.owner
    WHERE w.job_at IS NOT NULL AND w.removed_at IS NULL
        AND (p.id IS NULL OR p.id = %(me)s AND w.id <> ALL(%(running)s::bigint[]))
    FOR NO KEY UPDATE OF w SKIP LOCKED)
UPDATE workspaces w SET job_at = NULL, dreaming_at = NULL, failures = failures + (NOT lost.excused)::int,
    problem = CASE WHEN lost.excused THEN problem ELSE '{LOST}' END,
    due_at = clock_timestamp() + CASE WHEN NOT lost.excused AND failures >= CASE
            WHEN (SELECT count(*) FROM lost) = 1 THEN {_LOST_BEFORE_A_PAUSE} ELSE {_LOST_WITH_OTHERS} END
        THEN interval '1 minute' * power(2, least(failures, 8)) ELSE interval '0' END
FROM lost WHERE w.id = lost.id RETURNING w.id
"""

# Who was displaced says nothing about the job of the next owner. Each failure in a row doubles the wait.
_END_JOB = """
UPDATE workspaces SET job_at = NULL,
    failures = CASE %(how)s WHEN 'done' THEN 0 WHEN 'failed' THEN failures + 1 ELSE failures END,
    problem = CASE %(how)s WHEN 'done' THEN '' WHEN 'failed' THEN %(problem)s ELSE problem END,
    dreaming_at = CASE WHEN %(how)s = 'failed' THEN NULL ELSE dreaming_at END,
    due_at = CASE WHEN %(how)s = 'failed' THEN clock_timestamp() + interval '1 minute' * power(2, least(failures, 8))
        ELSE least(due_at, clock_timestamp() + %(due_in)s::interval) END
WHERE id = %(id)s AND owner = %(owner)s AND removed_at IS NULL
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


class Schedule:
    """The due times and jobs of all workspaces. Raises UnreachableError while PostgreSQL is away."""

    def __init__(self, database: FleetDatabase) -> None:
        self._database = database

    def is_due(self) -> bool:
        """Tell whether any workspace is due now."""
        return bool(
            self._database.row(
                "SELECT 1 FROM workspaces WHERE due_at <= statement_timestamp() AND job_at IS NULL"
                " AND removed_at IS NULL ORDER BY due_at LIMIT 1"
            )
        )

    def claim(self, me: UUID, most: int) -> dict[int, str]:
        """Claim the jobs of at most so many workspaces that are due; return them with the reasons of dreams.

        From now on this process holds them. A reason is empty unless somebody asked for a dream.
        """
        return {row["id"]: row["wanted"] for row in self._database.rows(_CLAIM, {"me": me, "most": most})}

    def want(self, workspace: int, reason: str) -> None:
        """Have the workspace dreamt soon, for this reason."""
        self._database.rows(
            "UPDATE workspaces SET due_at = clock_timestamp(), wanted = %(reason)s"
            " WHERE id = %(id)s AND removed_at IS NULL",
            {"id": workspace, "reason": reason},
        )

    def end_job(
        self,
        workspace: int,
        owner: UUID,
        how: Literal["done", "put off", "failed"],
        due_in: timedelta | None = None,
        problem: str = "",
    ) -> None:
        """Note that this process's job of the workspace has ended so; it wants another one after `due_in`."""
        values = {"id": workspace, "owner": owner, "how": how, "due_in": due_in, "problem": storable(problem)[:500]}
        self._database.rows(_END_JOB, values)

    def clear_lost(self, me: UUID, running: Collection[int]) -> list[int]:
        """Have the workspaces of jobs that died looked at again, and return which they are.

        `running`: the jobs of this process, `me`. Each counts as a failure, but for those that an outage of
        PostgreSQL may have cost; after some in a row the workspace rests for a while.
        """
        return [row["id"] for row in self._database.rows(_CLEAR_LOST, {"me": me, "running": list(running)})]

    def admit(self, place: Place, refusal: Refusal, *, with_all: bool = False) -> str:
        """Count a dream of this workspace until its commit, unless there is a `refusal`; return that.

        One at a time: each sees what the others may cost. `with_all`: the refusal is told what all have used.
        """
        with self._database.transaction() as cursor:
            self._database.statements += 3

            def use(statement: str) -> dict[str, Any]:
                cursor.execute(statement, {"tenant": place.tenant, "id": place.id})
                return cursor.fetchone() or {}

            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_ADMISSION_LOCK,))
            own = use(_USE)
            quotas = quotas_of(own.pop("quotas", None) or {})
            refused = refusal(quotas, Use(**own), Use(**use(_USE_OF_ALL)) if with_all else Use())
            if not refused:
                cursor.execute("UPDATE workspaces SET dreaming_at = clock_timestamp() WHERE id = %s", (place.id,))
            return refused
