"""Recovery of the registry: brings rows that are behind the object store up to it, and creates lost rows.

No row ever gets a lower generation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from state.errors import ConflictError
from state.fleet import Generation, Place
from state.stores.fleet.database import Statements


@dataclass(frozen=True, slots=True)
class Row:
    """A workspace in the registry. `closed`: it, or its tenant, is being removed."""

    place: Place
    generation: Generation
    closed: bool


@dataclass(frozen=True, slots=True)
class Newer:
    """The generation that a row is to be brought up to, with its size in bytes and its time."""

    generation: Generation
    size: int
    at: datetime


_ROWS = """
SELECT w.id, w.tenant, t.name AS tenant_name, w.name, w.generation, w.key,
    w.removed_at IS NOT NULL OR t.removed_at IS NOT NULL AS closed
FROM workspaces w JOIN tenants t ON t.id = w.tenant
"""
_RAISE = """
WITH raised AS (
    UPDATE workspaces w SET generation = %(number)s, key = %(key)s, bytes = %(size)s, committed_at = %(at)s,
        owner = NULL, dreaming_at = NULL, queued_at = NULL, failures = 0,
        problem = '', due_at = clock_timestamp()
    WHERE w.id = %(id)s AND w.generation <= %(number)s AND w.removed_at IS NULL RETURNING w.id, w.tenant),
taken AS (
    UPDATE inbox i SET body = '', taken_at = clock_timestamp() FROM raised
    WHERE i.workspace = raised.id AND i.id = ANY(%(taken)s::bigint[])),
erased AS (DELETE FROM erased e USING raised r WHERE e.tenant = r.tenant AND e.workspace IN (0, r.id)),
jobs AS (
    DELETE FROM procrastinate_jobs WHERE queueing_lock IN (SELECT 'ws-' || raised.id FROM raised))
SELECT 1 FROM raised
"""
_TENANT = """
INSERT INTO tenants (id, name) OVERRIDING SYSTEM VALUE VALUES (%(tenant)s, %(tenant_name)s)
ON CONFLICT DO NOTHING
"""
_SAME = "SELECT 1 FROM tenants WHERE id = %(tenant)s AND name = %(tenant_name)s AND removed_at IS NULL"
_MAKE = """
INSERT INTO workspaces (id, tenant, name) OVERRIDING SYSTEM VALUE VALUES (%(id)s, %(tenant)s, %(name)s)
ON CONFLICT DO NOTHING RETURNING id
"""


class Recovery(Statements):
    """The registry during a recovery. Methods raise UnreachableError while PostgreSQL is unreachable."""

    def rows(self) -> dict[int, Row]:
        """Return every workspace, by its number."""
        return {
            row["id"]: Row(
                Place(row["id"], row["tenant"], row["tenant_name"], row["name"]),
                Generation(row["generation"], row["key"]),
                row["closed"],
            )
            for row in self._database.rows(_ROWS)
        }

    def bring_up(self, place: Place, newer: Newer, taken: Sequence[int]) -> bool:
        """Bring the row up to this generation, which contains the inbox rows `taken`.

        Return False if the row has a higher one, or is gone.
        """
        values = {"id": place.id, **asdict(newer), **asdict(newer.generation), "taken": list(taken)}
        return self._database.row(_RAISE, values) is not None

    def make(self, place: Place) -> None:
        """Create the row without a generation, and its tenant's row if that is lost too.

        Raise ConflictError if another workspace or tenant has the number or the name.
        """
        values = asdict(place)
        with self._database.transaction() as cursor:
            cursor.execute(_TENANT, values)
            for statement, otherwise in (
                (_SAME, f"tenant {place.tenant_name}, number {place.tenant}, is another one in the database"),
                (_MAKE, f"there is another workspace {place.name}"),
            ):
                cursor.execute(statement, values)
                if cursor.fetchone() is None:
                    raise ConflictError(otherwise, "its objects stay as they are")

    def pass_numbers(self, tenants: Iterable[int], workspaces: Iterable[int]) -> None:
        """Give new tenants and workspaces numbers above these, under which the store has objects."""
        for table, numbers in (("tenants", tenants), ("workspaces", workspaces)):
            self._database.rows(
                f"SELECT setval(pg_get_serial_sequence('dreamd.{table}', 'id'), greatest(%(most)s,"
                f" (SELECT coalesce(max(id), 1) FROM {table}), (SELECT last_value FROM dreamd.{table}_id_seq)))",
                {"most": max(numbers, default=1)},
            )
