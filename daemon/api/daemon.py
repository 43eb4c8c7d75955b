"""DaemonApi: the daemon's interface for its HTTP application and MCP endpoint; operations on the daemon itself."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import AnyOperation, Arg, operation, operations_in
from daemon.api.operations.setup import LONGEST_KEY, Configuration, in_force
from daemon.api.shapes import facts
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.workspace.adoption import find_workspace
from daemon.workspace.status import Problem, Status
from state.errors import NotFoundError, UsageError
from state.text.words import counted

if TYPE_CHECKING:
    from daemon.observability.metrics import Metrics

# The path of MCP, beside the operations under /v1.
MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class WorkspaceInfo:
    """A workspace that the daemon knows. `name` is its name in URLs; `problem`: why it is not kept.

    `kept`: the daemon has opened it. Without `problem` and `kept` it is about to be opened.
    """

    name: str
    root: str
    problem: Problem | None
    kept: bool = True


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """The daemon and its workspaces. `dreaming` counts running dreams, `waiting` those that wait for a slot."""

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
    """The daemon, and the status of each readable workspace."""

    daemon: DaemonInfo
    workspaces: tuple[Status, ...]


class DaemonApi(Protocol):
    """The interface of the daemon for its HTTP application and MCP endpoint. Any thread may call any method."""

    @property
    def config(self) -> Config:
        """Return the current configuration, which SIGHUP may replace."""

    @property
    def metrics(self) -> "Metrics": ...

    def info(self) -> DaemonInfo:
        """Return the daemon and the workspaces that it knows."""

    def status(self) -> DaemonStatus:
        """Return the daemon, and the status of every workspace that can be read."""

    def register(self, root: Path) -> str:
        """Keep the workspace at this root from now on, even after a restart, and return its name.

        Raise UsageError, and ForeignError for another user's workspace.
        """

    def unregister(self, name: str) -> None:
        """Stop keeping this workspace; nothing in it changes. Raise NotFoundError."""

    def open(self, name: str, on_step: Callable[[Step], None]) -> AbstractContextManager[WorkspaceAccess]:
        """Open an access to this workspace for one call. Raise UnknownWorkspaceError and NotKeptError."""

    def meant(self, given: str) -> str:
        """Return the workspace for an MCP path, which may omit the name of the only one; raise as `meant` below."""

    def pulse(self, name: str) -> str:
        """Return a text that changes whenever this workspace (empty: any) may have changed.

        It never blocks, as it uses only memory. Raise UnknownWorkspaceError.
        """

    def unready_reason(self) -> str:
        """Return why the daemon does not serve yet; empty if it does."""

    def reload(self) -> None:
        """Read the configuration again. If it is invalid, raise ConfigError and keep the old one."""


@dataclass(frozen=True, slots=True)
class DaemonCall:
    """The daemon during one call of an operation on itself.

    `link` returns a link to this page that logs a browser in once, within a minute.
    """

    api: DaemonApi
    link: Callable[[str], str]


def meant(given: str, names: Sequence[str]) -> str:
    """Return the workspace that an MCP path gives, if it is among these names; without one the only workspace.

    Raise UsageError if a name is needed, and NotFoundError if it is unknown.
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


def daemon_text(overview: DaemonStatus) -> str:
    """Describe the daemon, and each workspace that it keeps."""
    from daemon.api.operations.dreams import status_text  # late: an idle daemon saves the memory of its imports

    daemon = overview.daemon
    waiting = sum(not one.kept and one.problem is None for one in daemon.workspaces)
    about = facts(
        ("daemon", f"process {daemon.pid}, version {daemon.version}, since {daemon.since:%Y-%m-%d %H:%M %Z}"),
        ("listens at", daemon.socket + (f" and {daemon.http}" if daemon.http else "")),
        ("dreams", f"{daemon.dreaming} running, {daemon.waiting} waiting"),
        *(("problem", one) for one in daemon.problems),
        *(("refused", f"{kept.root}: {kept.problem}") for kept in daemon.workspaces if kept.problem is not None),
        ("starting", waiting and f"{counted(waiting, 'workspace')} of {len(daemon.workspaces)} yet to be taken up"),
    )
    return "\n\n".join([about, *map(status_text, overview.workspaces)])


@operation("status", reads=True, text=daemon_text)
def status(call: DaemonCall) -> DaemonStatus:
    """Return how the daemon and every workspace is."""
    return call.api.status()


@dataclass(frozen=True, slots=True)
class Named:
    """The name of a workspace in URLs."""

    name: str


@operation("register", remote=False)
def register(
    call: DaemonCall, path: Annotated[str, Arg("Its root, absolute", min_length=1, max_length=4_096)]
) -> Named:
    """Look after a workspace from now on."""
    if not path.startswith("/") or "\0" in path:
        raise UsageError(f"{path!r} is no absolute path", "name the workspace from the root on")
    return Named(call.api.register(Path(path)))


@dataclass(frozen=True, slots=True)
class Located:
    """A workspace's name in URLs and its root."""

    name: str
    root: str


@operation("find", remote=False)
def find(_: DaemonCall, folder: Annotated[str, Arg("A folder, absolute", min_length=1, max_length=4_096)]) -> Located:
    """Return the workspace of a folder, for a program that only knows where it runs."""
    if not folder.startswith("/") or "\0" in folder:
        raise UsageError(f"{folder!r} is no absolute path", "name the folder from the root on")
    workspace = find_workspace(Path(folder))
    return Located(workspace.name, str(workspace.root))


@operation("release", remote=False)
def release(
    call: DaemonCall,
    name: Annotated[str, Arg("As 'workspaces' lists it", min_length=1, max_length=48, pattern="^[a-z0-9-]+$")],
) -> Named:
    """Look after a workspace no more; nothing in it is changed."""
    call.api.unregister(name)
    return Named(name)


@operation("reload", remote=False)
def reload(
    call: DaemonCall, key: Annotated[str, Arg("A key to return; empty: all", max_length=LONGEST_KEY)] = ""
) -> Configuration:
    """Read the configuration again, and return it as it is in force from now on."""
    call.api.reload()
    return in_force(call.api.config, key)


@dataclass(frozen=True, slots=True)
class Link:
    """The URL for a browser to open."""

    url: str


@operation("login", remote=False)
def login(
    call: DaemonCall,
    workspace: Annotated[
        str, Arg("The workspace to look at; empty: all of them", max_length=48, pattern="^[a-z0-9-]*$")
    ] = "",
) -> Link:
    """Return a link that logs a browser in, once and within a minute."""
    return Link(call.link(f"/w/{workspace}/today" if workspace else "/"))


HOUSEHOLD: dict[str, AnyOperation] = {one.name: one for one in operations_in(globals())}
