"""A real house without a daemon: workspaces on disk, each call with an access of its own that takes the lock."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from daemon.api.access import LocalAccess, WorkspaceAccess
from daemon.api.daemon import DaemonInfo, DaemonStatus, WorkspaceInfo, meant
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.observability.metrics import Metrics
from daemon.workspace.adoption import init_workspace, open_workspace
from daemon.workspace.status import Status, status
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.errors import DreamdError, UnknownWorkspaceError
from state.stores.vectors.embedder import Unavailable


@dataclass(slots=True)
class OwnHouse:
    """Keeps the workspaces it is given. `reason` is why it is not ready."""

    config: Config = field(default_factory=Config)
    metrics: Metrics = field(default_factory=lambda: Metrics("0", 0.0))
    roots: dict[str, Path] = field(default_factory=dict)
    reason: str = ""
    http: str = ""
    # Calls at the same time wait for each other's lock, as they do in the daemon.
    wait_seconds: float = 30
    embedding: Embedding = field(default_factory=lambda: Embedding.given(Unavailable("no model in this test")))

    def make(self, root: Path) -> str:
        """A new workspace, known to the house."""
        return self.register(init_workspace(root).root)

    def info(self) -> DaemonInfo:
        kept = tuple(WorkspaceInfo(name, str(root), None) for name, root in sorted(self.roots.items()))
        now = utc_now()
        return DaemonInfo("0", os.getpid(), now, now, "", self.http, 0, 0, kept, ())

    def status(self) -> DaemonStatus:
        read: list[Status] = []
        for root in self.roots.values():
            with suppress(DreamdError):
                read.append(status(open_workspace(root), self.config, utc_now()))
        return DaemonStatus(self.info(), tuple(read))

    def register(self, root: Path, *, trust: bool = False) -> str:  # noqa: ARG002 - nobody else made it
        workspace = open_workspace(root)
        self.roots[workspace.name] = workspace.root
        return workspace.name

    def unregister(self, name: str) -> None:
        self._root(name)
        del self.roots[name]

    @contextmanager
    def open(self, name: str, on_step: Callable[[Step], None]) -> Iterator[WorkspaceAccess]:
        workspace = open_workspace(self._root(name))
        with LocalAccess(workspace, self.config, "a test", on_step, self.embedding, self.wait_seconds) as access:
            yield access

    def reload(self) -> None:
        """It reads nothing."""

    def meant(self, given: str) -> str:
        return meant(given, sorted(self.roots))

    def pulse(self, name: str) -> str:
        roots = [self._root(name)] if name else [*self.roots.values()]
        places = [place for root in roots for place in (root / "MEMORY.md", root / ".dreamd" / "state.db-wal")]
        return " ".join(str(place.stat().st_mtime_ns) for place in places if place.exists())

    def unready_reason(self) -> str:
        return self.reason

    def _root(self, name: str) -> Path:
        if name not in self.roots:
            raise UnknownWorkspaceError(f"there is no workspace {name}; 'dreamd status' names those that there are")
        return self.roots[name]


@dataclass(slots=True)
class GatedHouse(OwnHouse):
    """One whose workspaces in `shut` let nobody in before the gate is opened; `entered` counts who waits there."""

    shut: set[str] = field(default_factory=set)
    gate: threading.Event = field(default_factory=threading.Event)
    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @contextmanager
    def open(self, name: str, on_step: Callable[[Step], None]) -> Iterator[WorkspaceAccess]:
        if name in self.shut:
            on_step(Step("gate", "waits"))
            self.entered.release()
            self.gate.wait(300)
        with OwnHouse.open(self, name, on_step) as access:
            yield access


class HauntedHouse(OwnHouse):
    """One with a defect, whose message holds what nobody should read."""

    __slots__ = ()

    @contextmanager
    def open(self, name: str, on_step: Callable[[Step], None]) -> Iterator[WorkspaceAccess]:  # noqa: ARG002 - it sees nobody
        raise ValueError("the words of a memory")
        yield  # the contract is a context manager
