"""Removal of tenants and workspaces: closed at once, then every object and every row deleted, and looked for.

    close (nothing is given out, holders are fenced) ─> delete objects ─> list: none ─> delete rows ─> count: none

What is cut off anywhere goes on from there: by the command, or by any process. A row goes last, so it is found.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from daemon.observability import logs
from daemon.workspace.stores import utc_now
from state.errors import DreamdError, NotFoundError, StorageError, UnreachableError
from state.fleet.tenant import Tenant
from state.fleet.workspace import Place
from state.stores.fleet.places import Places
from state.stores.fleet.removals import Removals, RowCounts
from state.stores.fleet.tenants import Tenants

if TYPE_CHECKING:
    from state.stores.fleet.database import FleetDatabase
    from state.stores.generations.objects import Objects

_DELETED_AT_ONCE = 1_000
# A fenced holder may put what it had begun while we delete.
_ROUNDS = 5
_MOST_STRAGGLERS = 1_000
_FIRST_LOOK_SECONDS, _EVERY_SECONDS = 15.0, 300.0


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was deleted, and when; `workspace` is empty for a whole tenant.

    `objects_left` and `rows_left` were counted afterwards, by a listing of the store and by a query.
    """

    tenant: str
    workspace: str
    closed_at: datetime
    at: datetime
    workspaces: int
    objects: int
    bytes: int
    rows: RowCounts
    objects_left: int
    rows_left: int


def remove_tenant(database: "FleetDatabase", objects: "Objects", name: str) -> Receipt:
    """Remove a tenant with all that it has, or go on with what was interrupted.

    Raise NotFoundError; UnreachableError and StorageError when it has to be called again.
    """
    tenants, removals = Tenants(database), Removals(database)
    closed = [one for one in removals.tenants() if one.tenant.name == name]
    if not closed:
        tenants.close(tenants.find(name))
        closed = [one for one in removals.tenants() if one.tenant.name == name]
    return _tenant_removed(database, objects, closed[0].tenant, closed[0].at)


def remove_workspace(database: "FleetDatabase", objects: "Objects", tenant: Tenant, name: str) -> Receipt:
    """Remove one workspace, or go on with what was interrupted. Raise as `remove_tenant` does."""
    places = Places(database)
    try:
        place = places.find(tenant.id, name).place
    except NotFoundError:
        found = next((one for one in places.closed(tenant.id) if one.name == name), None)
        if found is None:
            raise NotFoundError(
                f"tenant {tenant.name} has no workspace {name[:60]!r}",
                f"see 'dreamd fleet workspace list {tenant.name}'",
            ) from None
        place = found
    else:
        places.close(place)
    return _workspace_removed(database, objects, place, utc_now())


def finish_removals(database: "FleetDatabase", objects: "Objects") -> list[Receipt]:
    """Go on with every removal that was interrupted, and delete what was put after one; return what was done.

    Raise UnreachableError and StorageError; it may be called again, and by several at once.
    """
    removals, receipts = Removals(database), list[Receipt]()
    for closed in removals.tenants():
        receipts.append(_tenant_removed(database, objects, closed.tenant, closed.at))
    for place in Places(database).closed():
        receipts.append(_workspace_removed(database, objects, place, utc_now()))
    for prefix in removals.lately(_MOST_STRAGGLERS):
        _erase(objects, prefix)
    return receipts


def remover(database: "FleetDatabase", objects: "Objects", stopping: threading.Event) -> threading.Thread:
    """Make a thread that goes on with removals now and then, until the process stops."""

    def run() -> None:
        wait = _FIRST_LOOK_SECONDS
        while not stopping.wait(wait):
            wait = _EVERY_SECONDS
            _logged(lambda: finish_removals(database, objects))

    return threading.Thread(target=run, name="removals", daemon=True)


def _logged(finish: Callable[[], list[Receipt]]) -> None:
    try:
        for one in finish():
            logs.get().info("removal_finished", workspaces=one.workspaces, objects=one.objects, rows=one.rows.all)
    except UnreachableError:
        pass  # the lifetime says so
    except DreamdError as error:
        logs.get().error("removal_failed", error=error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the next look comes
        logs.get().error("removal_failed", error=error)


def _tenant_removed(database: "FleetDatabase", objects: "Objects", tenant: Tenant, closed_at: datetime) -> Receipt:
    removals = Removals(database)
    rows = removals.of_tenant(tenant.id)
    count, size = _erase(objects, str(tenant.id))
    Tenants(database).drop(tenant.id)
    left = sum(1 for _ in objects.list(str(tenant.id)))
    rows_left = removals.of_tenant(tenant.id).all
    return Receipt(tenant.name, "", closed_at, utc_now(), rows.workspaces, count, size, rows, left, rows_left)


def _workspace_removed(database: "FleetDatabase", objects: "Objects", place: Place, closed_at: datetime) -> Receipt:
    removals = Removals(database)
    rows = removals.of_workspace(place.id)
    count, size = _erase(objects, place.prefix)
    Places(database).drop([place])
    left = sum(1 for _ in objects.list(place.prefix))
    rows_left = removals.of_workspace(place.id).all
    return Receipt(place.tenant_name, place.name, closed_at, utc_now(), 1, count, size, rows, left, rows_left)


def _erase(objects: "Objects", prefix: str) -> tuple[int, int]:
    """Delete everything below a prefix until a listing finds nothing; return how many objects, and their bytes."""
    sizes = dict[str, int]()
    for _ in range(_ROUNDS):
        found = {one.key: one.size for one in objects.list(prefix)}
        if not found:
            return len(sizes), sum(sizes.values())
        sizes |= found
        doomed = [*found]
        for start in range(0, len(doomed), _DELETED_AT_ONCE):
            objects.delete(doomed[start : start + _DELETED_AT_ONCE])
    raise StorageError(
        f"objects below {prefix}/ come again and again", "stop whoever writes them, and remove it again"
    )
