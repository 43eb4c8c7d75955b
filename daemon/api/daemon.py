"""The daemon as its windows see it: the workspaces that it keeps, and a desk at each of them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from daemon.api.access import WorkspaceAccess
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.workspace.status import Problem, Status

if TYPE_CHECKING:
    from daemon.observability.metrics import Metrics

# Where agents find MCP, beside the operations under /v1.
MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class WorkspaceInfo:
    """A workspace that the daemon knows. `name` is what it is called in addresses; `problem`: why it is not kept."""

    name: str
    root: str
    problem: Problem | None


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """All that the daemon knows of. `dreaming` and `waiting` count dreams that run and that wait for a slot."""

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
    """The daemon, and the status of each workspace that can be read."""

    daemon: DaemonInfo
    workspaces: tuple[Status, ...]


class DaemonApi(Protocol):
    """What the HTTP application and the MCP server are made over. Every method may be called from any thread."""

    @property
    def config(self) -> Config:
        """The configuration now; SIGHUP may change it."""

    @property
    def metrics(self) -> "Metrics": ...

    def household(self) -> DaemonInfo:
        """What there is."""

    def status(self) -> DaemonStatus:
        """How everything is."""

    def adopt(self, root: Path, *, trust: bool = False) -> str:
        """Keep the workspace with this root from now on (again after a restart); its name.

        `trust`: whoever asks has made or adopted it. Raises UsageError, and ForeignError for one of somebody else's.
        """

    def release(self, name: str) -> None:
        """Keep this workspace no more. Raises NotFoundError."""

    def desk(self, name: str, told: Callable[[Step], None]) -> AbstractContextManager[WorkspaceAccess]:
        """A desk at this workspace. Raises UnknownWorkspaceError, and NotKeptError for one that is not kept."""

    def unready(self) -> str:
        """Why the daemon does not serve yet; empty when it does."""
