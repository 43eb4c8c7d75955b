"""The daemon's heart: the workspaces that it keeps, when each of them dreams, and the desks at which windows work.

    registry, configuration ─> take ─> Keeper (lock, stores)       watching ─> stir ─┐
                                          │                                         ▼
    every tick, and when woken: due(now, history, pending) ─> DREAM ─> JobQueue (N) ─> dream_now
                                                              PASS ──> JobQueue (1) ─> consolidate

One thread looks (`daemon.service.scheduler`), the slots work (`daemon.service.jobs`), the watcher reports, and the
windows' threads
use desks. What is decided is decided in `daemon.service.schedule`; what a dream is, in `daemon.dream.run`.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

from daemon.api.access import WorkspaceAccess
from daemon.api.daemon import DaemonInfo, DaemonStatus, WorkspaceInfo
from daemon.config.paths import home, registry_path, socket_path
from daemon.config.registry import Entry, Listing, name_of
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.observability import logs
from daemon.observability.metrics import Metrics, Standing
from daemon.service import malloc as thrift
from daemon.service.jobs import Jobs
from daemon.service.keeper import Keeper
from daemon.service.keeper_access import DaemonAccess
from daemon.service.schedule import Action, upcoming
from daemon.service.scheduler import ManagedWorkspace, Scheduler, told
from daemon.service.watcher import Change, Watcher
from daemon.workspace.adoption import adopt, open_workspace
from daemon.workspace.status import Problem, Status, status
from daemon.workspace.status import ServiceStatus as Serving
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.errors import DreamdError, NotKeptError, UnknownWorkspaceError, UsageError
from state.stores.disk.workspace import Workspace

_POLL_SECONDS = 0.05
# How long a start or a reload waits until it is known which workspaces there are, a window until one is taken up.
_LISTING_SECONDS = 5.0
_ENTERING_SECONDS = 10.0
_STUCK_SECONDS = 30.0


class Daemon:
    """Keeps workspaces. `start`, then use it from any thread, then `stop`. It is the windows' `DaemonApi`."""

    def __init__(
        self,
        load: Callable[[], Config],
        folders: tuple[Path, ...] = (),
        opening: Callable[[Path], Workspace] = open_workspace,
    ) -> None:
        self._load = load
        self._config = load()
        self._opening = opening
        self._listed = threading.Lock()  # of `_listing` and `_charges`; no workspace's folder is touched under it
        self._listing = Listing(registry_path(os.environ), folders, home(os.environ))
        self._since = utc_now()
        self._charges: dict[str, ManagedWorkspace] = {}
        self._stopping = threading.Event()
        self._metrics = Metrics(version("dreamd"), self._since.timestamp(), self._standings)
        self._embedding = Embedding(download=self._config.embeddings.download)
        self._watcher = Watcher(self._changed)
        duties = Jobs(self._metrics, self._stopping)
        self._looker = Scheduler(self._sorted, self._enter, self._watch, lambda: self._config, duties, self._stopping)
        self._twins: dict[Path, Problem] = {}
        self._refused: tuple[Problem, ...] = ()
        self._bound = (self._config.http.host, self._config.http.port)
        self._ready = False
        self._rested_after = 0
        self.http = ""
        self.shut: Problem | None = None  # why it has no port

    @property
    def beat(self) -> float:
        """When it last looked, on the monotonic clock: what the watchdog wants to know."""
        return self._looker.beat

    def rest(self) -> None:
        """Give back what is not needed now: what dreams left, a model nobody asks for, a watcher that is stuck."""
        if self._watcher.stuck_for > _STUCK_SECONDS:
            stuck, self._watcher = self._watcher, Watcher(self._changed)  # each look has its workspace watched by it
            stuck.close(wait=False)
            logs.get().error("watcher_stuck", seconds=round(stuck.stuck_for))
            self._looker.look_at_all()
        minutes = self._config.embeddings.idle_minutes
        rested = bool(minutes) and self._embedding.rest(minutes * 60)
        ended = self._looker.dreams.ended + self._looker.passes.ended
        if rested or ended != self._rested_after:
            self._rested_after = ended
            thrift.give_back()

    # ------------------------------------------------------------ as the windows see it

    @property
    def config(self) -> Config:
        """The configuration now."""
        return self._config

    @property
    def metrics(self) -> Metrics:
        """The counters."""
        return self._metrics

    def unready_reason(self) -> str:
        """Why it does not serve yet."""
        if self._stopping.is_set():
            return "the daemon is stopping"
        return "" if self._ready else "the daemon is starting: it takes up its workspaces"

    def info(self) -> DaemonInfo:
        """What there is."""
        return DaemonInfo(
            version=version("dreamd"),
            pid=os.getpid(),
            since=self._since,
            at=utc_now(),
            socket=str(socket_path(os.environ)),
            http=self.http,
            dreaming=self._looker.dreams.running,
            waiting=self._looker.dreams.waiting,
            workspaces=tuple(
                WorkspaceInfo(one.name, str(one.root), one.hanging or one.problem) for one in self._sorted()
            ),
            problems=(
                *self._refused,
                *((self.shut,) if self.shut else ()),
                *self._unbound(),
                *map(Problem.of, self._listing.problems()),
                *self._twins.values(),
                *((self._watcher.problem,) if self._watcher.problem else ()),
            ),
        )

    def status(self) -> DaemonStatus:
        """How everything is; a workspace whose status cannot be read is among the household's with its problem."""
        read = list[Status]()
        for charge in self._sorted():
            if charge.keeper is not None and charge.hanging is None:
                with suppress(DreamdError):
                    read.append(self._status(charge.keeper))
        return DaemonStatus(self.info(), tuple(read))

    def register(self, root: Path, *, trust: bool = False) -> str:
        """Keep the workspace with this root from now on, also after a restart."""
        workspace = open_workspace(root)
        if trust:
            workspace = adopt(workspace)
        workspace.require_own()
        with self._listed:
            charge = self._charge_of(workspace.root)
            self._listing.add(workspace.root)
            self._charges[charge.name] = charge
        self._enter(charge)
        return charge.name

    def unregister(self, name: str) -> None:
        """Keep it no more, until it is adopted by name again."""
        with self._listed:
            charge = self._charge(name)
            self._listing.remove(charge.root)
            del self._charges[name]
        self._let_go(charge)

    @contextmanager
    def open(self, name: str, on_step: Callable[[Step], None]) -> Iterator[WorkspaceAccess]:
        """Access to this workspace for one call."""
        charge = self._charge(name)
        keeper, hanging = charge.keeper, charge.hanging
        if hanging is None and (keeper is None or not keeper.kept):
            self._enter(charge)
            keeper = charge.keeper
        if keeper is None or hanging is not None:
            why = hanging or charge.problem or Problem("it is being taken up", "try again")
            raise NotKeptError(f"{charge.root} is not in the daemon's keeping: {why.what}", why.advice)
        # At one that is not kept notes are taken and status is given; stores are refused, with the reason.
        yield DaemonAccess(keeper, self._config, on_step, self._looker.dream, self._wake, self._serving)

    # ------------------------------------------------------------ its life

    def start(self) -> None:
        """Take up every workspace that is known, and look after them.

        What takes up goes on after this, workspace by workspace: a disk that hangs keeps no other one waiting.
        """
        self._take_all()
        self._looker.start()
        self._ready = True

    def reload(self) -> None:
        """Read the configuration again. Raises ConfigError and keeps the old one when the new one is bad."""
        try:
            config = self._load()
        except Exception as error:
            why = Problem.of(error)
            self._refused = (
                Problem(f"the new configuration is refused and the old one stands: {why.what}", why.advice),
            )
            raise
        self._config, self._refused = config, ()
        self._embedding.try_again(download=config.embeddings.download)
        self._looker.dreams.resize(config.daemon.concurrent_dreams)
        for charge in self._sorted():
            if charge.keeper is not None:
                charge.keeper.reopen()
        self._take_all()
        self._looker.look_at_all()

    def stop(self, seconds: float) -> bool:
        """End: nothing new begins, dreams stop at their next node. Whether all ended within the time."""
        deadline = time.monotonic() + seconds
        self._stopping.set()
        self._watcher.close()
        ended = self._looker.end(max(0.0, deadline - time.monotonic()))
        for charge in self._sorted():
            if (keeper := charge.keeper) is None:
                continue
            # Of a window: a thread that is at it would keep the process from ending.
            while keeper.busy and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            if keeper.busy or charge.look_began is not None:
                ended = False
            else:
                keeper.leave()
        return ended and self._ready

    # ------------------------------------------------------------ taking up and letting go

    def _take_all(self) -> None:
        """Look up what every entry of the registry and the configuration names, each in a slot."""
        with self._listed:
            entries = self._listing.read(self._config.daemon.workspaces)
        self._twins = {}
        looked_up = [self._looker.upkeep.submit(partial(self._take, entry), whose=str(entry)) for entry in entries]
        for entry, future in zip(entries, looked_up, strict=True):
            future.add_done_callback(partial(told, entry.text, "entry_not_looked_up"))
        wait(looked_up, _LISTING_SECONDS)  # those on a disk that hangs come when it answers

    def _take(self, entry: Entry) -> None:
        """Look after what the entry names, and no longer after what no entry names."""
        found = self._listing.look_up(entry)
        with self._listed:
            for root in self._listing.learn(entry, found):
                try:
                    charge = self._charge_of(root)
                except UsageError as error:
                    self._twins[root] = Problem.of(error)
                else:
                    self._charges[charge.name] = charge
            charges = {charge.root: charge for charge in self._sorted()}
            gone = [self._charges.pop(charges[root].name) for root in self._listing.unnamed(charges)]
        for charge in gone:
            self._let_go(charge)
        self._looker.wake()

    def _charge_of(self, root: Path) -> ManagedWorkspace:
        """The charge of this root, or a new one. Raises UsageError when another one has its name."""
        name = name_of(root)
        charge = self._charges.get(name) or ManagedWorkspace(name, root)
        if charge.root != root:
            what = f"{root} would be called {name}, as {charge.root} is already"
            raise UsageError(what, "rename one of the folders")
        return charge

    def _enter(self, charge: ManagedWorkspace) -> None:
        """Try to get hold of it; what is in the way is its problem, and no other workspace's."""
        if not charge.entering.acquire(timeout=_ENTERING_SECONDS):
            return  # on a disk that hangs, perhaps: whoever is at it goes on
        try:
            lent = charge.keeper is not None and charge.keeper.lent
            if not (charge.is_kept or lent or self._stopping.is_set()) and self._charges.get(charge.name) is charge:
                self._enter_now(charge)
            if charge.keeper is not None and self._charges.get(charge.name) is not charge:
                charge.keeper.leave()  # let go meanwhile
        finally:
            charge.entering.release()

    def _enter_now(self, charge: ManagedWorkspace) -> None:
        log = logs.get(workspace=charge.name)
        try:
            workspace = self._opening(charge.root)
            workspace.require_own()
            if charge.keeper is None:
                warned = partial(_warned, charge.name)
                charge.keeper = Keeper(workspace, charge.name, lambda: self._config, self._embedding, warned)
            charge.keeper.enter()
        except Exception as error:  # noqa: BLE001 - one bad workspace does not stop the others
            problem = Problem.of(error)
            if charge.problem != problem:
                log.warning("workspace_refused", error=error)
            charge.problem = problem
            return
        charge.problem, charge.watched = None, None
        self._watch(charge)
        log.info("workspace_adopted", root=str(charge.root))
        if charge.keeper.unfinished:
            self._looker.resume(charge, charge.keeper)

    def _let_go(self, charge: ManagedWorkspace) -> None:
        """Leave one that is no longer among the charges."""
        self._watcher.forget(charge.root)
        if charge.entering.acquire(timeout=_ENTERING_SECONDS):  # else whoever takes it up now lets it go
            try:
                if charge.keeper is not None:
                    charge.keeper.leave()
            finally:
                charge.entering.release()
        logs.get(workspace=charge.name).info("workspace_released")

    def _watch(self, charge: ManagedWorkspace) -> None:
        """Have its changes told: by the watcher that there is now, and of the transcripts as configured now."""
        watcher, transcripts = self._watcher, self._config.sources.transcripts
        ended = self._stopping.is_set() or self._charges.get(charge.name) is not charge
        if charge.watched != (watcher, transcripts) and not ended:
            watcher.watch(charge.root, transcripts)
            charge.watched = (watcher, transcripts)

    # ------------------------------------------------------------ what it says

    def _charge(self, name: str) -> ManagedWorkspace:
        charge = self._charges.get(name)
        if charge is None and not self._ready:
            raise NotKeptError("the daemon is starting: it takes up its workspaces", "try again")
        if charge is None:
            known = ", ".join(sorted(self._charges)) or "none yet"
            raise UnknownWorkspaceError(
                f"the daemon keeps no workspace {name!r} (it keeps {known})", "'dreamd init' adds one"
            )
        return charge

    def _sorted(self) -> list[ManagedWorkspace]:
        return [charge for _, charge in sorted(self._charges.copy().items())]

    def _changed(self, root: Path, change: Change) -> None:
        charge = self._charges.get(name_of(root))
        if charge is not None:
            charge.stir(change)
            self._looker.wake()

    def _wake(self, keeper: Keeper) -> None:
        self._changed(keeper.workspace.root, Change.SCRATCH)

    def _unbound(self) -> Iterator[Problem]:
        """What of the configuration only a restart can change."""
        now = (self._config.http.host, self._config.http.port)
        if now != self._bound:
            what = f"http.host and http.port are now {now[0]}:{now[1]}, and the daemon listens as it did at its start"
            yield Problem(what, "restart it ('systemctl --user restart dreamd')")

    def _serving(self, keeper: Keeper) -> Serving:
        now, charge = utc_now(), self._charges.get(keeper.name)
        words, at = keeper.lent or "when the daemon can keep it", None
        if keeper.kept:
            foreseen = upcoming(
                now, self._looker.history(keeper, now), keeper.pending(now), self._looker.thresholds()
            )
            words, at = foreseen.detail, foreseen.at if foreseen.act is Action.DREAM else None
        charged = charge.problem if charge is not None else None
        problems = (charged, keeper.trouble, keeper.pass_trouble, *keeper.unread)
        return Serving(
            pid=os.getpid(),
            since=self._since,
            upcoming=words,
            at=at,
            dreaming=keeper.dreaming,
            alone=keeper.held_up,
            problems=tuple(dict.fromkeys(problem for problem in problems if problem is not None)),
        )

    def _status(self, keeper: Keeper) -> Status:
        return status(keeper.workspace, self._config, utc_now(), self._serving(keeper))

    def _standings(self) -> Iterator[Standing]:
        now = utc_now()
        for charge in self._sorted():
            if charge.keeper is not None and charge.hanging is None:
                yield charge.keeper.standing(now)


def _warned(name: str, what: str, error: Exception) -> None:
    logs.get(workspace=name).error(f"{what}_failed", error=error)
