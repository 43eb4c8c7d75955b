"""Removal of tenants and workspaces: close at once, then delete every object and row, and verify that none is left.

    close (nothing is served, holders are fenced) ─> delete objects ─> list: none ─> delete rows ─> count: none
    ─> write small tables anew, as deleted rows stay in their pages; say what PostgreSQL's log keeps

The command, or any process, resumes a removal that was interrupted anywhere: the row that records it goes last. For a
day, processes also delete objects that a fenced holder uploads late, and those older than a forgetting.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from daemon.observability import logs
from daemon.workspace.stores import utc_now
from state.errors import StorageError
from state.fleet import Place, Tenant
from state.stores.fleet.registry import Registry
from state.stores.fleet.remains import Remains, clean
from state.stores.generations.objects import Objects
from state.stores.generations.versions import made_by

# A fenced holder may finish an upload while we delete.
_ROUNDS = 5
_LOOKED_FOR = timedelta(days=1)
# It is due for the first time after half a minute.
_CLEANED_FOR = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was deleted, and when. `workspace` is empty for a whole tenant; `rows` counts by table.

    `objects_left` and `rows_left` were counted afterwards, by listing the store and by a query; `remains` is where
    PostgreSQL keeps bytes of deleted rows.
    """

    tenant: str
    workspace: str
    closed_at: datetime
    at: datetime
    workspaces: int
    objects: int
    bytes: int
    rows: Mapping[str, int]
    objects_left: int
    rows_left: int
    remains: Remains


def remove(registry: Registry, objects: Objects, what: Tenant | Place) -> Receipt:
    """Remove a tenant with everything it has, or one workspace, or resume an interrupted removal.

    Raise NotFoundError, and UnreachableError or StorageError if it has to be called again.
    """
    removals = registry.removals
    closed_at, rows = removals.close(what), removals.rows(what)
    count, size = _erase(objects, what.prefix)
    removals.drop(what)
    left, rows_left = sum(1 for _ in objects.list(what.prefix)), sum(removals.rows(what).values())
    names = (what.name, "") if isinstance(what, Tenant) else (what.tenant_name, what.name)
    remains = clean(registry)
    return Receipt(*names, closed_at, utc_now(), rows["workspaces"], count, size, rows, left, rows_left, remains)


def finish_removals(registry: Registry, objects: Objects) -> list[Receipt]:
    """Resume every interrupted removal; return the receipts.

    Raise UnreachableError and StorageError. Repeated and concurrent calls are safe.
    """
    receipts = []
    for what in registry.removals.closed():
        receipts.append(one := remove(registry, objects, what))
        rows = sum(one.rows.values())
        logs.get().info("removal_finished", workspaces=one.workspaces, objects=one.objects, rows=rows)
    return receipts


def delete_late(registry: Registry, objects: Objects) -> None:
    """Delete objects uploaded after a removal or a forgetting, and those left by a holder that died during one.

    After a forgetting, PostgreSQL's tables are cleaned of the notes in which the text came. Raise UnreachableError
    and StorageError. Repeated calls are safe.
    """
    erased = registry.removals.erased()
    if any(one.kept and utc_now() - one.at < _CLEANED_FOR for one in erased):
        clean(registry)
    for one in erased:
        _erase(objects, f"{one.tenant}/{one.workspace}" if one.workspace else str(one.tenant), one.kept)
        if utc_now() - one.at > _LOOKED_FOR:
            registry.removals.forget_erased(one)


def _erase(objects: Objects, prefix: str, kept: int = 0) -> tuple[int, int]:
    """Delete everything below a prefix until a listing finds nothing; return the number of objects and their bytes.

    `kept`: keep this generation and all later ones.
    """
    sizes = dict[str, int]()
    for _ in range(_ROUNDS):
        found = {one.key: one.size for one in objects.list(prefix) if not kept or (made_by(one.key) or kept) < kept}
        if not found:
            return len(sizes), sum(sizes.values())
        sizes |= found
        objects.delete(found)
    raise StorageError(
        f"objects below {prefix}/ come again and again", "stop whoever writes them, and remove it again"
    )
