"""Recovery of the registry: creates lost rows, and sets a row back to what the object store still has."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from state.errors import ConflictError
from state.fleet import Place
from state.stores.fleet.database import Statements


@dataclass(frozen=True, slots=True)
class Row:
    """A workspace in the registry. `closed`: it, or its tenant, is being removed."""

    place: Place
    generation: int
    closed: bool


_ROWS = """
SELECT w.id, w.tenant, t.name AS tenant_name, w.name, w.generation,
    w.removed_at IS NOT NULL OR t.removed_at IS NOT NULL AS closed
FROM workspaces w JOIN tenants t ON t.id = w.tenant
"""
_GO_BACK = """
UPDATE workspaces SET generation = %(number)s, owner = NULL, dreaming_at = NULL, failures = 0, problem = '',
    due_at = clock_timestamp() WHERE id = %(id)s AND removed_at IS NULL
"""
_TENANT = """
INSERT INTO tenants (id, name) OVERRIDING SYSTEM VALUE VALUES (%(tenant)s, %(tenant_name)s)
ON CONFLICT DO NOTHING
"""
_SAME = "SELECT 1 FROM tenants WHERE id = %(tenant)s AND name = %(tenant_name)s AND removed_at IS NULL"
_MAKE = """
INSERT INTO workspaces (id, tenant, name, generation, due_at) OVERRIDING SYSTEM VALUE
VALUES (%(id)s, %(tenant)s, %(name)s, %(generation)s, clock_timestamp())
ON CONFLICT DO NOTHING RETURNING id
"""


class Recovery(Statements):
    """The registry during a recovery. Methods raise UnreachableError while PostgreSQL is unreachable."""

    def rows(self) -> dict[int, Row]:
        """Return every workspace, by its number."""
        return {
            row["id"]: Row(
                Place(row["id"], row["tenant"], row["tenant_name"], row["name"]),
                row["generation"],
                row["closed"],
            )
            for row in self._database.rows(_ROWS)
        }

    def go_back(self, workspace: int, number: int) -> None:
        """Set the row to this generation, the newest that the store has complete."""
        self._database.rows(_GO_BACK, {"id": workspace, "number": number})

    def make(self, place: Place, generation: int) -> None:
        """Create the row, and its tenant's row if that is lost too.

        Raise ConflictError if another workspace or tenant has the number or the name.
        """
        values = {**asdict(place), "generation": generation}
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
