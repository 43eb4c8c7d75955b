"""Inbox: notes and ends of sessions that are acknowledged, until a generation holds them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from state.fleet.workspace import InboxRow
from state.stores.fleet.database import FleetDatabase

KEPT_DAYS = 7
"""For so long a key is known after its row was taken."""
_SWEPT_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """What is to be put into the inbox of a workspace; the same key again is the same arrival."""

    workspace: int
    tenant: int
    kind: str
    key: str
    body: str

    @property
    def digest(self) -> bytes:
        """By which the same key with another text is told."""
        return hashlib.sha256(f"{self.kind}\0{self.body}".encode()).digest()


@dataclass(frozen=True, slots=True)
class Arrived:
    """How an arrival was put: its row's id and time. `known`: it was there before, `same` with the same text."""

    id: int
    at: datetime
    known: bool
    same: bool


# What is put wakes the sweep, unless that looks at once anyway; a receipt wakes nobody.
_PUT = """
WITH given AS (
    SELECT * FROM unnest(%(workspaces)s::bigint[], %(kinds)s::text[], %(keys)s::text[], %(digests)s::bytea[],
                         %(bodies)s::text[]) WITH ORDINALITY AS g (workspace, kind, key, digest, body, place)),
open AS (
    SELECT g.* FROM given g JOIN workspaces w ON w.id = g.workspace AND w.removed_at IS NULL),
put AS (
    INSERT INTO inbox (workspace, kind, key, digest, body)
    SELECT workspace, kind, key, digest, body FROM open ORDER BY place
    ON CONFLICT (workspace, key) DO NOTHING RETURNING id, workspace, kind, key, at),
woken AS (
    UPDATE workspaces w SET due_at = clock_timestamp()
    WHERE w.id IN (SELECT workspace FROM put WHERE kind <> 'receipt') AND w.queued_at IS NULL
      AND (w.due_at IS NULL OR w.due_at > clock_timestamp())),
counted AS (
    INSERT INTO arrivals AS a (tenant, minute, notes)
    SELECT w.tenant, date_trunc('minute', clock_timestamp()), count(*)
    FROM put JOIN workspaces w ON w.id = put.workspace WHERE put.kind = 'note' GROUP BY w.tenant
    ON CONFLICT (tenant, minute) DO UPDATE SET notes = a.notes + excluded.notes)
SELECT g.place, coalesce(put.id, old.id) AS id, coalesce(put.at, old.at) AS at, put.id IS NULL AS known,
    put.id IS NOT NULL OR old.digest = g.digest AS same
FROM open g LEFT JOIN put ON put.workspace = g.workspace AND put.key = g.key
LEFT JOIN inbox old ON put.id IS NULL AND old.workspace = g.workspace AND old.key = g.key
ORDER BY g.place
"""


class Inbox:
    """The inboxes of all workspaces. Raises UnreachableError while PostgreSQL is away."""

    def __init__(self, database: FleetDatabase) -> None:
        self._database = database

    def put(self, arrivals: Sequence[Arrival]) -> list[Arrived | None]:
        """Put all of them, durably when this returns; for each what became of it, None when its workspace is gone.

        Should nobody know whether they were put (UnreachableError), putting them again with their keys is safe. No
        two of one call have the same workspace and key.
        """
        rows = self._database.rows(
            _PUT,
            {
                "workspaces": [one.workspace for one in arrivals],
                "kinds": [one.kind for one in arrivals],
                "keys": [one.key for one in arrivals],
                "digests": [one.digest for one in arrivals],
                "bodies": [one.body for one in arrivals],
            },
        )
        # A row that another put at this moment is seen by neither: its own statement gives it.
        found = {
            row["place"]: Arrived(row["id"], row["at"], row["known"], row["same"])
            for row in rows
            if row["id"] is not None
        }
        lost = {row["place"] for row in rows if row["id"] is None}
        answers = [found.get(place) for place in range(1, len(arrivals) + 1)]
        for place in lost:
            [answers[place - 1]] = self.put([arrivals[place - 1]])
        return answers

    def waiting(self, workspace: int) -> list[InboxRow]:
        """What waits for the workspace, in the order of its ids; a lower id may still come after a higher one."""
        return [
            InboxRow(row["id"], row["kind"], row["key"], row["body"], row["at"])
            for row in self._database.rows(
                "SELECT id, kind, key, body, at FROM inbox WHERE workspace = %(workspace)s AND taken_at IS NULL"
                " ORDER BY id",
                {"workspace": workspace},
            )
        ]

    def notes_this_minute(self, tenant: int) -> int:
        """How many notes of a tenant came since the minute began."""
        row = self._database.row(
            "SELECT notes FROM arrivals WHERE tenant = %(tenant)s"
            " AND minute = date_trunc('minute', clock_timestamp())",
            {"tenant": tenant},
        )
        return int(row["notes"]) if row else 0

    def wake_waiting(self) -> int:
        """Have the sweep look at workspaces whose inbox waits though nothing is foreseen for them; how many."""
        return len(
            self._database.rows(
                "UPDATE workspaces SET due_at = clock_timestamp() WHERE due_at IS NULL AND removed_at IS NULL"
                " AND id IN (SELECT DISTINCT workspace FROM inbox WHERE taken_at IS NULL AND kind <> 'receipt'"
                "  AND at < clock_timestamp() - interval '20 seconds') RETURNING id"
            )
        )

    def sweep(self) -> int:
        """Forget keys and counts that are older than they need to be; how many."""
        gone = self._database.rows(
            "WITH old AS (DELETE FROM arrivals WHERE minute < clock_timestamp() - interval '1 hour')"
            " DELETE FROM inbox WHERE id IN (SELECT id FROM inbox WHERE taken_at < clock_timestamp()"
            " - make_interval(days => %(days)s) LIMIT %(most)s) RETURNING id",
            {"days": KEPT_DAYS, "most": _SWEPT_AT_ONCE},
        )
        return len(gone)
