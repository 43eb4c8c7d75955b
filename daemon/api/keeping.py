"""Keeping: who dreams in a workspace from now on: the running daemon, the next one, or none."""

from contextlib import suppress

from daemon.api.client import NoDaemonError, daemon
from state.errors import UnknownWorkspaceError
from state.stores.disk.places import keep_place
from state.stores.disk.workspace import Workspace


def keep(workspace: Workspace, *, wanted: bool) -> bool:
    """Have the daemon keep the workspace, the running one or the next; return whether one keeps it now.

    Not `wanted`: no daemon keeps it until 'dreamd init' runs without `--no-daemon`.
    """
    keep_place(workspace.state.parent, workspace.name, kept=wanted)
    if (client := daemon()) is None:
        return False
    with suppress(NoDaemonError, UnknownWorkspaceError):
        if wanted:
            client.post("/v1/register", {"path": str(workspace.root)})
        else:
            client.post("/v1/release", {"name": workspace.name})
        return wanted
    return False
