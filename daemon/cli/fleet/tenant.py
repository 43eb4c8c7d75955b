"""The tenants of a fleet, their quotas, and their removal."""

import argparse
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING

from daemon.api.text import counted
from daemon.cli.fleet.connected import connected, database_of, require_agreed
from daemon.cli.terminal import out, say, show_json, show_table
from state.errors import UsageError
from state.fleet.tenant import Quotas

if TYPE_CHECKING:
    from daemon.fleet.upkeep.removal import Receipt

_QUOTAS = {
    "workspaces": "workspaces that it may have",
    "notes_per_minute": "notes that it may send",
    "bytes_per_workspace": "that one workspace may have",
    "dreams_per_day": "dreams of all its workspaces",
    "usd_per_day": "dollars that its dreams may cost",
    "tokens_per_day": "tokens that its dreams may cost",
}


def _takes_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="its name: lower-case letters, digits and hyphens")


def _takes_quotas(parser: argparse.ArgumentParser) -> None:
    _takes_name(parser)
    for name, what in _QUOTAS.items():
        kind = float if name == "usd_per_day" else int
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="N", help=f"{what}; 0: no limit")


def _quotas(arguments: argparse.Namespace, before: Quotas) -> Quotas:
    """Return the quotas with what was given. Raise UsageError."""
    given = {name: getattr(arguments, name) for name in _QUOTAS if getattr(arguments, name) is not None}
    for name, value in given.items():
        if not 0 <= value < 2**53:  # also not a number
            raise UsageError(f"--{name.replace('_', '-')} {value} is impossible", "give 0 for no limit, or more")
    return replace(before, **given)


def _add(arguments: argparse.Namespace) -> int:
    from state.stores.fleet.tenants import Tenants

    quotas = _quotas(arguments, Quotas())
    with connected(arguments) as (_, connections):
        tenant = Tenants(connections.database).add(arguments.tenant, quotas)
    if arguments.json:
        show_json(tenant)
    else:
        out(f"tenant {tenant.name}, number {tenant.id}: {_described(quotas)}")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from state.stores.fleet.tenants import Tenants

    with database_of(arguments) as (_, database):
        found = Tenants(database).all()
    if arguments.json:
        show_json(found)
    elif not found:
        say("no tenant yet; 'dreamd fleet tenant add NAME' makes one")
    else:
        columns = ("tenant", "since", "workspaces", "bytes", "dreams today", "tokens today", "spent today", "quotas")
        show_table(
            columns,
            [
                (
                    one.tenant.name,
                    f"{one.created_at:%Y-%m-%d}",
                    str(one.workspaces),
                    f"{one.bytes:,}",
                    f"{one.dreams:,}",
                    f"{one.tokens:,}",
                    f"${one.usd:,.4f}",
                    "is being removed" if one.removed else _described(one.tenant.quotas),
                )
                for one in found
            ],
        )
    return 0


def _quota(arguments: argparse.Namespace) -> int:
    from state.stores.fleet.tenants import Tenants

    with database_of(arguments) as (_, database):
        tenants = Tenants(database)
        tenant = tenants.find(arguments.tenant)
        quotas = _quotas(arguments, tenant.quotas)
        if quotas != tenant.quotas:
            tenants.set_quotas(tenant, quotas)
    if arguments.json:
        show_json(replace(tenant, quotas=quotas))
    else:
        for one in fields(Quotas):
            out(f"{one.name:<20} {getattr(quotas, one.name) or 'no limit'}")
    return 0


def _described(quotas: Quotas) -> str:
    limits = [f"{name} {value:,}" for name, value in asdict(quotas).items() if value]
    return ", ".join(limits) or "no quotas"


def _takes_removal(parser: argparse.ArgumentParser) -> None:
    _takes_name(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask; needed without a terminal")


def _remove(arguments: argparse.Namespace) -> int:
    from daemon.fleet.upkeep.removal import remove_tenant
    from state.stores.fleet.removals import Removals
    from state.stores.fleet.tenants import Tenants

    with connected(arguments) as (_, connections):
        database, name = connections.database, arguments.tenant
        closed = next((one for one in Removals(database).tenants() if one.tenant.name == name), None)
        tenant = closed.tenant if closed is not None else Tenants(database).find(name)
        rows = Removals(database).of_tenant(tenant.id)
        if closed is not None:
            say(f"its removal began at {closed.at:%Y-%m-%d %H:%M:%S} UTC; going on")
        what = f"delete tenant {name} with {counted(rows.workspaces, 'workspace')} for good?"
        if closed is None and not require_agreed(arguments, what):
            say("nothing was removed")
            return 1
        receipt = remove_tenant(database, connections.objects, name)
    show_json(receipt) if arguments.json else show_receipt(receipt)
    return 1 if receipt.objects_left or receipt.rows_left else 0


def show_receipt(receipt: "Receipt") -> None:
    """Print what was deleted."""
    whose = (
        f"workspace {receipt.workspace} of tenant {receipt.tenant}"
        if receipt.workspace
        else f"tenant {receipt.tenant}"
    )
    rows = ", ".join(f"{name} {number:,}" for name, number in asdict(receipt.rows).items() if number)
    out(f"{'removed':<12} {whose}")
    out(f"{'closed':<12} {receipt.closed_at:%Y-%m-%d %H:%M:%S} UTC")
    out(f"{'deleted':<12} {receipt.at:%Y-%m-%d %H:%M:%S} UTC")
    out(f"{'workspaces':<12} {receipt.workspaces:,}")
    out(f"{'objects':<12} {receipt.objects:,}, {receipt.bytes:,} bytes")
    out(f"{'rows':<12} {receipt.rows.all:,}" + (f" ({rows})" if rows else ""))
    left = "nothing: the store was listed, the rows counted"
    if receipt.objects_left or receipt.rows_left:
        left = f"{counted(receipt.objects_left, 'object')}, {counted(receipt.rows_left, 'row')}: remove it again"
    out(f"{'left':<12} {left}")


ACTS = {
    "add": (_takes_quotas, _add),
    "list": (lambda _: None, _list),
    "quota": (_takes_quotas, _quota),
    "remove": (_takes_removal, _remove),
}
