"""Acts of a fleet's operator: each takes its words, does it, and returns a value, which is shown as text or JSON."""

# Imported when an act runs.

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from daemon.cli.fleet import texts
from daemon.cli.parsing import config_of
from daemon.cli.terminal import agreed, can_ask, say, show_json, working
from daemon.config.paths import token_path
from daemon.config.settings import Config
from daemon.fleet.connections import Connections, connect, connect_to_recover, open_database
from daemon.fleet.upkeep.archives import (
    ExportedPlace,
    ImportedPlace,
    export_place,
    import_place,
    require_new,
    scratch_folder,
)
from daemon.fleet.upkeep.recovery import Finding, Found, Survey, require_stopped
from daemon.fleet.upkeep.removal import Receipt, remove_tenant, remove_workspace
from daemon.fleet.upkeep.status import FleetStatus, fleet_status
from daemon.workspace.stores import follow_clock, utc_now
from state.errors import ConfirmRequiredError, NotFoundError, UsageError
from state.fleet.tenant import Quotas, Right, Tenant
from state.fleet.workspace import Place
from state.stores.fleet.database import FleetDatabase
from state.stores.fleet.places import PlaceFacts, Places
from state.stores.fleet.removals import Removals
from state.stores.fleet.tenants import TenantFacts, Tenants, TokenFacts, Tokens

_CONNECTIONS, _AT_ONCE, _MOST_DAYS = 2, 1_000, 36_500
_QUOTAS = {
    "workspaces": "workspaces that it may have",
    "notes_per_minute": "notes that it may send",
    "bytes_per_workspace": "that one workspace may have",
    "dreams_per_day": "dreams of all its workspaces",
    "usd_per_day": "dollars that its dreams may cost",
    "tokens_per_day": "tokens that its dreams may cost",
}
Arguments = tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Action:
    """What an act does with its words; `show` prints what came of it, `failed` tells whether that is a failure."""

    do: Callable[[argparse.Namespace], Any]
    show: Callable[[Any, argparse.Namespace], None]
    arguments: Arguments = ()
    failed: Callable[[Any], bool] = field(default=lambda _: False)

    def __call__(self, arguments: argparse.Namespace) -> int:
        """Do it and show what came of it; the exit status."""
        done = self.do(arguments)
        if done is None:  # the person said no
            say("nothing was removed")
            return 1
        show_json(done) if arguments.json else self.show(done, arguments)
        return int(self.failed(done))


@contextmanager
def _connected(arguments: argparse.Namespace) -> Iterator[tuple[Config, Connections]]:
    """Yield the configuration and its connections, all of one fleet. Raise ConfigError and UnreachableError."""
    config = config_of(arguments)
    connections = connect(config, os.environ, _CONNECTIONS)
    try:
        _follow(connections.database)
        yield config, connections
    finally:
        connections.close()


@contextmanager
def _database(arguments: argparse.Namespace) -> Iterator[FleetDatabase]:
    """Yield the database alone. Raise ConfigError and UnreachableError."""
    database = open_database(config_of(arguments), _CONNECTIONS)
    try:
        _follow(database)
        yield database
    finally:
        database.close()


def _follow(database: FleetDatabase) -> None:
    """Go by the database's clock: this machine may be no part of the fleet, and its clock by days apart."""
    asked = time.monotonic()
    follow_clock(database.now(), asked)


def _tenant(database: FleetDatabase, arguments: argparse.Namespace) -> Tenant:

    return Tenants(database).find(arguments.tenant)


def _is_agreed(arguments: argparse.Namespace, question: str) -> bool:
    """Ask the person, unless `--yes` was said. Raise ConfirmRequiredError without a terminal."""
    if not arguments.yes and not can_ask():
        raise ConfirmRequiredError("it cannot be undone, and nobody is at the terminal to be asked", "give --yes")
    return arguments.yes or agreed(question)


# ------------------------------------------------------------------- processes


def _serve(arguments: argparse.Namespace) -> int:
    from daemon.fleet.serving import run

    config = config_of(arguments)
    if arguments.jobs is not None:
        fleet = config.fleet.model_validate({**config.fleet.model_dump(), "dreams_at_once": arguments.jobs})
        config = config.model_copy(update={"fleet": fleet})
    if os.isatty(2):
        say(f"the token for /metrics is in {token_path(os.environ)}; 'dreamd fleet token add' makes those of tenants")
    return run(config)


def _status(arguments: argparse.Namespace) -> FleetStatus:

    with _database(arguments) as database:
        return fleet_status(database, config_of(arguments), arguments.oldest_minutes)


# ------------------------------------------------------------------- tenants


def _quotas(arguments: argparse.Namespace, before: Quotas) -> Quotas:
    """Return the quotas with what was given. Raise UsageError."""
    given = {name: getattr(arguments, name) for name in _QUOTAS if getattr(arguments, name) is not None}
    for name, value in given.items():
        if not 0 <= value < 2**53:  # also not a number
            raise UsageError(f"--{name.replace('_', '-')} {value} is impossible", "give 0 for no limit, or more")
    return replace(before, **given)


def _add_tenant(arguments: argparse.Namespace) -> Tenant:

    quotas = _quotas(arguments, Quotas())
    with _connected(arguments) as (_, connections):
        return Tenants(connections.database).add(arguments.tenant, quotas)


def _list_tenants(arguments: argparse.Namespace) -> list[TenantFacts]:

    with _database(arguments) as database:
        return Tenants(database).all()


def _set_quotas(arguments: argparse.Namespace) -> Tenant:

    with _database(arguments) as database:
        tenant = _tenant(database, arguments)
        quotas = _quotas(arguments, tenant.quotas)
        if quotas != tenant.quotas:
            Tenants(database).set_quotas(tenant, quotas)
    return replace(tenant, quotas=quotas)


def _remove_tenant(arguments: argparse.Namespace) -> Receipt | None:

    with _connected(arguments) as (_, connections):
        removals, name = Removals(connections.database), arguments.tenant
        closed = next((one for one in removals.tenants() if one.tenant.name == name), None)
        if closed is not None:
            say(f"its removal began at {closed.at:%Y-%m-%d %H:%M:%S} UTC; going on")
        else:
            count = removals.of_tenant(_tenant(connections.database, arguments).id).workspaces
            if not _is_agreed(arguments, f"delete tenant {name} with {texts.workspaces(count)} for good?"):
                return None
        return remove_tenant(connections.database, connections.objects, name)


# ------------------------------------------------------------------- tokens


def _add_token(arguments: argparse.Namespace) -> dict[str, object]:

    words = [one.strip() for one in arguments.rights.split(",") if one.strip()]
    if strange := [one for one in words if one not in {*Right}]:
        raise UsageError(f"{strange[0][:60]!r} is no right", f"name some of {', '.join(Right)}")
    days, expires = arguments.days, None
    if days is not None and not 0 < days <= _MOST_DAYS:
        raise UsageError(f"{days:g} days are impossible", f"give more than 0, and {_MOST_DAYS:,} at most")
    with _connected(arguments) as (_, connections):
        tenant = _tenant(connections.database, arguments)
        expires = utc_now() + timedelta(days=days) if days is not None else None
        tokens, rights = Tokens(connections.database, os.urandom), [Right(one) for one in words]
        shown = tokens.add(tenant, arguments.name, rights, arguments.workspaces, expires)
        for name in dict.fromkeys(arguments.workspaces):
            try:
                Places(connections.database).find(tenant.id, name)
            except NotFoundError:
                say(f"notice: tenant {tenant.name} has no workspace {name} yet; the token is for it once it is made")
    return {"token": shown, "tenant": tenant.name, "name": arguments.name, "expires_at": expires}


def _list_tokens(arguments: argparse.Namespace) -> list[TokenFacts]:

    with _database(arguments) as database:
        return Tokens(database, os.urandom).all(_tenant(database, arguments))


def _revoke_token(arguments: argparse.Namespace) -> dict[str, object]:

    with _database(arguments) as database:
        Tokens(database, os.urandom).revoke(_tenant(database, arguments), arguments.name)
    return {"tenant": arguments.tenant, "name": arguments.name, "revoked": True}


# ------------------------------------------------------------------- workspaces


def _add_workspace(arguments: argparse.Namespace) -> Place:

    with _connected(arguments) as (_, connections):
        return Places(connections.database).add(_tenant(connections.database, arguments), arguments.name)


def _list_workspaces(arguments: argparse.Namespace) -> list[PlaceFacts]:

    found = list[PlaceFacts]()
    with _database(arguments) as database:
        tenant, places = _tenant(database, arguments), Places(database)
        while part := places.all(tenant.id, found[-1].place.name if found else "", _AT_ONCE):
            found += part
    return found


def _remove_workspace(arguments: argparse.Namespace) -> Receipt | None:

    with _connected(arguments) as (_, connections):
        tenant, places = _tenant(connections.database, arguments), Places(connections.database)
        name = arguments.name
        try:
            places.find(tenant.id, name)
        except NotFoundError:
            if any(one.name == name for one in places.closed(tenant.id)):
                say("its removal was begun before; going on")
        else:
            if not _is_agreed(arguments, f"delete workspace {name} of tenant {tenant.name} for good?"):
                return None
        return remove_workspace(connections.database, connections.objects, tenant, name)


def _export(arguments: argparse.Namespace) -> ExportedPlace:

    name = arguments.name
    target = Path(os.path.realpath(arguments.file or f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.dreamd.db"))
    require_new(target)
    with (
        _connected(arguments) as (config, connections),
        scratch_folder(config, os.environ) as own,
        working("exporting…"),
    ):
        tenant = _tenant(connections.database, arguments)
        try:
            place = Places(connections.database).find(tenant.id, name).place
        except NotFoundError as error:
            raise NotFoundError(
                f"tenant {tenant.name} has no workspace {name[:60]!r}",
                f"see 'dreamd fleet workspace list {tenant.name}'",
            ) from error
        return export_place(connections, config, place, target, own)


def _import(arguments: argparse.Namespace) -> ImportedPlace:

    if not arguments.file.exists():
        raise NotFoundError(f"there is no file {arguments.file}", "name an archive of 'dreamd export'")
    with (
        _connected(arguments) as (config, connections),
        scratch_folder(config, os.environ) as own,
        working("importing…"),
    ):
        tenant = _tenant(connections.database, arguments)
        return import_place(connections, tenant, arguments.name, arguments.file, own)


def _recover(arguments: argparse.Namespace) -> dict[str, Any]:

    config, changes, every = config_of(arguments), not arguments.list, list[Found]()
    connections = connect_to_recover(config, os.environ, adopt=changes)
    survey = Survey(connections, arguments.tenant, arguments.older, arguments.force)
    try:
        if changes and not arguments.force:
            require_stopped(connections)
        with scratch_folder(config, os.environ) as own:
            for one in survey.recover(own) if changes else survey.found():
                every.append(one)
                if not arguments.json and one.finding is not Finding.CURRENT:
                    texts.show_found(one)
    finally:
        connections.close()
    kinds = ["recovered" if one.done else one.finding.value for one in every]
    wrong = [one for one in every if one.finding is not Finding.CURRENT]
    return {
        "workspaces": wrong,
        "counts": {one: kinds.count(one) for one in dict.fromkeys(kinds)},
        "changed": changes,
    }


def _is_wrong(done: dict[str, Any]) -> bool:
    return any(one.problem and one.finding.value != "unnamed" for one in done["workspaces"])


# ------------------------------------------------------------------- their words


def _word(name: str, about: str, **options: object) -> tuple[str, dict[str, Any]]:
    return name, {"help": about, **options}


_WHOSE = _word("tenant", "whose", metavar="TENANT")
_NEW_TENANT = _word("tenant", "its name: lower-case letters, digits and hyphens", metavar="TENANT")
_WORKSPACE = _word("name", "of the workspace: lower-case letters, digits and hyphens", metavar="NAME")
_TOKEN = _word("name", "of the token", metavar="NAME")
_YES = _word("--yes", "do not ask; needed without a terminal", action="store_true")
_LIMITS = tuple(
    _word(
        f"--{name.replace('_', '-')}",
        f"{what}; 0: no limit",
        type=float if name == "usd_per_day" else int,
        metavar="N",
    )
    for name, what in _QUOTAS.items()
)
_RIGHTS = "some of read, write, dream (which costs), manage (workspaces), with commas; default %(default)s"
_NEW_TOKEN = (
    _WHOSE,
    _TOKEN,
    _word("--rights", _RIGHTS, default="read,write", metavar="LIST"),
    _word(
        "--workspace",
        "for this workspace alone; may be repeated (else for all of the tenant's)",
        action="append",
        default=[],
        dest="workspaces",
        metavar="NAME",
    ),
    _word("--days", "it works for so long (else until it is revoked)", type=float, metavar="N"),
)
_OLDEST = "what waits in an inbox for longer is a problem (else six passes and a tenth of dream.interval_minutes)"
_TO = "a new file (else WORKSPACE-DATE-TIME.dreamd.db here)"
_RECOVERING = (
    _word("--tenant", "of this tenant alone", default="", metavar="NAME"),
    _word("--list", "show what would be done, and change nothing", action="store_true"),
    _word(
        "--older",
        "where a generation is not whole in the store, take the newest older one; what came since is lost",
        action="store_true",
    ),
    _word(
        "--force",
        "although processes live; and take generations with a higher number and an older time",
        action="store_true",
    ),
)


def _is_left(receipt: Receipt) -> bool:
    return bool(receipt.objects_left or receipt.rows_left)


ACTIONS = {
    "serve": Action(
        _serve,
        lambda _, __: None,
        (_word("--jobs", "so many dreams at once (else fleet.dreams_at_once)", type=int, metavar="N"),),
    ),
    "status": Action(
        _status,
        texts.show_status,
        (_word("--oldest-minutes", _OLDEST, type=float, metavar="N"),),
        lambda status: bool(status.problems),
    ),
    "tenant add": Action(_add_tenant, texts.show_new_tenant, (_NEW_TENANT, *_LIMITS)),
    "tenant list": Action(_list_tenants, texts.show_tenants),
    "tenant quota": Action(_set_quotas, texts.show_quotas, (_NEW_TENANT, *_LIMITS)),
    "tenant remove": Action(_remove_tenant, texts.show_receipt, (_NEW_TENANT, _YES), _is_left),
    "token add": Action(_add_token, texts.show_new_token, _NEW_TOKEN),
    "token list": Action(_list_tokens, texts.show_tokens, (_WHOSE,)),
    "token revoke": Action(_revoke_token, texts.show_revoked, (_WHOSE, _TOKEN)),
    "workspace add": Action(_add_workspace, texts.show_new_workspace, (_WHOSE, _WORKSPACE)),
    "workspace list": Action(_list_workspaces, texts.show_workspaces, (_WHOSE,)),
    "workspace remove": Action(_remove_workspace, texts.show_receipt, (_WHOSE, _WORKSPACE, _YES), _is_left),
    "export": Action(
        _export,
        texts.show_exported,
        (_WHOSE, _word("name", "its name", metavar="WORKSPACE"), _word("file", _TO, nargs="?", type=Path)),
    ),
    "import": Action(
        _import,
        texts.show_imported,
        (
            _word("tenant", "whose it is to be", metavar="TENANT"),
            _word("name", "of the workspace: a new one, or one that never held anything", metavar="NAME"),
            _word("file", "an archive of 'dreamd export' or 'dreamd fleet export'", type=Path, metavar="FILE"),
        ),
    ),
    "recover": Action(_recover, texts.show_recovered, _RECOVERING, _is_wrong),
}
