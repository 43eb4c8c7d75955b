"""The status of a fleet: its processes, its work, its money, and a line for each problem."""

import argparse
from typing import TYPE_CHECKING

from daemon.api.text import counted, duration
from daemon.cli.fleet.connected import database_of
from daemon.cli.terminal import out, show_json, show_table

if TYPE_CHECKING:
    from daemon.fleet.upkeep.status import FleetStatus
    from state.stores.fleet.processes import Process


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--oldest-minutes",
        type=float,
        metavar="N",
        help="what waits in an inbox for longer is a problem (else six passes and a tenth of dream.interval_minutes)",
    )


def _run(arguments: argparse.Namespace) -> int:
    from daemon.fleet.upkeep.status import fleet_status

    with database_of(arguments) as (config, database):
        status = fleet_status(database, config, arguments.oldest_minutes)
    show_json(status) if arguments.json else show(status)
    return 1 if status.problems else 0


def show(status: "FleetStatus") -> None:
    """Print the status."""
    counts, inbox, spent, ceilings = status.counts, status.inbox, status.spent, status.ceilings
    work = [f"{counts.due:,} due", f"{counts.queued:,} queued", f"{counts.running:,} running"]
    behind = f" of {counted(inbox.workspaces, 'workspace')}, the oldest for {duration(inbox.oldest_seconds)}"
    usd = f" of ${ceilings.usd_per_day:,.2f}" if ceilings.usd_per_day else ""
    tokens = f" of {ceilings.tokens_per_day:,}" if ceilings.tokens_per_day else ""
    rows = [
        ("database", status.database),
        ("objects", status.objects),
        ("workspaces", f"{counts.workspaces:,}, {counts.owned:,} owned, {counts.bytes:,} bytes"),
        ("work", f"{', '.join(work)}, {counts.failing:,} failing"),
        ("sweep", f"{duration(counts.lag_seconds)} behind"),
        ("inbox", f"{inbox.waiting:,} waiting{behind}" if inbox.waiting else "empty: every generation is current"),
        ("spent today", f"${spent.usd:,.4f}{usd}, {spent.tokens:,}{tokens} tokens, {counted(spent.dreams, 'dream')}"),
    ]
    if spent.usd or spent.tokens:
        rows += [
            ("", f"{one.tenant}: ${one.usd:,.4f}, {one.tokens:,} tokens, {counted(one.dreams, 'dream')}")
            for one in status.spenders
        ]
    if removing := status.removing.tenants + status.removing.workspaces:
        rows += [("removing", f"{counted(removing, 'removal')} not finished")]
    for name, text in rows:
        out(f"{name:<12} {text}")
    out("")
    if status.processes:
        columns = ("process", "state", "last word", "owned", "dreaming", "slots", "version", "address", "host")
        show_table(columns, [_row(one) for one in status.processes if one.alive])
        if dead := sum(not one.alive for one in status.processes):
            out(f"{dead:,} {'process' if dead == 1 else 'processes'} died in the last hour")
    else:
        out("no process is known")
    for one in status.failing:
        out(
            f"failing      {one.tenant}/{one.workspace} ({one.handle}), {one.failures} in a row: {one.problem}",
            "yellow",
        )
    for problem in status.problems:
        out(f"problem      {problem}", "red")


def _row(one: "Process") -> tuple[str, ...]:
    return (
        one.kind,
        "draining" if one.draining else "alive",
        f"{duration(one.silent_seconds)} ago",
        str(one.owned),
        str(one.dreaming),
        str(one.slots),
        one.version,
        one.address,
        one.host,
    )


ACTS = {"status": (_add, _run)}
