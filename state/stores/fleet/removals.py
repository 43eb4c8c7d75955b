"""Removals: tenants and workspaces that were closed, and what is left of them in PostgreSQL."""

from dataclasses import dataclass
from datetime import datetime

from state.fleet.tenant import Tenant
from state.stores.fleet.database import FleetDatabase


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows there are of a tenant, or of one workspace."""

    tenants: int = 0
    tokens: int = 0
    workspaces: int = 0
    inbox: int = 0
    spending: int = 0
    arrivals: int = 0
    jobs: int = 0

    @property
    def all(self) -> int:
        """Of every kind together."""
        return self.tenants + self.tokens + self.workspaces + self.inbox + self.spending + self.arrivals + self.jobs


@dataclass(frozen=True, slots=True)
class Closed:
    """A tenant that was closed, and when."""

    tenant: Tenant
    at: datetime


_OF_TENANT = """
SELECT (SELECT count(*) FROM tenants WHERE id = %(tenant)s) AS tenants,
    (SELECT count(*) FROM tokens WHERE tenant = %(tenant)s) AS tokens,
    (SELECT count(*) FROM workspaces WHERE tenant = %(tenant)s) AS workspaces,
    (SELECT count(*) FROM inbox i JOIN workspaces w ON w.id = i.workspace WHERE w.tenant = %(tenant)s) AS inbox,
    (SELECT count(*) FROM spending WHERE tenant = %(tenant)s) AS spending,
    (SELECT count(*) FROM arrivals WHERE tenant = %(tenant)s) AS arrivals,
    (SELECT count(*) FROM procrastinate_jobs
     WHERE lock IN (SELECT 'ws-' || id FROM workspaces WHERE tenant = %(tenant)s)) AS jobs
"""

_OF_WORKSPACE = """
SELECT (SELECT count(*) FROM workspaces WHERE id = %(workspace)s) AS workspaces,
    (SELECT count(*) FROM inbox WHERE workspace = %(workspace)s) AS inbox,
    (SELECT count(*) FROM spending WHERE workspace = %(workspace)s) AS spending,
    (SELECT count(*) FROM procrastinate_jobs WHERE lock = 'ws-' || %(workspace)s::bigint) AS jobs
"""

# What was removed so long ago nobody writes any more.
_STRAGGLERS = """
SELECT DISTINCT r.tenant, r.workspace FROM removed r
WHERE r.at > clock_timestamp() - interval '1 day' AND NOT EXISTS (
    SELECT 1 FROM workspaces w WHERE w.id = r.workspace OR r.workspace = 0 AND w.tenant = r.tenant)
LIMIT %(most)s
"""


class Removals:
    """What was closed. Raises UnreachableError while PostgreSQL is away."""

    def __init__(self, database: FleetDatabase) -> None:
        self._database = database

    def tenants(self) -> list[Closed]:
        """Return the tenants that were closed and are still there."""
        return [
            Closed(Tenant(row["id"], row["name"]), row["removed_at"])
            for row in self._database.rows(
                "SELECT id, name, removed_at FROM tenants WHERE removed_at IS NOT NULL ORDER BY id"
            )
        ]

    def of_tenant(self, tenant: int) -> RowCounts:
        """Count the rows of a tenant."""
        [row] = self._database.rows(_OF_TENANT, {"tenant": tenant})
        return RowCounts(**row)

    def of_workspace(self, workspace: int) -> RowCounts:
        """Count the rows of a workspace."""
        [row] = self._database.rows(_OF_WORKSPACE, {"workspace": workspace})
        return RowCounts(**row)

    def lately(self, most: int) -> list[str]:
        """Return the prefixes of what was removed in the last day: whoever held it may have put objects since."""
        rows = self._database.rows(_STRAGGLERS, {"most": most})
        return [f"{row['tenant']}/{row['workspace']}" if row["workspace"] else str(row["tenant"]) for row in rows]
