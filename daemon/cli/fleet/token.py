"""The tokens of a fleet's tenants."""

import argparse
import os
from datetime import datetime, timedelta

from daemon.cli.fleet.connected import connected, database_of
from daemon.cli.terminal import out, say, show_json, show_table
from state.errors import NotFoundError, UsageError
from state.fleet.tenant import Right

_MOST_DAYS = 36_500


def _takes_tenant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tenant", metavar="TENANT", help="whose")


def _takes_token(parser: argparse.ArgumentParser) -> None:
    _takes_tenant(parser)
    parser.add_argument("name", metavar="NAME", help="of the token")


def _takes_new(parser: argparse.ArgumentParser) -> None:
    _takes_token(parser)
    parser.add_argument(
        "--rights",
        default="read,write",
        metavar="LIST",
        help="some of read, write, dream (which costs), manage (workspaces), with commas; default %(default)s",
    )
    parser.add_argument(
        "--workspace",
        action="append",
        default=[],
        dest="workspaces",
        metavar="NAME",
        help="for this workspace alone; may be repeated (else for all of the tenant's)",
    )
    parser.add_argument("--days", type=float, metavar="N", help="it works for so long (else until it is revoked)")


def _rights(text: str) -> list[Right]:
    """Return the rights. Raise UsageError."""
    words = [one.strip() for one in text.split(",") if one.strip()]
    if strange := [one for one in words if one not in {*Right}]:
        raise UsageError(f"{strange[0][:60]!r} is no right", f"name some of {', '.join(Right)}")
    return [Right(one) for one in words]


def _add(arguments: argparse.Namespace) -> int:
    from daemon.workspace.stores import utc_now
    from state.stores.fleet.places import Places
    from state.stores.fleet.tenants import Tenants, Tokens

    rights, days = _rights(arguments.rights), arguments.days
    if days is not None and not 0 < days <= _MOST_DAYS:
        raise UsageError(f"{days:g} days are impossible", f"give more than 0, and {_MOST_DAYS:,} at most")
    with connected(arguments) as (_, connections):
        tenant = Tenants(connections.database).find(arguments.tenant)
        expires = utc_now() + timedelta(days=days) if days is not None else None
        tokens = Tokens(connections.database, os.urandom)
        shown = tokens.add(tenant, arguments.name, rights, arguments.workspaces, expires)
        places = Places(connections.database)
        for name in dict.fromkeys(arguments.workspaces):
            try:
                places.find(tenant.id, name)
            except NotFoundError:
                say(f"notice: tenant {tenant.name} has no workspace {name} yet; the token is for it once it is made")
    if arguments.json:
        show_json({"token": shown, "tenant": tenant.name, "name": arguments.name, "expires_at": expires})
    else:
        out(shown)
        say(
            "this is the only time that it is shown"
            + (f"; it works until {expires:%Y-%m-%d %H:%M} UTC" if expires else "")
        )
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from daemon.workspace.stores import utc_now
    from state.stores.fleet.tenants import Tenants, Tokens

    with database_of(arguments) as (_, database):
        tenant = Tenants(database).find(arguments.tenant)
        found = Tokens(database, os.urandom).all(tenant)
    now = utc_now()
    if arguments.json:
        show_json(found)
    elif not found:
        say(f"tenant {tenant.name} has no token yet; 'dreamd fleet token add {tenant.name} NAME' makes one")
    else:
        show_table(
            ("token", "id", "rights", "workspaces", "since", "state"),
            [
                (
                    one.name,
                    one.id,
                    ",".join(one.rights),
                    ",".join(one.workspaces) or "all",
                    f"{one.created_at:%Y-%m-%d}",
                    _state(one.revoked_at, one.expires_at, now),
                )
                for one in found
            ],
        )
    return 0


def _state(revoked_at: datetime | None, expires_at: datetime | None, now: datetime) -> str:
    if revoked_at is not None:
        return f"revoked {revoked_at:%Y-%m-%d}"
    if expires_at is None:
        return "works"
    return f"{'expired' if expires_at <= now else 'works until'} {expires_at:%Y-%m-%d}"


def _revoke(arguments: argparse.Namespace) -> int:
    from state.stores.fleet.tenants import Tenants, Tokens

    with database_of(arguments) as (_, database):
        tenant = Tenants(database).find(arguments.tenant)
        Tokens(database, os.urandom).revoke(tenant, arguments.name)
    if arguments.json:
        show_json({"tenant": tenant.name, "name": arguments.name, "revoked": True})
    else:
        out(f"token {arguments.name} of tenant {tenant.name} is revoked; gateways know within ten seconds")
    return 0


ACTS = {"add": (_takes_new, _add), "list": (_takes_tenant, _list), "revoke": (_takes_token, _revoke)}
