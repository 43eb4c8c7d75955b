"""Show how a workspace is: pending notes, the last and the next dream, crystals, spend, problems; or the daemon."""

import argparse
import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from daemon.api.text import counted, status_text
from daemon.cli.parsing import config_of, named_folder, takes_folder, workspace_of
from daemon.cli.terminal import out, show_json
from state.errors import NotKeptError, UnknownWorkspaceError, UsageError
from state.stores.disk.lock import is_stopped, present_holder
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.daemon import DaemonStatus
    from daemon.workspace.status import Status

_STYLES = {"problem": "red", "refused": "yellow"}
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
    for row in status_text(value).split("\n"):
        out(row, _STYLES.get(row.partition(" ")[0], ""))
