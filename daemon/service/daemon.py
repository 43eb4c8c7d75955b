"""Daemon: keeps workspaces, dreams in each when its time has come, and serves HTTP, MCP and the command line.

    registry, configuration ─> Scheduler: a thread for each workspace ─> Keeper (lock, stores) ─> Jobs
                                             ▲
                        files that changed, clients' requests, a moment that has come

Clients' threads work through `DaemonAccess`. The decisions are pure functions of `daemon.service.schedule`; a dream
is `daemon.dream.run`.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

from daemon.api.access import WorkspaceAccess
from daemon.api.daemon import DaemonInfo, DaemonStatus, WorkspaceInfo, meant
from daemon.config.paths import home, registry_path, socket_path
from daemon.config.registry import WorkspaceList
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.observability.metrics import Metrics, WorkspaceGauges
from daemon.service.jobs import Jobs
from daemon.service.keeper import DaemonAccess, Keeper
from daemon.service.managed import ManagedWorkspace, Wish
from daemon.service.schedule import Action, phase, upcoming
from daemon.service.scheduler import Scheduler
from daemon.workspace.adoption import open_workspace
from daemon.workspace.scan import Change
from daemon.workspace.status import Problem, ServiceStatus, Status, status
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.errors import DreamdError, NotKeptError, UnknownWorkspaceError
from state.stores.disk.workspace import Workspace


class Daemon:
    """The running daemon, as `DaemonApi`: `start` it, use it from any thread, `stop` it."""

    def __init__(
        self,
        load: Callable[[], Config],
        folders: tuple[Path, ...] = (),
        opening: Callable[[Path], Workspace] = open_workspace,
    ) -> None:
        """Read the configuration by `load`; `folders` are kept beside those that registry and configuration name."""
        self._load = load
        self.config = load()
        self._since = utc_now()
        self._stopping = threading.Event()
        self.metrics = Metrics(version("dreamd"), self._since.timestamp(), self._gauges)
        self._embedding = Embedding(model=self.config.embeddings.model)
        listing = WorkspaceList(registry_path(os.environ), folders, home(os.environ))
        jobs = Jobs(self.metrics, self._stopping)
        self._scheduler = Scheduler(listing, lambda: self.config, self._embedding, opening, jobs, self._stopping)
        self._config_problem: Problem | None = None
        self._bound = (self.config.http.host, self.config.http.port)
        self.http = ""
        self.port_problem: Problem | None = None  # why it has no port

    @property
    def last_tick(self) -> float:
        """When the scheduler last ran, on the monotonic clock; the watchdog goes by it."""
        return self._scheduler.last_tick

    def trim(self) -> None:
        """Free what is not needed now: an idle embedding model."""
        if minutes := self.config.embeddings.idle_minutes:
            self._embedding.rest(minutes * 60)

    # ------------------------------------------------------------ DaemonApi

    def unready_reason(self) -> str:
        """Say why it does not serve yet; empty if it does."""
        if self._stopping.is_set():
            return "the daemon is stopping"
        return "" if self._scheduler.is_ready else "the daemon is starting: it looks up its workspaces"

    def info(self) -> DaemonInfo:
        """Return version, addresses, workspaces and problems; read no workspace's folder."""
        problems = (self._config_problem, self.port_problem, self._unbound(), *self._scheduler.problems())
        return DaemonInfo(
            version=version("dreamd"),
            pid=os.getpid(),
            since=self._since,
            at=utc_now(),
            socket=str(socket_path(os.environ)),
            http=self.http,
            dreaming=self._scheduler.dreams.running,
            waiting=self._scheduler.dreams.waiting,
            workspaces=tuple(
                WorkspaceInfo(one.name, str(one.root), one.hanging or one.problem, kept=one.is_kept)
                for one in self._scheduler.all()
            ),
            problems=tuple(problem for problem in problems if problem is not None),
        )

    def status(self) -> DaemonStatus:
        """Return every workspace's status; one that is not taken up yet, or cannot be read, shows in `info` alone."""
        statuses = list[Status]()
        for managed in self._scheduler.all():
            is_busy = managed.hanging is not None or managed.lock.locked()  # who asked would wait as well
            if managed.keeper is not None and not is_busy:
                with suppress(DreamdError):
                    service = self._service_status(managed, managed.keeper)
                    statuses.append(status(managed.keeper.workspace, self.config, utc_now(), service))
        return DaemonStatus(self.info(), tuple(statuses))

    def register(self, root: Path) -> str:
        """Keep the workspace with this root from now on, also after a restart; its name."""
        return self._scheduler.add(open_workspace(root)).name

    def unregister(self, name: str) -> None:
        """Keep it no more, until it is registered again."""
        self._scheduler.remove(name)

    def meant(self, given: str) -> str:
        """Return the workspace that a path names."""
        return meant(given, [one.name for one in self._scheduler.all()])

    def keeps(self, name: str) -> bool:
        """Tell whether it is in the roster."""
        return self._scheduler.find(name) is not None

    def pulse(self, name: str) -> str:
        """Return what has changed, in numbers."""
        found = self._scheduler.find(name) if name else None
        if name and found is None:
            raise UnknownWorkspaceError(f"there is no workspace {name}", "'dreamd status' names those that there are")
        if found is not None:
            self._use(found)
        return " ".join(managed.pulse for managed in ((found,) if found else self._scheduler.all()))

    @contextmanager
    def open(self, name: str, on_step: Callable[[Step], None]) -> Iterator[WorkspaceAccess]:
        """Give access to this workspace; `on_step` is called after each step of a dream."""
        managed = self._scheduler.get(name)
        hanging = managed.hanging
        is_open = managed.is_kept or (hanging is None and self._scheduler.acquire(managed))
        keeper = managed.keeper
        if keeper is None or hanging is not None or not is_open:
            why = hanging or managed.problem or Problem("the daemon is still opening this workspace", "try again")
            raise NotKeptError(f"{managed.root} is not in the daemon's keeping: {why.what}", why.advice)
        self._use(managed)
        # Without the lock notes are still taken and status is given; the stores are refused, with the reason.
        yield DaemonAccess(
            keeper,
            self.config,
            on_step,
            lambda _, *wish: self._scheduler.dream(managed, Wish(*wish)),
            lambda _: self._note_change(managed),
            partial(self._service_status, managed),
            partial(self._scheduler.acquire, managed),
        )

    # ------------------------------------------------------------ start, reload, stop

    def start(self) -> None:
        """Look up every workspace that is listed; from then on it serves, and the scheduler takes them up.

        A few at a time, and each at once when a client asks for it.
        """
        self._scheduler.start()

    def reload(self) -> None:
        """Read the configuration again. Raise ConfigError and keeps the old one when the new one is bad."""
        try:
            config = self._load()
        except Exception as error:
            why = Problem.of(error)
            what = f"the new configuration is refused and the old one stands: {why.what}"
            self._config_problem = Problem(what, why.advice)
            raise
        self.config, self._config_problem = config, None
        self._embedding.try_again()
        self._scheduler.dreams.resize(config.daemon.concurrent_dreams)
        self._scheduler.look_up_all()
        for managed in self._scheduler.all():
            managed.facts_of = (-1, -1)
        self._scheduler.look_at_all()

    def stop(self, seconds: float) -> bool:
        """Begin nothing new, stop dreams at their next node, close every workspace; whether all ended in time."""
        deadline = time.monotonic() + seconds
        self._stopping.set()
        ended = self._scheduler.stop(max(0.0, deadline - time.monotonic()))
        for managed in self._scheduler.all():
            if (keeper := managed.keeper) is None:
                continue
            # A client's thread that is at work in it would keep the process from ending.
            is_idle = keeper.wait_until_idle(max(0.0, deadline - time.monotonic()))
            if not is_idle or managed.look_started is not None:
                ended = False
            else:
                keeper.release()
        return ended and self._scheduler.is_ready

    # ------------------------------------------------------------ parts

    def _note_change(self, managed: ManagedWorkspace) -> None:
        """Take in a note that was just taken, at once."""
        managed.mark_changed(Change.SCRATCH)
        self._scheduler.wake(managed)

    def _use(self, managed: ManagedWorkspace) -> None:
        """Look at what has not been used for long as soon as somebody is there."""
        if managed.use():
            self._scheduler.wake(managed)

    def _unbound(self) -> Problem | None:
        """Return a change of the port that only a restart can carry out."""
        now = (self.config.http.host, self.config.http.port)
        if now == self._bound:
            return None
        what = f"http.host and http.port are now {now[0]}:{now[1]}, and the daemon listens as it did at its start"
        return Problem(what, "restart it ('systemctl --user restart dreamd')")

    def _service_status(self, managed: ManagedWorkspace, keeper: Keeper) -> ServiceStatus:
        now = utc_now()
        words, at = keeper.offline_reason or "when the daemon can keep it", None
        problems = [managed.problem, *keeper.problems]
        try:
            if keeper.holds_lock:
                # As of now: what was just appended may not be told yet.
                facts = keeper.facts(self._scheduler.awake_since, phase(str(managed.root)), now)
                foreseen = upcoming(now, facts.history, facts.pending, self._scheduler.thresholds())
                words, at = foreseen.detail, foreseen.at if foreseen.action is Action.DREAM else None
        except (DreamdError, sqlite3.Error) as error:  # the lock was lost just now, or state.db cannot be read
            problems.append(Problem.of(error))
        return ServiceStatus(
            pid=os.getpid(),
            since=self._since,
            upcoming=words,
            at=at,
            dreaming=keeper.dreaming,
            alone=keeper.exclusive_busy,
            problems=tuple(dict.fromkeys(problem for problem in problems if problem is not None)),
        )

    def _gauges(self) -> Iterator[WorkspaceGauges]:
        """Return how workspaces stood at the last look: nothing is read for it."""
        now = utc_now()
        for managed in self._scheduler.all():
            if (facts := managed.facts) is not None and managed.hanging is None:
                pending = facts.pending
                waited = max(0.0, (now - (pending.oldest or now)).total_seconds())
                yield WorkspaceGauges(managed.name, pending.notes, waited, facts.crystals)
