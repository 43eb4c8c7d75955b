"""Moments: what of a workspace is acknowledged at one moment, whoever owns it."""

from dataclasses import dataclass

from state.errors import NotFoundError
from state.fleet.workspace import Generation, InboxRow
from state.stores.fleet.database import FleetDatabase


@dataclass(frozen=True, slots=True)
class Moment:
    """Its generation, and what waits in the inbox and is not in that. `erasure`: number of the last forgetting."""

    generation: Generation
    inbox: tuple[InboxRow, ...]
    erasure: int


# One statement sees one moment.
_MOMENT = """
SELECT w.generation, w.key, i.id, i.kind, i.key AS row_key, i.body, i.at,
    (SELECT coalesce(max(e.id), 0) FROM erasures e WHERE e.workspace = w.id) AS erasure
FROM workspaces w LEFT JOIN inbox i ON i.workspace = w.id AND i.taken_at IS NULL
WHERE w.id = %(id)s AND w.removed_at IS NULL ORDER BY i.id
"""


class Moments:
    """Workspaces at one moment. Raises UnreachableError while PostgreSQL is away."""

    def __init__(self, database: FleetDatabase) -> None:
        self._database = database

    def of(self, workspace: int) -> Moment:
        """Return the workspace as it is now. Raise NotFoundError."""
        rows = self._database.rows(_MOMENT, {"id": workspace})
        if not rows:
            raise NotFoundError(f"there is no workspace ws-{workspace}", "it was removed")
        found = [
            InboxRow(row["id"], row["kind"], row["row_key"], row["body"], row["at"])
            for row in rows
            if row["id"] is not None
        ]
        return Moment(Generation(rows[0]["generation"], rows[0]["key"]), tuple(found), int(rows[0]["erasure"]))
