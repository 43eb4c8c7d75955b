"""DaemonApi: the daemon as its HTTP application and its MCP endpoint use it; the operations on the daemon itself."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import AnyOperation, Arg, operation, operations_in
from daemon.api.text import daemon_text
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.workspace.status import Problem, Status
from state.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from daemon.observability.metrics import Metrics

# Where agents find MCP, beside the operations under /v1.
MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class WorkspaceInfo:
    """A workspace that the daemon knows. `name` stands in addresses; `problem`: why it is not kept.

    `kept`: the daemon has taken it up. Without a problem and not kept it is yet to be.
    """

    name: str
    root: str
    problem: Problem | None
    kept: bool = True


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """The daemon and its workspaces. `dreaming` and `waiting` count dreams that run and that wait for a slot."""

    version: str
    pid: int
    since: datetime
    at: datetime
    socket: str
    http: str
    dreaming: int
    waiting: int
    workspaces: tuple[WorkspaceInfo, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """Return the daemon, and the status of each workspace that can be read."""

    daemon: DaemonInfo
    workspaces: tuple[Status, ...]


class DaemonApi(Protocol):
    """What the HTTP application and the MCP endpoint need of the daemon. Any thread may call any method."""

    @property
    def config(self) -> Config:
        """Return the current configuration; SIGHUP may change it."""

    @property
    def metrics(self) -> "Metrics": ...

    def info(self) -> DaemonInfo:
        """Return the daemon and the workspaces that it knows."""

    def status(self) -> DaemonStatus:
        """Return the daemon, and the status of every workspace that can be read."""

    def register(self, root: Path) -> str:
        """Keep the workspace at this root from now on, also after a restart, and return its name.

        Raise UsageError, and ForeignError for somebody else's workspace.
        """

    def unregister(self, name: str) -> None:
        """Stop keeping this workspace; nothing in it changes. Raise NotFoundError."""

    def open(self, name: str, on_step: Callable[[Step], None]) -> AbstractContextManager[WorkspaceAccess]:
        """Give access to this workspace for one call. Raise UnknownWorkspaceError, NotKeptError."""

    def meant(self, given: str) -> str:
        """Return the workspace that a path of MCP names; the only one needs none. Raise UsageError, NotFoundError."""

    def pulse(self, name: str) -> str:
        """Return a text that differs whenever something about this workspace (empty: about any) may have changed.

        It is made of what is in memory, at once. Raise UnknownWorkspaceError.
        """

    def unready_reason(self) -> str:
        """Say why the daemon does not serve yet; empty if it does."""


@dataclass(frozen=True, slots=True)
class DaemonCall:
    """The daemon, for one call of it by an operation of its own.

    `link` makes a link that logs a browser in, once and within a minute, and leads there.
    """

    api: DaemonApi
    link: Callable[[str], str]


def meant(given: str, names: Sequence[str]) -> str:
    """Return the one of these names that a path of MCP names; the only one needs no name.

    Raise UsageError, and NotFoundError when none is.
    """
    if given in names:
        return given
    if not given and len(names) == 1:
        return names[0]
    known = f"there are {', '.join(names)}" if names else "there is none; 'dreamd init' makes one"
    if not given:
        raise UsageError(f"which workspace is meant? ask at {MCP_PATH}/NAME", known)
    raise NotFoundError(f"there is no workspace {given[:100]!r}", known)


@operation("workspaces", reads=True)
def workspaces(call: DaemonCall) -> DaemonInfo:
    """Return the workspaces that the daemon knows, and the daemon itself."""
    return call.api.info()


@operation("status", reads=True, text=daemon_text)
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
