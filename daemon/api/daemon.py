"""DaemonApi: the daemon as its HTTP application and its MCP endpoint use it, and what it says about itself."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from daemon.api.access import WorkspaceAccess
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
        """The current configuration; SIGHUP may change it."""

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

    def keeps(self, name: str) -> bool:
        """Tell whether a workspace of this name is known."""

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
    notices: tuple[str, ...] = ()


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
