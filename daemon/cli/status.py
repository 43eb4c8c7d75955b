"""Show how a workspace is: pending notes, the last and the next dream, crystals, spend, problems; or the daemon."""

import argparse
import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from daemon.api.text import daemon_text, status_text
from daemon.cli.parsing import config_of, takes_folder, workspace_if_any, workspace_of
from daemon.cli.perform import show
from state.errors import NotKeptError, UnknownWorkspaceError
from state.stores.disk.lock import is_stopped, present_holder
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.api.daemon import DaemonStatus
    from daemon.workspace.status import Status

# A stopped daemon would not answer in thirty seconds either.
_STATUS_SECONDS = 2.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: which workspace."""
    takes_folder(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the status, also while a dream runs; outside a workspace that of the daemon and all it keeps."""
    workspace = workspace_if_any(arguments)
    if workspace is None and (overview := _daemon_status()) is not None:
        show(daemon_text, overview, as_json=arguments.json)
    else:
        show(status_text, _status(workspace or workspace_of(arguments), arguments), as_json=arguments.json)
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
