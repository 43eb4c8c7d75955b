"""Texts of a fleet's acts: what each prints of what came of it."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from daemon.api.text import ago, counted, duration
from daemon.cli.terminal import out, say, show_table
from daemon.workspace.stores import utc_now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.fleet.upkeep.archives import ExportedPlace, ImportedPlace
    from daemon.fleet.upkeep.recovery import Found
    from daemon.fleet.upkeep.removal import Receipt
    from daemon.fleet.upkeep.status import FleetStatus
    from state.fleet.tenant import Quotas, Tenant
    from state.fleet.workspace import Place
    from state.stores.fleet.places import PlaceFacts
    from state.stores.fleet.tenants import TenantFacts, TokenFacts

Given = argparse.Namespace


def workspaces(count: int) -> str:
    """Return so many workspaces, in words."""
    return counted(count, "workspace")


def show_status(status: "FleetStatus", _: Given) -> None:
    """Print the status."""
    counts, inbox, spent, ceilings = status.counts, status.inbox, status.spent, status.ceilings
    behind = f" of {workspaces(inbox.workspaces)}, the oldest for {duration(inbox.oldest_seconds)}"
    usd = f" of ${ceilings.usd_per_day:,.2f}" if ceilings.usd_per_day else ""
    tokens = f" of {ceilings.tokens_per_day:,}" if ceilings.tokens_per_day else ""
    rows = [
        ("database", status.database),
        ("objects", status.objects),
        ("workspaces", f"{counts.workspaces:,}, {counts.owned:,} owned, {counts.bytes:,} bytes"),
        (
            "work",
            f"{counts.due:,} due, {counts.queued:,} queued, {counts.running:,} running, {counts.failing:,} failing",
        ),
        ("sweep", f"{duration(counts.lag_seconds)} behind"),
        ("inbox", f"{inbox.waiting:,} waiting{behind}" if inbox.waiting else "empty: every generation is current"),
        ("spent today", f"${spent.usd:,.4f}{usd}, {spent.tokens:,}{tokens} tokens, {counted(spent.dreams, 'dream')}"),
    ]
    for one in status.spenders if spent.usd or spent.tokens else ():
        rows += [("", f"{one.tenant}: ${one.usd:,.4f}, {one.tokens:,} tokens, {counted(one.dreams, 'dream')}")]
    if removing := status.removing.tenants + status.removing.workspaces:
        rows += [("removing", f"{counted(removing, 'removal')} not finished")]
    for name, text in rows:
        out(f"{name:<12} {text}")
    out("")
    _show_processes(status)
    for failing in status.failing:
        where = f"{failing.tenant}/{failing.workspace} ({failing.handle})"
        out(f"failing      {where}, {failing.failures} in a row: {failing.problem}", "yellow")
    for problem in status.problems:
        out(f"problem      {problem}", "red")


def _show_processes(status: "FleetStatus") -> None:
    if not status.processes:
        out("no process is known")
        return
    columns = ("process", "state", "last word", "owned", "dreaming", "slots", "version", "address", "host")
    rows = [
        (
            one.kind,
            "draining" if one.draining else "alive",
            f"{duration(one.silent_seconds)} ago",
            *(str(number) for number in (one.owned, one.dreaming, one.slots)),
            one.version,
            one.address,
            one.host,
        )
        for one in status.processes
        if one.alive
    ]
    show_table(columns, rows)
    if dead := len(status.processes) - len(rows):
        out(f"{dead:,} {'process' if dead == 1 else 'processes'} died in the last hour")


def _described(quotas: "Quotas") -> str:
    return ", ".join(f"{name} {value:,}" for name, value in asdict(quotas).items() if value) or "no quotas"


def show_new_tenant(tenant: "Tenant", _: Given) -> None:
    """Print its number and its quotas."""
    out(f"tenant {tenant.name}, number {tenant.id}: {_described(tenant.quotas)}")


def show_tenants(found: "Sequence[TenantFacts]", _: Given) -> None:
    """Print a table of them."""
    if not found:
        say("no tenant yet; 'dreamd fleet tenant add NAME' makes one")
        return
    columns = ("tenant", "since", "workspaces", "bytes", "dreams today", "tokens today", "spent today", "quotas")
    rows = [
        (
            one.tenant.name,
            f"{one.created_at:%Y-%m-%d}",
            *(f"{number:,}" for number in (one.workspaces, one.bytes, one.dreams, one.tokens)),
            f"${one.usd:,.4f}",
            "is being removed" if one.removed else _described(one.tenant.quotas),
        )
        for one in found
    ]
    show_table(columns, rows)


def show_quotas(tenant: "Tenant", _: Given) -> None:
    """Print each of them."""
    for name, value in asdict(tenant.quotas).items():
        out(f"{name:<20} {value or 'no limit'}")


def show_receipt(receipt: "Receipt", _: Given) -> None:
    """Print what was deleted."""
    whose = f"tenant {receipt.tenant}"
    rows = ", ".join(f"{name} {number:,}" for name, number in asdict(receipt.rows).items() if number)
    left = "nothing: the store was listed, the rows counted"
    if receipt.objects_left or receipt.rows_left:
        left = f"{counted(receipt.objects_left, 'object')}, {counted(receipt.rows_left, 'row')}: remove it again"
    for name, text in (
        ("removed", f"workspace {receipt.workspace} of {whose}" if receipt.workspace else whose),
        ("closed", f"{receipt.closed_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("deleted", f"{receipt.at:%Y-%m-%d %H:%M:%S} UTC"),
        ("workspaces", f"{receipt.workspaces:,}"),
        ("objects", f"{receipt.objects:,}, {receipt.bytes:,} bytes"),
        ("rows", f"{receipt.rows.all:,}" + (f" ({rows})" if rows else "")),
        ("left", left),
    ):
        out(f"{name:<12} {text}")


def show_new_token(made: "dict[str, Any]", _: Given) -> None:
    """Print the token, and what there is to know of it beside."""
    out(made["token"])
    until = f"; it works until {made['expires_at']:%Y-%m-%d %H:%M} UTC" if made["expires_at"] else ""
    say(f"this is the only time that it is shown{until}")


def show_tokens(found: "Sequence[TokenFacts]", given: Given) -> None:
    """Print a table of them."""
    if not found:
        say(f"tenant {given.tenant} has no token yet; 'dreamd fleet token add {given.tenant} NAME' makes one")
        return
    columns = ("token", "id", "rights", "workspaces", "since", "state")
    rows = [
        (one.name, one.id, ",".join(one.rights), ",".join(one.workspaces) or "all", f"{one.created_at:%Y-%m-%d}")
        for one in found
    ]
    show_table(columns, [(*row, _state(one)) for row, one in zip(rows, found, strict=True)])


def _state(one: "TokenFacts") -> str:
    if one.revoked_at is not None:
        return f"revoked {one.revoked_at:%Y-%m-%d}"
    if one.expires_at is None:
        return "works"
    return f"{'expired' if one.expires_at <= utc_now() else 'works until'} {one.expires_at:%Y-%m-%d}"


def show_revoked(done: "dict[str, Any]", _: Given) -> None:
    """Print that it is."""
    out(f"token {done['name']} of tenant {done['tenant']} is revoked; processes know within ten seconds")


def show_new_workspace(place: "Place", _: Given) -> None:
    """Print its number."""
    out(f"workspace {place.name} of tenant {place.tenant_name}, {place.handle} among processes")


def show_workspaces(found: "Sequence[PlaceFacts]", given: Given) -> None:
    """Print a table of them."""
    if not found:
        say(f"tenant {given.tenant} has no workspace yet; 'dreamd fleet workspace add {given.tenant} NAME' makes one")
        return
    now, rows = utc_now(), list[tuple[str, ...]]()
    for one in found:
        state = "owned" if one.owned else "queued" if one.queued else "rests"
        if one.failures:
            state = f"failed {counted(one.failures, 'time')}: {one.problem}"
        committed = ago(one.committed_at, now) if one.committed_at is not None else "never"
        number, size = str(one.generation.number), f"{one.bytes:,}"
        rows.append((one.place.name, one.place.handle, number, size, committed, str(one.waiting), state))
    show_table(("workspace", "number", "generation", "bytes", "committed", "waiting", "state"), rows)


def show_exported(done: "ExportedPlace", _: Given) -> None:
    """Print where it is and what it holds."""
    parts = [f"generation {done.generation}", *([f"{counted(done.inbox, 'note')} of the inbox"] * bool(done.inbox))]
    parts += [counted(done.archive.version, "version"), counted(done.archive.crystals, "crystal")]
    out(f"{done.archive.path}: {', '.join(parts)}, {done.archive.bytes:,} bytes")


def show_imported(done: "ImportedPlace", _: Given) -> None:
    """Print what came out of the archive."""
    what = f"{counted(done.archive.version, 'version')}, {counted(done.archive.crystals, 'crystal')}"
    at = f"as of {done.archive.at:%Y-%m-%d %H:%M:%S} UTC"
    if done.archive.missing:
        missing = counted(len(done.archive.missing), "version")
        say(f"notice: {missing} had no record: they can be neither shown nor restored")
    out(f"workspace {done.workspace} of tenant {done.tenant} ({done.handle}): {what}, {done.bytes:,} bytes, {at}")


def show_found(one: "Found") -> None:
    """Print one workspace that is not as it should be."""
    name = f"{one.tenant}/{one.workspace}" if one.workspace else "?"
    text = f"{name:<24} {one.prefix:<12} {one.finding.value:<9} row {one.row}, store {one.store}"
    if one.done:
        text += f": {'made' if not one.row and one.finding.value == 'missing' else 'brought up'}"
    if one.inbox:
        text += f", {counted(one.inbox, 'note')} of the inbox were in it"
    out(f"{text}: {one.problem}" if one.problem else text)


def show_recovered(done: "dict[str, Any]", _: Given) -> None:
    """Print how many there are of every kind."""
    counts = done["counts"]
    say(f"{workspaces(sum(counts.values()))}: " + ", ".join(f"{number:,} {what}" for what, number in counts.items()))
    if not done["changed"]:
        say("nothing was changed")
    elif counts.get("recovered"):
        say("notice: quotas and tokens are as the database has them; 'dreamd fleet tenant list' shows the quotas")
