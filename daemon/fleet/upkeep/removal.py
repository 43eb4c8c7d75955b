"""Removal of tenants and workspaces: closed at once, then every object and every row deleted, and looked for.

    close (nothing is given out, holders are fenced) ─> delete objects ─> list: none ─> delete rows ─> count: none

What is cut off anywhere goes on from there: by the command, or by any process. A row goes last, so it is found.
What is put afterwards by whoever does not know is looked for, for a day; so is what is older than a forgetting.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from daemon.observability import logs
from daemon.workspace.stores import utc_now
from state.errors import NotFoundError, StorageError, UnreachableError
from state.fleet import Place, Tenant
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.registry import Places, Tenants
from state.stores.generations.objects import Objects
from state.stores.generations.versions import made_by

# A fenced holder may put what it had begun while we delete.
_ROUNDS = 5
_LOOK_SECONDS = 15.0
_LOOKED_FOR = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was deleted, and when; `workspace` is empty for a whole tenant. `rows`: of each table.

    `objects_left` and `rows_left` were counted afterwards, by a listing of the store and by a query.
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


def remove_tenant(database: FleetDatabase, objects: Objects, name: str) -> Receipt:
    """Remove a tenant with all that it has, or go on with what was interrupted.

    Raise NotFoundError; UnreachableError and StorageError when it has to be called again.
    """
    tenants = Tenants(database)
    if name not in (tenant.name for tenant, _ in tenants.closed()):
        tenants.close(tenants.find(name))
    [(tenant, at)] = [one for one in tenants.closed() if one[0].name == name]
    return _removed(database, objects, tenant, at)


def remove_workspace(database: FleetDatabase, objects: Objects, tenant: Tenant, name: str) -> Receipt:
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
    return _removed(database, objects, place, utc_now())


def finish_removals(database: FleetDatabase, objects: Objects) -> list[Receipt]:
    """Go on with every removal that was interrupted; return what was done.

    What was put after a removal or a forgetting is deleted too, in place of a holder that died, or did not know.

    Raise UnreachableError and StorageError; it may be called again, and by several at once.
    """
    places = Places(database)
    receipts = [_removed(database, objects, tenant, at) for tenant, at in Tenants(database).closed()]
    receipts += [_removed(database, objects, place, utc_now()) for place in places.closed()]
    for one in places.erased():
        _erase(objects, f"{one.tenant}/{one.workspace}" if one.workspace else str(one.tenant), one.kept)
        if utc_now() - one.at > _LOOKED_FOR:
            places.forget_erased(one)
    return receipts


def remover(database: FleetDatabase, objects: Objects, stopping: threading.Event) -> threading.Thread:
    """Make a thread that goes on with removals now and then, until the process stops."""

    def run() -> None:
        while not stopping.wait(_LOOK_SECONDS):
            try:
                for one in finish_removals(database, objects):
                    rows = sum(one.rows.values())
                    logs.get().info("removal_finished", workspaces=one.workspaces, objects=one.objects, rows=rows)
            except UnreachableError:
                continue  # the heartbeat says so
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look comes
                logs.get().error("removal_failed", error=error)

    return threading.Thread(target=run, name="removals", daemon=True)


def _removed(database: FleetDatabase, objects: Objects, what: Tenant | Place, closed_at: datetime) -> Receipt:
    places = Places(database)
    if isinstance(what, Place):
        names, prefix, numbers = (what.tenant_name, what.name), what.prefix, (what.tenant, what.id)
    else:
        names, prefix, numbers = (what.name, ""), str(what.id), (what.id, 0)
    rows = places.rows(*numbers)
    count, size = _erase(objects, prefix)
    if isinstance(what, Place):
        places.drop([what])
    else:
        Tenants(database).drop(what.id)
    left, rows_left = sum(1 for _ in objects.list(prefix)), sum(places.rows(*numbers).values())
    return Receipt(*names, closed_at, utc_now(), rows["workspaces"], count, size, rows, left, rows_left)


def _erase(objects: Objects, prefix: str, kept: str = "") -> tuple[int, int]:
    """Delete everything below a prefix until a listing finds nothing; return how many objects, and their bytes.

    With a generation that is `kept`, everything up to that.
    """
    sizes, last = dict[str, int](), made_by(kept)
    for _ in range(_ROUNDS):
        found = {
            one.key: one.size
            for one in objects.list(prefix)
            if last is None or (one.key != kept and (made_by(one.key) or 0) <= last)
        }
        if not found:
            return len(sizes), sum(sizes.values())
        sizes |= found
        objects.delete(found)
    raise StorageError(
        f"objects below {prefix}/ come again and again", "stop whoever writes them, and remove it again"
    )
