"""The workspaces of a fleet's tenants."""

import argparse
from datetime import datetime
from typing import TYPE_CHECKING

from daemon.api.text import ago, counted
from daemon.cli.fleet.connected import connected, database_of, require_agreed
from daemon.cli.fleet.tenant import show_receipt
from daemon.cli.terminal import out, say, show_json, show_table
from state.errors import NotFoundError

if TYPE_CHECKING:
    from state.stores.fleet.places import PlaceFacts

_AT_ONCE = 1_000


def _takes_tenant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="whose")


def _takes_workspace(parser: argparse.ArgumentParser) -> None:
    _takes_tenant(parser)
    parser.add_argument("name", metavar="NAME", help="of the workspace: lower-case letters, digits and hyphens")


def _takes_removal(parser: argparse.ArgumentParser) -> None:
    _takes_workspace(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask; needed without a terminal")


def _add(arguments: argparse.Namespace) -> int:
    from state.stores.fleet.places import Places
    from state.stores.fleet.tenants import Tenants

    with connected(arguments) as (_, connections):
        tenant = Tenants(connections.database).find(arguments.tenant)
        place = Places(connections.database).add(tenant, arguments.name)
    if arguments.json:
        show_json(place)
    else:
        out(f"workspace {place.name} of tenant {tenant.name}, {place.handle} among workers")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from daemon.workspace.stores import utc_now
    from state.stores.fleet.places import Places
    from state.stores.fleet.tenants import Tenants

    found = list["PlaceFacts"]()
    with database_of(arguments) as (_, database):
        tenant, places = Tenants(database).find(arguments.tenant), Places(database)
        while part := places.all(tenant.id, found[-1].place.name if found else "", _AT_ONCE):
            found += part
    now = utc_now()
    if arguments.json:
        show_json(found)
    elif not found:
        say(f"tenant {tenant.name} has no workspace yet; 'dreamd fleet workspace add {tenant.name} NAME' makes one")
    else:
        columns = ("workspace", "number", "generation", "bytes", "committed", "waiting", "state")
        show_table(columns, [_row(one, now) for one in found])
    return 0


def _row(one: "PlaceFacts", now: datetime) -> tuple[str, ...]:
    state = "owned" if one.owned else "queued" if one.queued else "rests"
    if one.failures:
        state = f"failed {counted(one.failures, 'time')}: {one.problem}"
    return (
        one.place.name,
        one.place.handle,
        str(one.generation.number),
        f"{one.bytes:,}",
        ago(one.committed_at, now) if one.committed_at is not None else "never",
        str(one.waiting),
        state,
    )


def _remove(arguments: argparse.Namespace) -> int:
    from daemon.fleet.upkeep.removal import remove_workspace
    from state.stores.fleet.places import Places
    from state.stores.fleet.tenants import Tenants

    with connected(arguments) as (_, connections):
        tenant = Tenants(connections.database).find(arguments.tenant)
        places = Places(connections.database)
        try:
            places.find(tenant.id, arguments.name)
        except NotFoundError:
            if any(one.name == arguments.name for one in places.closed(tenant.id)):
                say("its removal was begun before; going on")
        else:
            what = f"delete workspace {arguments.name} of tenant {tenant.name} for good?"
            if not require_agreed(arguments, what):
                say("nothing was removed")
                return 1
        receipt = remove_workspace(connections.database, connections.objects, tenant, arguments.name)
    show_json(receipt) if arguments.json else show_receipt(receipt)
    return 1 if receipt.objects_left or receipt.rows_left else 0


ACTS = {"add": (_takes_workspace, _add), "list": (_takes_tenant, _list), "remove": (_takes_removal, _remove)}
