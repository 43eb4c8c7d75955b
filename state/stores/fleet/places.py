"""Places: the registry of workspaces in PostgreSQL: whose they are, which generation is their last."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from state.errors import ConflictError, NotFoundError, QuotaError
from state.fleet.tenant import Tenant, require_name
from state.fleet.workspace import Generation, Place
from state.stores.fleet.database import FleetDatabase, storable

_SPENDING_KEPT_DAYS = 400
_SWEPT_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class PlaceFacts:
    """A workspace as its tenant and the status see it."""

    place: Place
    generation: Generation
    bytes: int
    committed_at: datetime | None
    due_at: datetime | None
    queued: bool
    owned: bool
    failures: int
    problem: str
    waiting: int


@dataclass(frozen=True, slots=True)
class TenantUse:
    """What a tenant has, and what it has used today and in this minute."""

    workspaces: int
    bytes: int
    dreams: int
    tokens: int
    usd: float
    notes_this_minute: int


_FACTS = """
SELECT w.id, w.tenant, t.name AS tenant_name, w.name, w.generation, w.key, w.bytes, w.committed_at, w.due_at,
    w.queued_at IS NOT NULL AS queued, w.failures, w.problem,
    EXISTS (SELECT 1 FROM living p WHERE p.id = w.owner) AS owned,
    (SELECT count(*) FROM inbox i WHERE i.workspace = w.id AND i.taken_at IS NULL) AS waiting
FROM workspaces w JOIN tenants t ON t.id = w.tenant
"""

_USE = """
SELECT count(*) AS workspaces, coalesce(sum(w.bytes), 0)::bigint AS bytes,
    coalesce((SELECT notes FROM arrivals a WHERE a.tenant = %(tenant)s
              AND a.minute = date_trunc('minute', clock_timestamp())), 0) AS notes,
    (SELECT ARRAY[coalesce(sum(s.dreams), 0), coalesce(sum(s.tokens), 0), coalesce(sum(s.usd), 0)]::float8[]
     FROM spending s WHERE s.tenant = %(tenant)s AND s.day = (clock_timestamp() AT TIME ZONE 'UTC')::date) AS spent
FROM workspaces w WHERE w.tenant = %(tenant)s AND w.removed_at IS NULL
"""


class Places:
    """The workspaces of the fleet. Raises UnreachableError while PostgreSQL is away."""

    def __init__(self, database: FleetDatabase) -> None:
        self._database = database

    def add(self, tenant: Tenant, name: str) -> Place:
        """Make a new, empty workspace. Raise UsageError, ConflictError when the name is taken, QuotaError."""
        require_name("workspace", name)
        with self._database.transaction() as cursor:
            # Of all who add at once each sees what the others have added.
            cursor.execute(
                "SELECT quotas FROM tenants WHERE id = %s AND removed_at IS NULL FOR NO KEY UPDATE", (tenant.id,)
            )
            quotas = cursor.fetchone()
            if quotas is None:
                raise NotFoundError(f"there is no tenant {tenant.name}", "it was removed")
            most = int(quotas["quotas"].get("workspaces", 0))
            cursor.execute(
                "SELECT count(*) AS count FROM workspaces WHERE tenant = %s AND removed_at IS NULL", (tenant.id,)
            )
            found = cursor.fetchone()
            if most and found is not None and found["count"] >= most:
                raise QuotaError(
                    f"tenant {tenant.name} has {found['count']:,} of {most:,} workspaces",
                    "remove one, or ask for more",
                )
            cursor.execute(
                "INSERT INTO workspaces (tenant, name) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING id",
                (tenant.id, name),
            )
            made = cursor.fetchone()
        if made is None:
            raise ConflictError(f"there is a workspace {name} already", "choose another name")
        return Place(made["id"], tenant.id, tenant.name, name)

    def find(self, tenant: int, name: str) -> PlaceFacts:
        """Return the workspace of this tenant and name. Raise NotFoundError."""
        row = self._database.row(
            _FACTS + " WHERE w.tenant = %(tenant)s AND w.name = %(name)s AND w.removed_at IS NULL"
            " AND t.removed_at IS NULL",
            {"tenant": tenant, "name": storable(name)},
        )
        if row is None:
            raise NotFoundError(f"there is no workspace {name[:60]!r}", "GET /v1/workspaces lists yours")
        return _facts(row)

    def all(self, tenant: int, after: str = "", most: int = 1_000) -> list[PlaceFacts]:
        """Return at most so many workspaces of a tenant, by name, those after this one."""
        return [
            _facts(row)
            for row in self._database.rows(
                _FACTS + " WHERE w.tenant = %(tenant)s AND w.name > %(after)s AND w.removed_at IS NULL"
                " ORDER BY w.name LIMIT %(most)s",
                {"tenant": tenant, "after": storable(after), "most": most},
            )
        ]

    def use(self, tenant: int) -> TenantUse:
        """Return what the tenant has and uses."""
        [row] = self._database.rows(_USE, {"tenant": tenant})
        dreams, tokens, usd = row["spent"]
        return TenantUse(int(row["workspaces"]), int(row["bytes"]), int(dreams), int(tokens), usd, int(row["notes"]))

    def close(self, place: Place) -> None:
        """Give out nothing of the workspace from now on; its holder is fenced."""
        self._database.rows(
            "WITH gone AS (UPDATE workspaces SET removed_at = clock_timestamp(), owner = NULL,"
            " due_at = NULL, queued_at = NULL WHERE id = %(id)s AND removed_at IS NULL RETURNING tenant, id)"
            " INSERT INTO removed (tenant, workspace) SELECT tenant, id FROM gone",
            {"id": place.id},
        )

    def closed(self, tenant: int | None = None) -> list[Place]:
        """Return the workspaces that were closed and whose rows and objects are still there."""
        return [
            Place(row["id"], row["tenant"], row["tenant_name"], row["name"])
            for row in self._database.rows(
                "SELECT w.id, w.tenant, t.name AS tenant_name, w.name FROM workspaces w JOIN tenants t"
                " ON t.id = w.tenant WHERE w.removed_at IS NOT NULL AND w.tenant = coalesce(%(tenant)s, w.tenant)"
                " ORDER BY w.id",
                {"tenant": tenant},
            )
        ]

    def drop(self, places: Sequence[Place]) -> None:
        """Delete the rows of workspaces that were closed and have no objects any more."""
        ids = [one.id for one in places]
        self._database.rows(
            "WITH jobs AS (DELETE FROM procrastinate_jobs WHERE lock = ANY(%(locks)s))"
            " DELETE FROM workspaces WHERE id = ANY(%(ids)s) AND removed_at IS NOT NULL",
            {"ids": ids, "locks": [one.handle for one in places]},
        )

    def sweep(self) -> None:
        """Delete what was spent more than a year ago, and what is known of removals after two days."""
        self._database.rows(
            "WITH old AS (DELETE FROM removed WHERE at < statement_timestamp() - interval '2 days')"
            " DELETE FROM spending WHERE (day, tenant, workspace) IN (SELECT day, tenant, workspace"
            " FROM spending WHERE day < current_date - %(days)s::int LIMIT %(most)s)",
            {"days": _SPENDING_KEPT_DAYS, "most": _SWEPT_AT_ONCE},
        )


def _facts(row: dict[str, Any]) -> PlaceFacts:
    place = Place(row.pop("id"), row.pop("tenant"), row.pop("tenant_name"), row.pop("name"))
    return PlaceFacts(place, Generation(row.pop("generation"), row.pop("key")), **row)
