"""Daemon: keeps workspaces, runs their dreams when they are due, and serves HTTP, MCP and the command line.

    registry, configuration ─> Daemon: a ManagedWorkspace with a thread for each ─> Keeper (lock, stores) ─> Jobs
                                             ▲
                        changed files, clients' requests, scheduled times

Clients' threads work through `DaemonAccess`. The decisions are pure functions of `daemon.service.schedule`; a dream
is `daemon.dream.run`.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path

from daemon.api.access import WorkspaceAccess
from daemon.api.daemon import DaemonInfo, DaemonStatus, WorkspaceInfo, meant
from daemon.config.paths import home, registry_path, service_command, socket_path
from daemon.config.registry import Entry, WorkspaceList, name_of
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.observability import logs
from daemon.observability.metrics import Metrics, WorkspaceGauges
from daemon.service.jobs import Jobs
from daemon.service.keeper import DaemonAccess, not_kept
from daemon.service.managed import LOCK_SECONDS, TICK_SECONDS, ManagedWorkspace, Shared
from daemon.service.schedule import Action, Thresholds, phase, upcoming
from daemon.workspace.adoption import open_workspace, workspace_at
from daemon.workspace.status import Problem, ServiceStatus, Status, status
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.errors import DreamdError, NotKeptError, UnknownWorkspaceError, UsageError
from state.stores.disk.workspace import Workspace
from state.stores.vectors.embedder import is_there

# How long a start or a reload waits for all entries to be looked up. Workspaces on a hanging disk join when the disk
# answers.
_LOOK_UP_SECONDS = 1.0
# If wall clock and monotonic clock differ by this much, the machine slept or the clock was set.
_GAP = timedelta(seconds=90)


class Daemon:
    """The running daemon, which implements `DaemonApi`: `start` it, use it from any thread, `stop` it."""

    def __init__(
        self,
        load: Callable[[], Config],
        folders: tuple[Path, ...] = (),
        opening: Callable[[Path], Workspace] = open_workspace,
    ) -> None:
        """Read the configuration with `load`; `folders` are kept in addition to registry and configuration."""
        self._load = load
        self.config = load()
        self._since = utc_now()
        self._stopping = threading.Event()
        self.metrics = Metrics(version("dreamd"), self._since.timestamp(), self._gauges)
        self._embedding = Embedding(model=self.config.embeddings.model)
        jobs = Jobs(self.metrics, self._stopping)
        self._shared = Shared(lambda: self.config, self._embedding, opening, jobs, self._stopping)
        self._listing = WorkspaceList(registry_path(os.environ), folders, home(os.environ), _root_of)
        self._lock = (
            threading.Lock()
        )  # guards `_listing` and `_managed`; never held while a workspace's folder is touched
        self._managed: dict[str, ManagedWorkspace] = {}
        self._looked_up = (
            threading.Event()
        )  # set once all entries are looked up, except on disks that did not answer in a second
        self.last_tick = time.monotonic()  # read by the watchdog
        self._ticking = threading.Thread(target=self._tick, name="ticking", daemon=True)
        self._config_problem: Problem | None = None
        self._bound = (self.config.http.host, self.config.http.port)
        self.http = ""
        self.port_problem: Problem | None = None  # why it has no port

    def trim(self) -> None:
        """Unload an idle embedding model."""
        if minutes := self.config.embeddings.idle_minutes:
            self._embedding.rest(minutes * 60)

    # ------------------------------------------------------------ DaemonApi

    def unready_reason(self) -> str:
        """Return why it is not serving yet, or "" if it is."""
        if self._stopping.is_set():
            return "the daemon is stopping"
        return "" if self._looked_up.is_set() else "the daemon is starting: it looks up its workspaces"

    def info(self) -> DaemonInfo:
        """Return version, addresses, workspaces and problems, without reading any workspace's folder."""
        entries = (Problem.of(error) for error in self._listing.problems())
        problems = (self._config_problem, self.port_problem, self._unbound(), *entries)
        return DaemonInfo(
            version=version("dreamd"),
            pid=os.getpid(),
            since=self._since,
            at=utc_now(),
            socket=str(socket_path(os.environ)),
            http=self.http,
            dreaming=self._shared.dreams.running,
            waiting=self._shared.dreams.waiting,
            workspaces=tuple(
                WorkspaceInfo(one.name, str(one.root), one.hanging or one.problem, kept=one.is_kept)
                for one in self.all()
            ),
            problems=tuple(problem for problem in problems if problem is not None),
        )

    def status(self) -> DaemonStatus:
        """Return the status of every workspace; one that is not open yet or unreadable is only in `info`."""
        statuses = list[Status]()
        for managed in self.all():
            is_busy = managed.hanging is not None or managed.lock.locked()  # its status would have to wait
            if managed.keeper is not None and not is_busy:
                with suppress(DreamdError):
                    service = self._service_status(managed)
                    statuses.append(status(managed.keeper.workspace, self.config, utc_now(), service))
        return DaemonStatus(self.info(), tuple(statuses))

    def register(self, root: Path) -> str:
        """Keep the workspace with this root from now on, also after a restart; return its name.

        Raise UsageError if its name is taken.
        """
        workspace = open_workspace(root)
        with self._lock:
            managed = self._put(workspace.root, self._listing.add)
        managed.acquire()
        return managed.name

    def unregister(self, name: str) -> None:
        """Stop keeping the workspace until it is registered again. Raise the same errors as `get`."""
        managed = self.get(name)
        with self._lock:
            self._listing.remove(managed.root)
            self._managed.pop(name, None)
        managed.leave()

    def meant(self, given: str) -> str:
        """Return the name of the workspace that this name or path means."""
        return meant(given, [one.name for one in self.all()])

    def pulse(self, name: str) -> str:
        """Return a text that changes whenever the workspace does."""
        if not name:
            return " ".join(managed.pulse for managed in self.all())
        if (found := self._managed.get(name)) is None:
            raise UnknownWorkspaceError(f"there is no workspace {name}", "'dreamd status' names those that there are")
        found.use()
        return found.pulse

    @contextmanager
    def open(self, name: str, on_step: Callable[[Step], None]) -> Iterator[WorkspaceAccess]:
        """Open this workspace for one client; `on_step` is called after each step of a dream."""
        managed = self.get(name)
        hanging = managed.hanging
        is_open = managed.is_kept or (hanging is None and managed.acquire())
        keeper = managed.keeper
        if keeper is None or hanging is not None or not is_open:
            raise not_kept(managed.root, hanging or managed.problem)
        managed.use()
        # Without the lock, notes and status still work; opening the stores raises the reason.
        service_status = partial(self._service_status, managed)
        acts = (managed.dream, managed.ask, managed.note_taken, service_status, managed.acquire)
        yield DaemonAccess(keeper, self.config, on_step, *acts, read_config=self._reread)

    # ------------------------------------------------------------ which workspaces there are

    def all(self) -> list[ManagedWorkspace]:
        """Return all workspaces, by name."""
        return [managed for _, managed in sorted(self._managed.copy().items())]

    def get(self, name: str) -> ManagedWorkspace:
        """Return the workspace of this name; wait while entries are being looked up.

        Raise UnknownWorkspaceError, or NotKeptError if looking them up takes more than ten seconds.
        """
        if name not in self._managed and not self._looked_up.wait(LOCK_SECONDS):
            raise NotKeptError("the daemon is starting: it looks up its workspaces", "try again")
        if (managed := self._managed.get(name)) is None:
            known = ", ".join(sorted(self._managed)) or "none yet"
            what = f"the daemon keeps no workspace {name!r} (it keeps {known})"
            raise UnknownWorkspaceError(what, "'dreamd init' adds one")
        return managed

    def look_up_all(self) -> None:
        """Read all entries again and look up each in a thread of its own; do not wait for disks that hang."""
        with self._lock:
            entries = self._listing.read(self.config.daemon.workspaces)
        threads = [threading.Thread(target=self._look_up, args=(entry,), daemon=True) for entry in entries]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + _LOOK_UP_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._looked_up.set()

    def _look_up(self, entry: Entry) -> None:
        """Keep the workspaces that the entry names, and drop those that no entry names any longer."""
        try:
            named = self._listing.look_up(entry)
            with self._lock:
                for root in self._listing.record(entry, named):
                    self._put(root)
                by_root = {managed.root: managed for managed in self.all()}
                gone = [self._managed.pop(by_root[root].name) for root in self._listing.unlisted(by_root)]
            for managed in gone:
                managed.leave()
        except Exception as error:  # noqa: BLE001 - it holds up no other
            logs.get(workspace=entry.text).error("entry_not_looked_up", error=error)

    def _put(self, root: Path, record: Callable[[Path], None] = lambda _: None) -> ManagedWorkspace:
        """Return the workspace with this root, added if new. Raise UsageError if another root has its name."""
        name = name_of(root)
        managed = self._managed.get(name) or ManagedWorkspace(name, root, self._shared)
        if managed.root != root:
            what = f"{root} would be called {name}, as {managed.root} is already"
            raise UsageError(what, "rename one of the folders")
        record(root)
        self._managed[name] = managed
        if self._ticking.is_alive():
            managed.begin()
        return managed

    # ------------------------------------------------------------ start, reload, stop

    def start(self) -> None:
        """Look up every listed workspace; from then on serve, while their threads open them.

        A few are opened at a time; one that a client asks for is opened at once.
        """
        _load_numpy(self.config)
        self.look_up_all()
        if not self._ticking.is_alive():
            self._ticking.start()
        self._begin_all()

    def _begin_all(self) -> None:
        with self._lock:
            for managed in self.all():
                managed.begin()

    def _tick(self) -> None:
        """Notice when the machine slept or its clock was set, and retry what could not start."""
        wall, steady = utc_now(), time.monotonic()
        while not self._stopping.wait(TICK_SECONDS):
            now, self.last_tick = utc_now(), time.monotonic()
            if abs(now - wall - timedelta(seconds=self.last_tick - steady)) > _GAP:
                self._shared.awake_since = now
                logs.get().info("gap_noticed", seconds=round((now - wall).total_seconds()))
                for managed in self.all():
                    managed.wake()
            wall, steady = now, self.last_tick
            self._begin_all()

    def reload(self) -> None:
        """Read the configuration again. If it is invalid, raise ConfigError and keep the old one."""
        try:
            config = self._load()
        except Exception as error:
            why = Problem.of(error)
            what = f"the new configuration is refused and the old one stands: {why.what}"
            self._config_problem = Problem(what, why.advice)
            raise
        self.config, self._config_problem = config, None
        _load_numpy(config)
        self._embedding.try_again()
        self._shared.dreams.size = config.daemon.concurrent_dreams
        self.look_up_all()
        for managed in self.all():
            managed.facts_of = (-1, -1)
            managed.wake()

    def _reread(self) -> Config:
        self.reload()
        return self.config

    def stop(self, seconds: float) -> bool:
        """Start nothing new, stop dreams at their next node, close all workspaces; tell whether all ended."""
        deadline, ended = time.monotonic() + seconds, True
        self._stopping.set()
        for managed in self.all():
            managed.wake()
        for managed in self.all():
            if managed.thread is not None:
                managed.thread.join(max(0.1, deadline - time.monotonic()))
                ended &= not managed.thread.is_alive()
            if (keeper := managed.keeper) is None:
                continue
            # A client's thread that still uses the stores would keep the process alive.
            is_idle = keeper.wait_until_idle(max(0.0, deadline - time.monotonic()))
            if not is_idle or managed.look_started is not None:
                ended = False
            else:
                keeper.release()
        return ended and self._looked_up.is_set()

    # ------------------------------------------------------------ parts

    def _unbound(self) -> Problem | None:
        """Return the problem that a changed port needs a restart; None without one."""
        now = (self.config.http.host, self.config.http.port)
        if now == self._bound:
            return None
        what = f"http.host and http.port are now {now[0]}:{now[1]}, and the daemon listens as it did at its start"
        return Problem(what, f"restart it ('{service_command('restart')}')")

    def _service_status(self, managed: ManagedWorkspace) -> ServiceStatus:
        now, keeper = utc_now(), managed.keeper
        assert keeper is not None, "it was opened"
        words, at = keeper.offline_reason or "when the daemon can keep it", None
        problems = [managed.problem] if managed.problem is not None else []
        try:
            if keeper.holds_lock:
                # Read now, because the last look may not have seen what was just appended.
                facts = keeper.facts(self._shared.awake_since, phase(str(managed.root)), now)
                foreseen = upcoming(now, facts.history, facts.pending, Thresholds.of(self._shared.config()))
                words, at = foreseen.detail, foreseen.at if foreseen.action is Action.DREAM else None
        except (DreamdError, sqlite3.Error) as error:  # the lock was just lost, or state.db is unreadable
            problems.append(Problem.of(error))
        return keeper.status(os.getpid(), self._since, words, at, problems)

    def _gauges(self) -> Iterator[WorkspaceGauges]:
        """Yield each workspace's gauges as of its last look, without reading anything."""
        now = utc_now()
        for managed in self.all():
            if (facts := managed.facts) is not None and managed.hanging is None:
                pending = facts.pending
                waited = max(0.0, (now - (pending.oldest or now)).total_seconds())
                yield WorkspaceGauges(managed.name, pending.notes, waited, facts.crystals)


def _load_numpy(config: Config) -> None:
    """Load numpy before threads need it, if they will.

    If one of them loads it while another loads ChromaDB, which begins in the middle of it, either sees half of it.
    """
    if is_there(config.embeddings.model):
        import numpy  # noqa: F401, ICN001


def _root_of(folder: Path) -> Path:
    """Return the root of the folder's workspace, which for a repository is elsewhere; else the folder itself."""
    found = workspace_at(folder)
    return found.root if found is not None else folder
