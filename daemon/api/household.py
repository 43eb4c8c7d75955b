"""Operations on the daemon itself: what it keeps, what it shall keep from now on, and a link to its window."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from daemon.api.daemon import DaemonCall, DaemonInfo, DaemonStatus
from daemon.api.operations.operation import AnyOperation, Arg, operation, operations_in
from state.errors import UsageError


@operation("workspaces", reads=True)
def workspaces(call: DaemonCall) -> DaemonInfo:
    """Return the workspaces that the daemon knows, and the daemon itself."""
    return call.api.info()


@operation("status", reads=True)
def status(call: DaemonCall) -> DaemonStatus:
    """Return how the daemon and every workspace is."""
    return call.api.status()


@dataclass(frozen=True, slots=True)
class Named:
    """The name of a workspace, as it stands in addresses."""

    name: str


@operation("register", remote=False)
def register(
    call: DaemonCall, path: Annotated[str, Arg("Its root, absolute", min_length=1, max_length=4_096)]
) -> Named:
    """Look after a workspace from now on."""
    if not path.startswith("/") or "\0" in path:
        raise UsageError(f"{path!r} is no absolute path", "name the workspace from the root on")
    return Named(call.api.register(Path(path)))


@operation("release", remote=False)
def release(
    call: DaemonCall,
    name: Annotated[str, Arg("As 'workspaces' lists it", min_length=1, max_length=48, pattern="^[a-z0-9-]+$")],
) -> Named:
    """Look after a workspace no more; nothing in it is changed."""
    call.api.unregister(name)
    return Named(name)


@dataclass(frozen=True, slots=True)
class Link:
    """Where a browser is to go."""

    url: str


@operation("login", remote=False)
def login(
    call: DaemonCall,
    workspace: Annotated[
        str, Arg("The workspace to look at; empty: all of them", max_length=48, pattern="^[a-z0-9-]*$")
    ] = "",
) -> Link:
    """Return a link that logs a browser in, once and within a minute."""
    return Link(call.link(f"/w/{workspace}/now" if workspace else "/"))


HOUSEHOLD: dict[str, AnyOperation] = {one.name: one for one in operations_in(globals())}
