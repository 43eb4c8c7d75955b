"""Inbox: acknowledged notes and session ends, kept until a generation contains them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from state.errors import NotFoundError, UsageError
from state.fleet import InboxRow
from state.stores.fleet.database import FleetDatabase, Statements, storable

KEPT_DAYS = 7
"""A key stays known for this long after its row was taken."""
KEY_CHARACTERS = 255
"""The longest key that fits into an index."""
_SWEPT_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """What is to be put into a workspace's inbox; the same key again is the same arrival.

    `body` is JSON. Raise UsageError for a key or body that no row can hold.
    """

    workspace: int
    tenant: int
    kind: str
    key: str
    body: str

    def __post_init__(self) -> None:
        if not 0 < len(self.key) <= KEY_CHARACTERS or storable(self.key) != self.key:
            raise UsageError(
                f"{self.key[:60]!r} is no key", f"a key has 1 to {KEY_CHARACTERS} characters, none of them NUL"
            )
        if storable(self.body) != self.body:
            raise UsageError("the text holds NUL or half a character", "write them as JSON does, by \\u and a number")

    @property
    def digest(self) -> bytes:
        """Return a digest that reveals whether a key comes again with another text."""
        return hashlib.sha256(f"{self.kind}\0{self.body}".encode()).digest()


@dataclass(frozen=True, slots=True)
class Arrived:
    """How an arrival was put: its row's id and time. `same`: the row has this text, whether it is new or not."""

    id: int
    at: datetime
    same: bool


# Putting makes the workspace due: at once for the end of a session, after a while for a note, because others may
# come; failing workspaces keep their later time. While a job is queued there is no due time, so any arrival sets one,
# and is looked at after that job. The rows of workspaces, and of the tenants' counts, are locked in the order of
# their ids, so that concurrent batches wait for each other instead of deadlocking.
_PUT = """
WITH given AS (
    SELECT * FROM unnest(%(workspaces)s::bigint[], %(kinds)s::text[], %(keys)s::text[], %(digests)s::bytea[],
                         %(bodies)s::text[]) WITH ORDINALITY AS g (workspace, kind, key, digest, body, place)),
kept AS MATERIALIZED (
    SELECT w.id, w.tenant FROM workspaces w
    WHERE w.id = ANY(%(workspaces)s::bigint[]) AND w.removed_at IS NULL ORDER BY w.id FOR NO KEY UPDATE),
open AS (
    SELECT g.*, kept.tenant, min(place) OVER (PARTITION BY workspace, key) AS first
    FROM given g JOIN kept ON kept.id = g.workspace),
put AS (
    INSERT INTO inbox (workspace, kind, key, digest, body)
    SELECT workspace, kind, key, digest, body FROM open WHERE place = first ORDER BY place
    ON CONFLICT (workspace, key) DO NOTHING RETURNING id, workspace, kind, key, digest, at),
woken AS (
    UPDATE workspaces w SET due_at = n.at
    FROM (SELECT workspace, clock_timestamp() + CASE WHEN bool_or(kind = 'session_end') THEN interval '0'
              ELSE %(wait)s::interval END AS at
          FROM put GROUP BY workspace) n
    WHERE w.id = n.workspace AND (w.due_at IS NULL OR (w.due_at > n.at AND w.failures = 0))),
counted AS (
    INSERT INTO arrivals AS a (tenant, minute, notes)
    SELECT kept.tenant, date_trunc('minute', statement_timestamp()), count(*)
    FROM put JOIN kept ON kept.id = put.workspace WHERE put.kind = 'note' GROUP BY kept.tenant ORDER BY kept.tenant
    ON CONFLICT (tenant, minute) DO UPDATE SET notes = a.notes + excluded.notes)
SELECT g.place, coalesce(put.id, old.id) AS id, coalesce(put.at, old.at) AS at,
    coalesce(put.digest, old.digest) = g.digest AS same
FROM open g LEFT JOIN put ON put.workspace = g.workspace AND put.key = g.key
LEFT JOIN inbox old ON put.id IS NULL AND old.workspace = g.workspace AND old.key = g.key
ORDER BY g.place
"""


class Inbox(Statements):
    """The inboxes of all workspaces. Methods raise UnreachableError while PostgreSQL is unreachable."""

    def __init__(self, database: FleetDatabase, wait: timedelta = timedelta(0)) -> None:
        """Set `wait`, the time after a note at which its workspace is due."""
        super().__init__(database)
        self._wait = wait

    def put(self, arrivals: Sequence[Arrival]) -> list[Arrived | None]:
        """Put all arrivals durably; return the result for each, None if its workspace is gone.

        After UnreachableError nobody knows whether they were put; putting them again with the same keys is safe.
        """
        rows = self._database.rows(
            _PUT,
            {
                "workspaces": [one.workspace for one in arrivals],
                "kinds": [one.kind for one in arrivals],
                "keys": [one.key for one in arrivals],
                "digests": [one.digest for one in arrivals],
                "bodies": [one.body for one in arrivals],
                "wait": self._wait,
            },
        )
        answers: list[Arrived | None] = [None] * len(arrivals)
        unseen = []
        for row in rows:
            if row["id"] is None:
                unseen.append(row["place"] - 1)
            else:
                answers[row["place"] - 1] = Arrived(row["id"], row["at"], row["same"])
        # A row that another call put while this one waited is invisible to this statement; the next one returns it.
        if unseen:
            for place, answer in zip(unseen, self.put([arrivals[place] for place in unseen]), strict=True):
                answers[place] = answer
        return answers

    def waiting(self, workspace: int) -> list[InboxRow]:
        """Return what waits for the workspace, by id; a lower id may still appear after a higher one.

        Raise NotFoundError.
        """
        rows = self._database.rows(
            "SELECT i.id, i.kind, i.key, i.body, i.at FROM workspaces w"
            " LEFT JOIN inbox i ON i.workspace = w.id AND i.taken_at IS NULL"
            " WHERE w.id = %(id)s AND w.removed_at IS NULL ORDER BY i.id",
            {"id": workspace},
        )
        if not rows:
            raise NotFoundError(f"there is no workspace ws-{workspace}", "it was removed")
        return [InboxRow(**row) for row in rows if row["id"] is not None]

    def notes_this_minute(self, tenant: int) -> int:
        """Count the notes of a tenant since the minute began."""
        row = self._database.row(
            "SELECT notes FROM arrivals WHERE tenant = %(tenant)s"
            " AND minute = date_trunc('minute', statement_timestamp())",
            {"tenant": tenant},
        )
        return int(row["notes"]) if row else 0

    def set_aside(self, rows: Sequence[int]) -> None:
        """Set these rows aside unchanged, because they are unreadable or only a newer dreamd can read them.

        A forgetting empties them, because their content is unknown.
        """
        self._database.rows(
            "UPDATE inbox SET taken_at = 'infinity' WHERE id = ANY(%(rows)s::bigint[]) AND taken_at IS NULL",
            {"rows": list(rows)},
        )

    def sweep(self) -> int:
        """Delete keys and counts that are no longer needed; return how many keys."""
        gone = self._database.rows(
            "WITH old AS (DELETE FROM arrivals WHERE minute < statement_timestamp() - interval '1 hour')"
            " DELETE FROM inbox WHERE id IN (SELECT id FROM inbox WHERE taken_at < statement_timestamp()"
            " - make_interval(days => %(days)s) LIMIT %(most)s) RETURNING id",
            {"days": KEPT_DAYS, "most": _SWEPT_AT_ONCE},
        )
        return len(gone)
