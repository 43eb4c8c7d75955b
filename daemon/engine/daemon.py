"""Daemon: keeps workspaces, runs their dreams when they are due, and serves HTTP, MCP and the command line.

    registry of places ─> Daemon: a ManagedWorkspace with a thread for each ─> Held (lock, stores) ─> Work
                                             ▲
                        changed files, clients' requests, scheduled times

Clients' threads work through `DaemonAccess`. The decisions are pure functions of `daemon.engine.schedule`; a dream
is `daemon.dream.run`.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.api.access import WorkspaceAccess
from daemon.api.daemon import DaemonInfo, DaemonStatus, WorkspaceInfo, meant
from daemon.config.paths import data_folder, service_command, socket_path
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.engine.access import HeldAccess, not_kept
from daemon.engine.managed import TICK_SECONDS, ManagedWorkspace, Shared
from daemon.engine.schedule import Action, Thresholds, upcoming
from daemon.engine.work import Work
from daemon.observability import logs
from daemon.observability.metrics import Metrics, WorkspaceGauges
from daemon.workspace.adoption import open_workspace
from daemon.workspace.status import Problem, ServiceStatus, Status, status
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.errors import DreamdError, StorageError, UnknownWorkspaceError
from state.stores.disk.places import PLACE, all_ids, is_id, keep_place, read_place
from state.stores.disk.stamp import Stamp
from state.stores.disk.workspace import Workspace
from state.stores.vectors.embedder import is_there

if TYPE_CHECKING:
    from daemon.dream.run import Mode, Outcome

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
        """Read the configuration with `load`; the workspaces of `folders` are registered at its start."""
        self._load = load
        self.config = load()
        self._since = utc_now()
        self._stopping = threading.Event()
        self.metrics = Metrics(version("dreamd"), self._since.timestamp(), self._gauges)
        self._embedding = Embedding(model=self.config.embeddings.model)
        self.work = Work(self.metrics, self._stopping, self.config.daemon.concurrent_dreams)
        self._shared = Shared(lambda: self.config, self._embedding, opening, self.work, self._stopping)
        self._folders, self._data = folders, data_folder(os.environ)
        self._lock = threading.Lock()  # guards what follows; never held while a workspace's folder is touched
        self._managed: dict[str, ManagedWorkspace] = {}
        self._problems: dict[str, Problem] = {}  # of folders to register, and of ids whose place is damaged
        self._looked_up = threading.Event()
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
        problems = (self._config_problem, self.port_problem, self._unbound(), *self._problems.copy().values())
        return DaemonInfo(
            version=version("dreamd"),
            pid=os.getpid(),
            since=self._since,
            at=utc_now(),
            socket=str(socket_path(os.environ)),
            http=self.http,
            dreaming=self.work.dreams.running,
            waiting=self.work.dreams.waiting,
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
            if managed.held is not None and not is_busy:
                with suppress(DreamdError):
                    service = self.service_status(managed)
                    statuses.append(status(managed.held.workspace, self.config, utc_now(), service))
        return DaemonStatus(self.info(), tuple(statuses))

    def register(self, root: Path) -> str:
        """Keep the workspace with this root from now on, also after a restart; return its name."""
        name = open_workspace(root).name
        keep_place(self._data, name, kept=True)
        self.get(name).acquire()
        return name

    def unregister(self, name: str) -> None:
        """Stop keeping the workspace until it is registered again. Raise the same errors as `get`."""
        self.get(name)
        keep_place(self._data, name, kept=False)
        self._find(name)

    def meant(self, given: str) -> str:
        """Return the name of the workspace that an MCP path means."""
        self._find(given)  # it may be new
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
        held = managed.held
        if held is None or hanging is not None or not is_open:
            raise not_kept(managed.root, hanging or managed.problem)
        managed.use()
        # Without the lock, notes and status still work; opening the stores raises the reason.
        yield DaemonAccess(held, self.config, on_step, managed, self)

    # ------------------------------------------------------------ which workspaces there are

    def all(self) -> list[ManagedWorkspace]:
        """Return all workspaces, by name."""
        return [managed for _, managed in sorted(self._managed.copy().items())]

    def get(self, name: str) -> ManagedWorkspace:
        """Return the workspace of this name. Raise UnknownWorkspaceError if it is not kept."""
        if (managed := self._find(name)) is None:
            known = ", ".join(sorted(self._managed)) or "none yet"
            what = f"the daemon keeps no workspace {name!r} (it keeps {known})"
            raise UnknownWorkspaceError(what, "'dreamd init' adds one")
        return managed

    def look_up_all(self) -> None:
        """Keep every workspace that the user's registry says is kept, and no other."""
        for name in {*all_ids(self._data), *self._managed}:
            self._find(name)

    def _find(self, name: str) -> ManagedWorkspace | None:
        """Return the workspace of this name as its place says now: it may be new, moved, or no longer kept."""
        if not is_id(name):
            return None
        row = Stamp.of(str(self._data / name / PLACE))
        managed = self._managed.get(name)
        if managed is not None and managed.row == row:
            return managed
        with self._lock:
            root = self._root_of(name)
            managed = self._managed.get(name)
            gone = self._managed.pop(name) if managed is not None and managed.root != root else None
        if gone is not None:
            gone.leave()
        if root is None:
            return None
        with self._lock:
            managed = self._managed.setdefault(name, ManagedWorkspace(name, root, self._shared))
            managed.row = row
            if self._ticking.is_alive():
                managed.begin()
        return managed

    def _root_of(self, name: str) -> Path | None:
        """Return the root that the place of this id names, if it is kept; a damaged place is a problem to report."""
        self._problems.pop(name, None)
        try:
            place = read_place(self._data, name)
        except StorageError as error:
            self._problems[name] = Problem.of(error)
            return None
        return place.workspace(self._data).root if place is not None and place.kept else None

    # ------------------------------------------------------------ start, reload, stop

    def start(self) -> None:
        """Look up every workspace; from then on serve, while their threads open them.

        A few are opened at a time; one that a client asks for is opened at once.
        """
        _load_numpy(self.config)
        for folder in self._folders:
            try:
                keep_place(self._data, open_workspace(folder).name, kept=True)
            except DreamdError as error:
                self._problems[str(folder)] = Problem.of(error)
        self.look_up_all()
        self._looked_up.set()
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
                    managed.watch_anew(now)
            wall, steady = now, self.last_tick
            self.look_up_all()
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
        self.work.dreams.size = config.daemon.concurrent_dreams
        self.look_up_all()
        for managed in self.all():
            managed.facts_of = (-1, -1)
            managed.wake()

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
            if (held := managed.held) is None:
                continue
            # A client's thread that still uses the stores would keep the process alive.
            is_idle = held.wait_until_idle(max(0.0, deadline - time.monotonic()))
            if not is_idle or managed.look_started is not None:
                ended = False
            else:
                held.release()
        return ended

    # ------------------------------------------------------------ parts

    def _unbound(self) -> Problem | None:
        """Return the problem that a changed port needs a restart; None without one."""
        now = (self.config.http.host, self.config.http.port)
        if now == self._bound:
            return None
        what = f"http.host and http.port are now {now[0]}:{now[1]}, and the daemon listens as it did at its start"
        return Problem(what, f"restart it ('{service_command('restart')}')")

    def service_status(self, managed: ManagedWorkspace) -> ServiceStatus:
        """Return the daemon's part of the status of a workspace that was opened."""
        now, held = utc_now(), managed.held
        assert held is not None, "it was opened"
        words, at = held.offline_reason or "when the daemon can keep it", None
        problems = [managed.problem] if managed.problem is not None else []
        try:
            if held.holds_lock:
                # Read now, because the last look may not have seen what was just appended.
                facts = held.facts(now)
                foreseen = upcoming(now, facts.history, facts.pending, Thresholds.of(self._shared.config()))
                words, at = foreseen.detail, foreseen.at if foreseen.action is Action.DREAM else None
        except (DreamdError, sqlite3.Error) as error:  # the lock was just lost, or state.db is unreadable
            problems.append(Problem.of(error))
        return held.status(os.getpid(), self._since, words, at, problems)

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


@dataclass(slots=True)
class DaemonAccess(HeldAccess):
    """One client's call on a workspace that the daemon keeps."""

    managed: ManagedWorkspace
    daemon: Daemon

    def dream_now(self, reason: Reason, mode: "Mode") -> "Outcome":
        """Run a dream with this call's settings, ahead of those that no client waits for."""
        return self.managed.dream(reason, mode, self.report, self.settings)

    def dream_soon(self, reason: Reason) -> bool:
        """Request a dream. A session's end is recorded durably, and the schedule decides when to dream."""
        self.ignore_settings()
        held = self.require_held()
        if reason is Reason.SESSION_END:
            held.record_session_end(utc_now())
            self.managed.note_taken()
        else:
            self.managed.ask(reason)
        return True

    def service(self) -> ServiceStatus:
        """Return the daemon's part of this workspace's status."""
        return self.daemon.service_status(self.managed)

    def acquire(self) -> None:
        """Have the workspace opened again."""
        self.managed.acquire()

    def mark_changed(self) -> None:
        """Make the workspace's thread look at once, because a note was written."""
        self.held.changed = True
        self.managed.note_taken()

    def reload(self) -> None:
        """Have the daemon read its configuration again. Raise ConfigError if it is invalid."""
        self.daemon.reload()
        self.config = self.daemon.config
