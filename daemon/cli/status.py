"""Show how a workspace is: pending notes, the last and the next dream, crystals, spend, problems; or the daemon."""

import argparse
import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from daemon.cli.parsing import config_of, named_folder, takes_folder, workspace_of
from daemon.cli.terminal import ago, counted, duration, out, show_json
from state.errors import NotKeptError, UnknownWorkspaceError, UsageError
from state.stores.disk.lock import is_stopped, present_holder
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.daemon import DaemonStatus
    from daemon.workspace.database_facts import LastDream
    from daemon.workspace.status import Spending, Status
    from state.stores.history.bootstraps import BootstrapReceipt

# A stopped daemon would not answer in thirty seconds either.
_STATUS_SECONDS = 2.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: which workspace."""
    takes_folder(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the status, also while a dream runs; outside a workspace that of the daemon and all it keeps."""
    try:
        workspace = workspace_of(arguments)
    except UsageError:
        if named_folder(arguments) is not None or (overview := _daemon_status()) is None:
            raise
        show_json(overview) if arguments.json else _show_daemon(overview)
        return 0
    value = _status(workspace, arguments)
    show_json(value) if arguments.json else _show(value)
    return 0


def _status(workspace: Workspace, arguments: argparse.Namespace) -> "Status":
    """Return the daemon's status, which says when the next dream is; else the one that the files give.

    A daemon that does not answer within two seconds is a problem of the status that the files give.
    """
    from daemon.api.client import LostError, NoDaemonError, daemon
    from daemon.workspace.status import Problem, Status, status
    from state.codec import decode

    client = None if is_stopped(present_holder(workspace)) else daemon()
    silent: tuple[Problem, ...] = ()
    if client is not None:
        try:
            answer = client.status(workspace.root, _STATUS_SECONDS)
            return decode(Status, json.dumps(answer), "the daemon's answer")
        except LostError as error:
            silent = (Problem.of(error),)
        except (NoDaemonError, UnknownWorkspaceError, NotKeptError):
            pass  # the daemon does not keep it: the files say all there is
    value = status(workspace, config_of(arguments), datetime.now(UTC))
    return replace(value, problems=(*silent, *value.problems))


def _daemon_status() -> "DaemonStatus | None":
    """Return the daemon and its workspaces; None if no daemon runs."""
    from daemon.api.client import NoDaemonError, daemon
    from daemon.api.daemon import DaemonStatus
    from state.codec import decode

    client = daemon()
    if client is not None:
        with suppress(NoDaemonError):
            return decode(DaemonStatus, json.dumps(client.get("/v1/status", _STATUS_SECONDS)), "the daemon's answer")
    return None


def _show_daemon(overview: "DaemonStatus") -> None:
    daemon = overview.daemon
    out(f"{'daemon':<12} process {daemon.pid}, version {daemon.version}, since {daemon.since:%Y-%m-%d %H:%M} UTC")
    out(f"{'listens at':<12} {daemon.socket}" + (f" and {daemon.http}" if daemon.http else ""))
    out(f"{'dreams':<12} {daemon.dreaming} running, {daemon.waiting} waiting")
    for problem in daemon.problems:
        out(f"{'problem':<12} {problem}", "red")
    for kept in daemon.workspaces:
        if kept.problem is not None:
            out(f"{'refused':<12} {kept.root}: {kept.problem}", "red")
    if waiting := sum(not one.kept and one.problem is None for one in daemon.workspaces):
        out(f"{'starting':<12} {counted(waiting, 'workspace')} of {len(daemon.workspaces)} yet to be taken up")
    for value in overview.workspaces:
        out("")
        _show(value)


def _show(value: "Status") -> None:
    notes = f"{value.pending.notes:,}+ notes" if value.pending.more else counted(value.pending.notes, "note")
    count = f"{notes} pending"
    waits = f", the oldest for {duration(value.pending.oldest_seconds)}" if value.pending.notes else ""
    kinds = ", ".join(f"{number} {stage}" for stage, number in value.crystals.items())
    waiting = f"; {value.waiting_embeddings} wait for an embedding" if value.waiting_embeddings else ""
    rows = [
        ("workspace", value.workspace),
        ("MEMORY.md", f"version {value.version}, {value.characters:,} characters"),
        ("last dream", _dream(value.last_dream, value.at)),
        ("next dream", _next(value)),
        ("bootstrap", _given(value.last_bootstrap, value.at)),
        ("notes", count + waits),
        ("crystals", f"{sum(value.crystals.values()):,}" + (f" ({kinds})" if kinds else "") + waiting),
        ("spent today", _spent(value.spending)),
        ("spent by all", _spent_by_all(value.spending)),
    ]
    rows += [("withheld", f"{counted(value.withheld, 'text')}: forgotten")] if value.withheld else []
    rows += [("breaker", f"open: {value.spending.breaker}")] if value.spending.breaker else []
    if value.service is not None:
        since = f"{value.service.since:%Y-%m-%d %H:%M} UTC"
        rows += [("daemon", f"process {value.service.pid}, since {since}")]
    elif value.holder:
        rows += [("held by", str(value.holder))]
    rows += [("proposal", f"{dream} waits; 'dreamd review' shows it") for dream in value.proposals]
    rows += [("review", _to_review(value))] if value.changes.waiting else []
    for name, text in rows:
        out(f"{name:<12} {text}")
    for refusal in value.rejections:
        out(f"{'refused':<12} {refusal.guard} ({refusal.scope}): {refusal.figures}", "yellow")
    for problem in value.problems:
        out(f"{'problem':<12} {problem}", "red")


def _to_review(value: "Status") -> str:
    waiting = value.changes.waiting
    verb, them = ("waits", "it") if waiting == 1 else ("wait", "them")
    return f"{counted(waiting, 'change')} {verb}; 'dreamd review' shows {them}"


def _dream(last: "LastDream | None", now: datetime) -> str:
    if last is None:
        return "never"
    parts = [f"{ago(last.at, now)}, {last.reason}: {last.outcome}"]
    parts += [f"version {last.version}"] if last.version else []
    parts += [last.model] if last.model else []
    parts += [f"{last.tokens:,} tokens, ${last.usd:.4f}"] if last.tokens else []
    parts += [last.detail] if last.detail else []
    return ", ".join(parts)


def _given(last: "BootstrapReceipt | None", now: datetime) -> str:
    """Say what an agent was last given at session start."""
    if last is None:
        return "no agent has read it yet ('dreamd init' shows how to connect one)"
    how = f"{last.how} ({last.agent})" if last.agent else last.how
    parts = [f"{ago(last.at, now)}, {how}: version {last.version}", f"{last.characters:,} characters"]
    parts += [counted(last.notes, "note")]
    parts += [f"{'more than ' if last.more else ''}{last.left_out} left out"] if last.left_out or last.more else []
    cut = last.cut.budget + last.cut.host
    lines = f", {counted(cut, 'line')} left out ('dreamd why-not' says why)" if cut else ""
    parts += [f"MEMORY.md cut to {last.budget:,}{lines}"] if last.truncated else []
    parts += (
        [f"{counted(last.cut.everywhere, 'line')} of the global workspace left out"] if last.cut.everywhere else []
    )
    return ", ".join(parts)


def _next(value: "Status") -> str:
    service = value.service
    if service is None or service.at is None or service.dreaming:
        return value.next_dream
    seconds = (service.at - value.at).total_seconds()
    return f"{'now' if seconds < 1 else f'in {duration(seconds)}'}: {service.upcoming}"


def _spent(spending: "Spending") -> str:
    return (
        f"${spending.usd:.4f} of ${spending.usd_per_day:.2f}, "
        f"{spending.tokens:,} of {spending.tokens_per_day:,} tokens, {counted(spending.calls, 'call')}"
    )


def _spent_by_all(spending: "Spending") -> str:
    return (
        f"${spending.all_usd:.4f} of ${spending.all_usd_per_day:.2f}, "
        f"{spending.all_tokens:,} of {spending.all_tokens_per_day:,} tokens, over all workspaces"
    )
