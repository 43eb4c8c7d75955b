"""Keeping: who dreams in a workspace from now on: the running daemon, the next one, or none."""

import os
from contextlib import suppress

from daemon.api.client import NoDaemonError, daemon
from daemon.config import registry
from daemon.config.paths import registry_path
from state.errors import UnknownWorkspaceError
from state.stores.disk.workspace import Workspace


def keep(workspace: Workspace, *, wanted: bool) -> bool:
    """Register the workspace with the running daemon, or for the next one; return whether one keeps it now.

    Not `wanted`: no daemon keeps it, whoever asks, until 'dreamd init' runs without `--no-daemon`.
    """
    client = daemon()
    if not wanted:
        registry.exclude(registry_path(os.environ), workspace.root)
        if client is not None:
            with suppress(NoDaemonError, UnknownWorkspaceError):
                client.post("/v1/release", {"name": registry.name_of(workspace.root)})
        return False
    if client is not None:
        with suppress(NoDaemonError):
            client.post("/v1/register", {"path": str(workspace.root)})
            return True
    registry.add(registry_path(os.environ), workspace.root)
    return False
