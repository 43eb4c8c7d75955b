"""Serve and keep a fleet: its processes, how it stands, its tenants with their tokens and workspaces, recovery."""

# Each act is a function: its parameters become arguments and options, its docstring becomes the help. Heavy packages
# (psycopg, obstore) are imported only when an act runs.

import argparse
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from daemon.api.operations.operation import AnyOperation, Arg, Operation, operation, operations_in
from daemon.api.shapes import ago, duration, facts, table
from daemon.cli.parsing import CONFIG, JSON, arg, config_of, parser_of
from daemon.cli.parsing import add as add_argument
from daemon.cli.perform import argument_of, arguments_of, fields_of
from daemon.cli.terminal import agreed, can_ask, out, say, show, show_json, spinner
from daemon.config.settings import Config
from daemon.fleet.connections import (
    Connections,
    adopt_store,
    connect,
    connect_to_recover,
    open_database,
    own_folder,
    require_installed,
)
from daemon.workspace.stores import follow_clock, utc_now
from state.errors import ConfirmRequiredError, NotFoundError, UsageError
from state.fleet import Quotas, Right
from state.text.words import counted, did_you_mean

if TYPE_CHECKING:
    from daemon.fleet.upkeep.recovery import Found
    from daemon.fleet.upkeep.status import FleetProblem, FleetStatus
    from state.fleet import Place, Tenant
    from state.stores.fleet.registry import PlaceFacts, Registry, TokenFacts
    from state.stores.fleet.remains import Remains

_LISTED = "'dreamd fleet --help' lists the acts; one comes first, its options behind it"
_CONNECTIONS, _AT_ONCE, _MOST_DAYS = 2, 1_000, 36_500

Whose = Annotated[str, Arg("whose, or which")]
NewName = Annotated[str, Arg("its name: lower-case letters, digits and hyphens")]
OldName = Annotated[str, Arg("of the workspace")]
TokenName = Annotated[str, Arg("of the token")]
Yes = Annotated[bool, Arg("do not ask; needed without a terminal")]


class Operator:
    """The context of an act: the configuration, open connections, and whether to print JSON."""

    def __init__(self, config: Config, *, as_json: bool) -> None:
        self.config, self.as_json = config, as_json
        self._open = ExitStack()

    @cached_property
    def registry(self) -> "Registry":
        """Return the database, opened at the first use. Raise ConfigError and UnreachableError."""
        return self._followed(self._open.enter_context(closing(open_database(self.config, _CONNECTIONS))))

    @cached_property
    def fleet(self) -> Connections:
        """Return the database and the object store, opened at the first use. Raise ConfigError, UnreachableError."""
        fleet = self._open.enter_context(closing(connect(self.config, os.environ, _CONNECTIONS)))
        self._followed(fleet.database)
        return fleet

    def close(self) -> None:
        """Close all connections."""
        self._open.close()

    @staticmethod
    def _followed(database: "Registry") -> "Registry":
        """Follow the database's clock: this machine may not be part of the fleet, and its clock days off."""
        asked = time.monotonic()
        follow_clock(database.now(), asked)
        return database


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an act: a value for JSON, its text for people, remarks for stderr, and the exit status."""

    value: object
    text: str = ""
    beside: str = ""
    status: int = 0


def _listing(found: object, columns: str, rows: Sequence[Sequence[object]], none: str) -> Done:
    """Return a table of the rows, or the remark `none` if there is no row; `columns` have commas in between."""
    return Done(found, table(columns, rows)) if rows else Done(found, beside=none)


def _is_agreed(question: str, *, yes: bool) -> bool:
    """Ask the person, unless `--yes` was given. Raise ConfirmRequiredError without a terminal."""
    if not yes and not can_ask():
        raise ConfirmRequiredError("it cannot be undone, and nobody is at the terminal to be asked", "give --yes")
    return yes or agreed(question)


# ------------------------------------------------------------------- processes


@operation("serve")
def serve(
    operator: Operator, jobs: Annotated[int | None, Arg("so many dreams at once (else fleet.dreams_at_once)")] = None
) -> Done:
    """Run one process of the fleet, in the foreground: it serves tenants' agents, and dreams."""
    from daemon.config.paths import token_path
    from daemon.fleet.serving import run

    config = operator.config
    if jobs is not None:
        fleet = config.fleet.model_validate({**config.fleet.model_dump(), "dreams_at_once": jobs})
        config = config.model_copy(update={"fleet": fleet})
    if os.isatty(2):
        say(f"the token for /metrics is in {token_path(os.environ)}; 'dreamd fleet token add' makes those of tenants")
    return Done(None, status=run(config))


_OLDEST = "what waits in an inbox for longer is a problem (else six passes and a tenth of dream.interval_minutes)"


@operation("status")
def status(operator: Operator, oldest_minutes: Annotated[float | None, Arg(_OLDEST)] = None) -> Done:
    """Show how the fleet stands, and what is wrong with it."""
    from daemon.fleet.upkeep.status import fleet_status

    found = fleet_status(operator.registry, operator.config, oldest_minutes)
    return Done(found, _status_text(found), status=int(bool(found.problems)))


def _status_text(found: "FleetStatus") -> str:
    counts, inbox, spent, ceilings = found.counts, found.inbox, found.spent, found.ceilings
    removing = found.removing.tenants + found.removing.workspaces
    behind = f" of {counted(inbox.workspaces, 'workspace')}, the oldest for {duration(inbox.oldest_seconds)}"
    usd = f" of ${ceilings.usd_per_day:,.2f}" if ceilings.usd_per_day else ""
    tokens = f" of {ceilings.tokens_per_day:,}" if ceilings.tokens_per_day else ""
    work = f"{counts.due:,} due, {counts.queued:,} queued, {counts.running:,} running, {counts.failing:,} failing"
    spenders = found.spenders if spent.usd or spent.tokens else ()
    standing = facts(
        ("database", found.database),
        ("objects", found.objects),
        ("workspaces", f"{counts.workspaces:,}, {counts.owned:,} owned, {counts.bytes:,} bytes"),
        ("work", work),
        ("sweep", f"{duration(counts.lag_seconds)} behind"),
        ("inbox", f"{inbox.waiting:,} waiting{behind}" if inbox.waiting else "empty: every generation is current"),
        ("spent today", f"${spent.usd:,.4f}{usd}, {spent.tokens:,}{tokens} tokens, {counted(spent.dreams, 'dream')}"),
        *(
            ("", f"{one.tenant}: ${one.usd:,.4f}, {one.tokens:,} tokens, {counted(one.dreams, 'dream')}")
            for one in spenders
        ),
        ("removing", removing and f"{counted(removing, 'removal')} not finished"),
    )
    alive = [one for one in found.processes if one.alive]
    figures = attrgetter("owned", "dreaming", "slots", "version", "address", "host")
    shown = [
        (one.kind, "draining" if one.draining else "alive", f"{duration(one.silent_seconds)} ago", *figures(one))
        for one in alive
    ]
    columns = "process,state,last word,owned,dreaming,slots,version,address,host"
    processes = _listing(found, columns, shown, "").text if shown else "no process lives"
    if dead := sum(one.has_died for one in found.processes):
        processes += f"\n{counted(dead, 'process', 'processes')} died in the last hour"
    wrong = facts(
        *(
            ("failing", f"{one.tenant}/{one.workspace} ({one.handle}), {one.failures} in a row: {one.problem}")
            for one in found.failing
        ),
        *(("problem", _told(one, found.at)) for one in found.problems),
    )
    return "\n".join(filter(None, [standing + "\n", processes, wrong]))


def _told(one: "FleetProblem", now: datetime) -> str:
    """Return the problem in one line: since when, what, and what mends it."""
    return (
        f"since {one.since:%Y-%m-%d %H:%M} UTC ({duration((now - one.since).total_seconds())}): {one}"
        if one.since
        else str(one)
    )


# ------------------------------------------------------------------- tenants

_QUOTAS = {
    "workspaces": "workspaces that it may have",
    "notes_per_minute": "notes that it may send",
    "bytes_per_workspace": "that one workspace may have",
    "dreams_per_day": "dreams of all its workspaces",
    "usd_per_day": "dollars that its dreams may cost",
    "tokens_per_day": "tokens that its dreams may cost",
}
Given = Mapping[str, Any]
"""The given quotas by name; each is an option of its own."""


def _with(before: Quotas, quotas: Given) -> Quotas:
    """Return the quotas with the given ones replaced. Raise UsageError."""
    for name, value in quotas.items():
        if not 0 <= value < 2**53:  # true of NaN as well
            raise UsageError(f"--{name.replace('_', '-')} {value} is impossible", "give 0 for no limit, or more")
    return replace(before, **quotas)


def _described(quotas: Quotas) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in asdict(quotas).items() if value) or "no quotas"


@operation("tenant add")
def add_tenant(operator: Operator, tenant: NewName, quotas: Given) -> Done:
    """Make a tenant, with its quotas."""
    wanted = _with(Quotas(), quotas)
    made = operator.registry.tenants.add(tenant, wanted)
    return Done(made, f"tenant {made.name}, number {made.id}: {_described(made.quotas)}")


@operation("tenant list")
def list_tenants(operator: Operator) -> Done:
    """List the tenants, and what today has cost them."""
    found = operator.registry.tenants.all()
    columns = "tenant,since,workspaces,bytes,dreams today,tokens today,spent today,quotas"
    figures, rows = attrgetter("created_at", "workspaces", "bytes", "dreams", "tokens"), list[tuple[object, ...]]()
    for one in found:
        quotas = "is being removed" if one.removed else _described(one.tenant.quotas)
        rows.append((one.tenant.name, *figures(one), f"${one.usd:,.4f}", quotas))
    return _listing(found, columns, rows, "no tenant yet; 'dreamd fleet tenant add NAME' makes one")


@operation("tenant quota")
def set_quotas(operator: Operator, tenant: Whose, quotas: Given) -> Done:
    """Show a tenant's quotas, or set them."""
    found = operator.registry.tenants.find(tenant)
    found = replace(found, quotas=_with(found.quotas, quotas))
    if quotas:
        operator.registry.tenants.set_quotas(found, found.quotas)
    rows = [f"{name:<20} {value or 'no limit'}" for name, value in asdict(found.quotas).items()]
    return Done(found, "\n".join(rows))


@operation("tenant remove")
def remove_tenant(operator: Operator, tenant: Whose, yes: Yes = False) -> Done:  # noqa: FBT002 - an option
    """Delete a tenant with all that it has, with a receipt."""
    return _removed(operator, tenant, yes=yes)


def _removed(operator: Operator, tenant: str, workspace: str = "", *, yes: bool) -> Done:
    """Remove the tenant, or one workspace of it, or resume its removal."""
    from daemon.fleet.upkeep.removal import remove

    what, is_begun = _to_remove(operator, tenant, workspace)
    about = what.named
    if not workspace:
        about += f" with {counted(operator.registry.removals.rows(what)['workspaces'], 'workspace')}"
    if is_begun:
        say("its removal was begun before; going on")
    elif not _is_agreed(f"delete {about} for good?", yes=yes):
        return Done(None, "", "nothing was removed", 1)
    receipt = remove(operator.fleet.database, operator.fleet.objects, what)
    is_left = bool(receipt.objects_left or receipt.rows_left)
    rows = ", ".join(f"{name} {number:,}" for name, number in receipt.rows.items() if number)
    left = "nothing in the store, which was listed, and in the tables, whose rows were counted"
    if is_left:
        left = f"{counted(receipt.objects_left, 'object')}, {counted(receipt.rows_left, 'row')}: remove it again"
    text = facts(
        ("removed", what.named),
        ("closed", f"{receipt.closed_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("deleted", f"{receipt.at:%Y-%m-%d %H:%M:%S} UTC"),
        ("workspaces", f"{receipt.workspaces:,}"),
        ("objects", f"{receipt.objects:,}, {receipt.bytes:,} bytes"),
        ("rows", f"{sum(receipt.rows.values()):,}" + (f" ({rows})" if rows else "")),
        ("left", left),
        *_remains(receipt.remains),
    )
    return Done(receipt, text, status=int(is_left))


def _remains(remains: "Remains") -> Iterator[tuple[str, str]]:
    """Yield where bytes of deleted rows are, and for how long."""
    if remains.tables:
        tables = ", ".join(f"dreamd.{table}" for table in remains.tables)
        yield "pages", f"old bytes, until new rows take their place; 'VACUUM FULL {tables}' in a quiet hour ends that"
    so_long = f", in some {duration(remains.log_seconds)} at the rate so far" if remains.log_seconds else ""
    log = f"PostgreSQL's log has it until {remains.log_bytes / 2**20:,.0f} MiB more are written{so_long}"
    archived = "; who archives or copies the log has it for longer" if remains.is_archived else ""
    yield "kept", f"{log}{archived}; your backups have it as long as you keep them"


# ------------------------------------------------------------------- tokens

_RIGHTS = "some of read, write, dream (which costs), manage (workspaces), with commas"
_ONLY = Arg("for this workspace alone; may be repeated (else for all of the tenant's)", alias="workspace")


@operation("token add")
def add_token(
    operator: Operator,
    tenant: Whose,
    name: TokenName,
    rights: Annotated[str, Arg(_RIGHTS)] = "read,write",
    workspaces: Annotated[tuple[str, ...], _ONLY] = (),
    days: Annotated[float | None, Arg("it works for so long (else until it is revoked)")] = None,
) -> Done:
    """Make a token of a tenant; it is shown once."""
    words = [one.strip() for one in rights.split(",") if one.strip()]
    if strange := [one for one in words if one not in {*Right}]:
        raise UsageError(f"{strange[0][:60]!r} is no right", f"name some of {', '.join(Right)}")
    if days is not None and not 0 < days <= _MOST_DAYS:
        raise UsageError(f"{days:g} days are impossible", f"give more than 0, and {_MOST_DAYS:,} at most")
    whose = operator.registry.tenants.find(tenant)
    expires = utc_now() + timedelta(days=days) if days is not None else None
    shown = operator.registry.tokens.add(whose, name, [Right(one) for one in words], workspaces, expires)
    for one in dict.fromkeys(workspaces):
        try:
            operator.registry.places.find(whose.id, one)
        except NotFoundError:
            say(f"notice: tenant {tenant} has no workspace {one} yet; the token is for it once it is made")
    until = f"; it works until {expires:%Y-%m-%d %H:%M} UTC" if expires else ""
    made = {"token": shown, "tenant": tenant, "name": name, "expires_at": expires}
    return Done(made, shown, f"this is the only time that it is shown{until}")


@operation("token list")
def list_tokens(operator: Operator, tenant: Whose) -> Done:
    """List the tokens of a tenant, without their secrets."""
    found = operator.registry.tokens.all(operator.registry.tenants.find(tenant))
    rows = [
        (one.name, one.id, ",".join(one.rights), ",".join(one.workspaces) or "all", one.created_at, _state(one))
        for one in found
    ]
    none = f"tenant {tenant} has no token yet; 'dreamd fleet token add {tenant} NAME' makes one"
    return _listing(found, "token,id,rights,workspaces,since,state", rows, none)


def _state(one: "TokenFacts") -> str:
    if one.revoked_at is not None:
        return f"revoked {one.revoked_at:%Y-%m-%d}"
    if one.expires_at is None:
        return "works"
    return f"{'expired' if one.expires_at <= utc_now() else 'works until'} {one.expires_at:%Y-%m-%d}"


@operation("token revoke")
def revoke_token(operator: Operator, tenant: Whose, name: TokenName) -> Done:
    """End a token."""
    operator.registry.tokens.revoke(operator.registry.tenants.find(tenant), name)
    text = f"token {name} of tenant {tenant} is revoked; processes know within ten seconds"
    return Done({"tenant": tenant, "name": name, "revoked": True}, text)


# ------------------------------------------------------------------- workspaces


@operation("workspace add")
def add_workspace(operator: Operator, tenant: Whose, name: NewName) -> Done:
    """Make a new, empty workspace of a tenant."""
    made = operator.registry.places.add(operator.registry.tenants.find(tenant), name)
    return Done(made, f"workspace {made.name} of tenant {tenant}, {made.handle} among processes")


@operation("workspace list")
def list_workspaces(operator: Operator, tenant: Whose) -> Done:
    """List the workspaces of a tenant."""
    found: list[PlaceFacts] = []
    whose = operator.registry.tenants.find(tenant)
    while part := operator.registry.places.all(whose.id, found[-1].place.name if found else "", _AT_ONCE):
        found += part
    now, rows = utc_now(), list[tuple[object, ...]]()
    for one in found:
        state = "owned" if one.owned else "queued" if one.queued else "rests"
        if one.failures:
            state = f"failed {counted(one.failures, 'time')}: {one.problem}"
        committed = ago(one.committed_at, now) if one.committed_at is not None else "never"
        place, number = one.place, str(one.generation)
        rows.append((place.name, place.handle, number, one.bytes, committed, one.waiting, state))
    none = f"tenant {tenant} has no workspace yet; 'dreamd fleet workspace add {tenant} NAME' makes one"
    return _listing(found, "workspace,number,generation,bytes,committed,waiting,state", rows, none)


@operation("workspace remove")
def remove_workspace(operator: Operator, tenant: Whose, name: OldName, yes: Yes = False) -> Done:  # noqa: FBT002
    """Delete a workspace, with a receipt."""
    return _removed(operator, tenant, name, yes=yes)


def _to_remove(operator: Operator, tenant: str, workspace: str) -> "tuple[Tenant | Place, bool]":
    """Return the tenant or its workspace, and whether its removal was begun before. Raise NotFoundError."""
    try:
        return (_place(operator, tenant, workspace) if workspace else operator.registry.tenants.find(tenant)), False
    except NotFoundError:
        named = f"workspace {workspace} of tenant {tenant}" if workspace else f"tenant {tenant}"
        for one in operator.registry.removals.closed():
            if one.named == named:
                return one, True
        raise


def _place(operator: Operator, tenant: str, name: str) -> "Place":
    """Return the workspace of this tenant. Raise NotFoundError."""
    whose = operator.registry.tenants.find(tenant)
    try:
        return operator.registry.places.find(whose.id, name).place
    except NotFoundError as error:
        advice = f"see 'dreamd fleet workspace list {tenant}'"
        raise NotFoundError(f"tenant {tenant} has no workspace {name[:60]!r}", advice) from error


@operation("export")
def export(
    operator: Operator,
    tenant: Whose,
    workspace: OldName,
    file: Annotated[str, Arg("a new file (else WORKSPACE-DATE-TIME.dreamd.db here)", place=True)] = "",
) -> Done:
    """Write a workspace into one file, as 'dreamd export' does."""
    from daemon.fleet.upkeep.archives import export_place, require_new

    target = Path(os.path.realpath(file or f"{workspace}-{time.strftime('%Y%m%d-%H%M%S')}.dreamd.db"))
    require_new(target)
    with own_folder(operator.config, os.environ, "upkeep") as own, spinner("exporting…"):
        done = export_place(operator.fleet, operator.config, _place(operator, tenant, workspace), target, own)
    parts = [f"generation {done.generation}", *([f"{counted(done.inbox, 'note')} of the inbox"] * bool(done.inbox))]
    parts += [counted(done.archive.version, "version"), counted(done.archive.crystals, "crystal")]
    return Done(done, f"{done.archive.path}: {', '.join(parts)}, {done.archive.bytes:,} bytes")


@operation("import")
def import_(
    operator: Operator,
    tenant: Annotated[str, Arg("whose it is to be")],
    name: Annotated[str, Arg("of the workspace: a new one, or one that never held anything")],
    file: Annotated[str, Arg("an archive of 'dreamd export' or 'dreamd fleet export'")],
) -> Done:
    """Make a workspace of such a file."""
    from daemon.fleet.upkeep.archives import import_place

    if not Path(file).exists():
        raise NotFoundError(f"there is no file {file}", "name an archive of 'dreamd export'")
    with own_folder(operator.config, os.environ, "upkeep") as own, spinner("importing…"):
        done = import_place(operator.fleet, operator.registry.tenants.find(tenant), name, Path(file), own)
    archive, beside = done.archive, ""
    if archive.missing:
        missing = counted(len(archive.missing), "version")
        beside = f"notice: {missing} had no record: they can be neither shown nor restored"
    what = f"{counted(archive.version, 'version')}, {counted(archive.crystals, 'crystal')}, {done.bytes:,} bytes"
    at = f"as of {archive.at:%Y-%m-%d %H:%M:%S} UTC"
    return Done(done, f"workspace {done.workspace} of tenant {done.tenant} ({done.handle}): {what}, {at}", beside)


# ------------------------------------------------------------------- recovery

_OLDER = "where the newest generation is not whole in the store, go back to an older one; what came since is lost"


@operation("recover")
def recover(
    operator: Operator,
    only_list: Annotated[bool, Arg("show what would be done, and change nothing", alias="list")] = False,  # noqa: FBT002
    older: Annotated[bool, Arg(_OLDER)] = False,  # noqa: FBT002
) -> Done:
    """Make what the database lacks of the object store, after it was lost or restored."""
    from daemon.fleet.upkeep.recovery import Finding, Found, Survey, require_stopped

    every = list[Found]()
    with closing(connect_to_recover(operator.config, os.environ)) as fleet:
        survey = Survey(fleet, older)
        if not only_list:
            require_stopped(fleet)
            adopt_store(fleet, operator.config.fleet.objects)
        for one in survey.found() if only_list else survey.recover():
            every.append(one)
            if not operator.as_json and one.finding is not Finding.CURRENT:
                out(_found_text(one))
    kinds = ["recovered" if one.done else one.finding.value for one in every]
    wrong = [one for one in every if one.finding is not Finding.CURRENT]
    counts = {one: kinds.count(one) for one in dict.fromkeys(kinds)}
    beside = f"{counted(len(every), 'workspace')}: " + ", ".join(
        f"{number:,} {what}" for what, number in counts.items()
    )
    if only_list:
        beside += "\nnothing was changed"
    elif counts.get("recovered"):
        beside += (
            "\nnotice: quotas and tokens are as the database has them; 'dreamd fleet tenant list' shows the quotas"
        )
    is_wrong = any(one.problem and one.finding is not Finding.UNNAMED for one in wrong)
    done = {"workspaces": wrong, "counts": counts, "changed": not only_list}
    return Done(done, "", beside, int(is_wrong))


def _found_text(one: "Found") -> str:
    name = f"{one.tenant}/{one.workspace}" if one.workspace else "?"
    text = f"{name:<24} {one.prefix:<12} {one.finding.value:<9} row {one.row}, store {one.store}"
    if one.done:
        text += ": made" if one.finding.value == "missing" else f": went back to {one.store}"
    return f"{text}: {one.problem}" if one.problem else text


# ------------------------------------------------------------------- the command

ACTS: dict[str, AnyOperation] = {one.name: one for one in operations_in(globals())}


def plain(words: Sequence[str]) -> argparse.Namespace | None:
    """Parse the words of an act; return None if they begin with none."""
    act = next((act for act in ACTS.values() if [*words[: len(act.name.split())]] == act.name.split()), None)
    if act is None:
        return None
    taken = [argument_of(one) for one in act.parameters if one.name != "quotas"]
    if len(taken) < len(act.parameters):
        for name, about in _QUOTAS.items():
            kind = float if name == "usd_per_day" else int
            option = f"--{name.replace('_', '-')}"
            taken.append(arg(option, type=kind, metavar="N", help=f"{about}; 0: no limit"))
    parser = parser_of(f"dreamd fleet {act.name}", act.summary, [*taken, CONFIG, JSON])
    arguments = parser.parse_intermixed_args(words[len(act.name.split()) :])
    arguments.act = act
    return arguments


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument ACT, and list all acts in the help."""
    width = max(map(len, ACTS))
    rows = "\n".join(f"  {name:<{width}}  {act.summary}" for name, act in ACTS.items())
    parser.epilog = f"acts:\n{rows}\n\n'dreamd fleet ACT --help' says more of each; {parser.epilog}"
    about = "what to do, with its own words and options behind it"
    for one in (arg("act", nargs="*", metavar="ACT", help=about), CONFIG, JSON):
        add_argument(parser, one)


def run(arguments: argparse.Namespace) -> int:
    """Run the act, and print its result. Raise UsageError if there is no such act."""
    act = arguments.act
    if not isinstance(act, Operation):
        raise _no_act(act)
    values = fields_of(arguments_of(act), arguments)
    if any(one.name == "quotas" for one in act.parameters):
        values["quotas"] = {name: number for name in _QUOTAS if (number := getattr(arguments, name)) is not None}
    require_installed()
    with closing(Operator(config_of(arguments), as_json=arguments.json)) as operator:
        done: Done = act.run(operator, **values)
    if arguments.json and done.value is not None:
        show_json(done.value)
        return done.status
    if done.text:
        show(done.text)
    if done.beside:
        say(done.beside)
    return done.status


def _no_act(words: Sequence[str]) -> UsageError:
    if not words:
        return UsageError("'dreamd fleet' needs to know what to do, as in 'dreamd fleet status'", _LISTED)
    if acts := [act for act in ACTS if act.split()[0] == words[0]]:
        lacks = f"has no {words[1]!r}" if words[1:] else "lacks a word"
        known = ", ".join(f"dreamd fleet {act}" for act in acts)
        return UsageError(f"'dreamd fleet {words[0]}' {lacks}", f"it is one of: {known}")
    near = did_you_mean(" ".join(words[:2]), (*ACTS, *(act.split()[0] for act in ACTS)))
    return UsageError(f"there is no 'dreamd fleet {' '.join(words)}'{near}", _LISTED)
