"""Standings: how a workspace stands for who asks: its generation, its owner and what waits for it, at one moment."""

from collections.abc import Collection
from dataclasses import dataclass

from state.errors import NotFoundError
from state.fleet.workspace import Generation, InboxRow, Place, Worker
from state.stores.fleet.database import FleetDatabase


@dataclass(frozen=True, slots=True)
class Standing:
    """A workspace at one moment: what is acknowledged is in the generation, or among the rows that wait.

    `owner` is the living one, None without. `waiting` are the numbers of notes and receipts in the inbox.
    """

    place: Place
    generation: Generation
    bytes: int
    owner: Worker | None
    waiting: frozenset[int]


@dataclass(frozen=True, slots=True)
class Use:
    """What a tenant has, and what it has used today and in this minute."""

    workspaces: int
    bytes: int
    dreams: int
    tokens: int
    usd: float
    notes_this_minute: int


_STANDING = """
SELECT w.id, w.tenant, t.name AS tenant_name, w.name, w.generation, w.key, w.bytes,
    p.id AS owner, p.address, p.secret,
    ARRAY(SELECT i.id FROM inbox i WHERE i.workspace = w.id AND i.taken_at IS NULL AND i.kind <> 'session_end')
        AS waiting
FROM workspaces w JOIN tenants t ON t.id = w.tenant
LEFT JOIN living p ON p.id = w.owner
WHERE w.tenant = %(tenant)s AND w.name = %(name)s AND w.removed_at IS NULL AND t.removed_at IS NULL
"""

_USE = """
SELECT count(*) AS workspaces, coalesce(sum(w.bytes), 0)::bigint AS bytes,
    coalesce((SELECT notes FROM arrivals a WHERE a.tenant = %(tenant)s
              AND a.minute = date_trunc('minute', clock_timestamp())), 0) AS notes,
    (SELECT ARRAY[coalesce(sum(s.dreams), 0), coalesce(sum(s.tokens), 0), coalesce(sum(s.usd), 0)]::float8[]
     FROM spending s WHERE s.tenant = %(tenant)s AND s.day = (clock_timestamp() AT TIME ZONE 'UTC')::date) AS spent
FROM workspaces w WHERE w.tenant = %(tenant)s AND w.removed_at IS NULL
"""


class Standings:
    """How workspaces stand. Raises UnreachableError while PostgreSQL is away."""

    def __init__(self, database: FleetDatabase) -> None:
        self._database = database

    def find(self, tenant: int, name: str) -> Standing:
        """Return how the workspace of this tenant and name stands now. Raise NotFoundError."""
        row = self._database.row(_STANDING, {"tenant": tenant, "name": name})
        if row is None:
            raise NotFoundError(f"there is no workspace {name[:60]!r}", "GET /v1/workspaces lists yours")
        owner = Worker(row["owner"], row["address"], row["secret"]) if row["owner"] else None
        return Standing(
            Place(row["id"], row["tenant"], row["tenant_name"], row["name"]),
            Generation(row["generation"], row["key"]),
            int(row["bytes"]),
            owner,
            frozenset(row["waiting"]),
        )

    def rows(self, workspace: int, numbers: Collection[int]) -> list[InboxRow]:
        """Return those of these rows that still wait, by number."""
        if not numbers:
            return []
        found = self._database.rows(
            "SELECT id, kind, key, body, at FROM inbox WHERE workspace = %(workspace)s AND taken_at IS NULL"
            " AND id = ANY(%(numbers)s) ORDER BY id",
            {"workspace": workspace, "numbers": list(numbers)},
        )
        return [InboxRow(row["id"], row["kind"], row["key"], row["body"], row["at"]) for row in found]

    def use(self, tenant: int) -> Use:
        """Return what the tenant has and uses."""
        row = self._database.row(_USE, {"tenant": tenant})
        assert row is not None
        dreams, tokens, usd = row["spent"]
        return Use(int(row["workspaces"]), int(row["bytes"]), int(dreams), int(tokens), usd, int(row["notes"]))
