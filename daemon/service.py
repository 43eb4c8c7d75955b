"""The daemon's heart: the workspaces that it keeps, when each of them dreams, and the desks at which windows work.

    registry, configuration ─> take ─> Keeper (lock, stores)       watching ─> stir ─┐
                                          │                                         ▼
    every tick, and when woken: due(now, history, pending) ─> DREAM ─> Slots (N) ─> dream_now
                                                              PASS ──> Slots (1) ─> consolidate

One thread looks (`daemon.tending`), the slots work (`daemon.duties`), the watcher reports, and the windows' threads
use desks. What is decided is decided in `daemon.schedule`; what a dream is, in `daemon.dreaming`.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

from daemon import logs, thrift
from daemon.adoption import adopt, open_workspace
from daemon.compose import clock
from daemon.config import Config
from daemon.desk import Desk
from daemon.duties import Duties
from daemon.house import Household, HouseStatus, Kept
from daemon.indexing import Embedding
from daemon.keeper_desk import KeeperDesk
from daemon.keeping import Keeper
from daemon.metrics import Metrics, Standing
from daemon.places import home, registry_path, socket_path
from daemon.progress import Step
from daemon.registry import WorkspaceSet, add, exclude, known_workspaces, name_of
from daemon.schedule import Act, upcoming
from daemon.status import Problem, Status, status
from daemon.status import Service as Serving
from daemon.tending import Charge, Looker
from daemon.watching import Change, Watcher
from state.errors import DreamdError, NotKeptError, UnknownWorkspaceError

_POLL_SECONDS = 0.05


class Service:
    """Keeps workspaces. `start`, then use it from any thread, then `stop`. It is the windows' `House`."""

    def __init__(self, load: Callable[[], Config], folders: tuple[Path, ...] = ()) -> None:
        self._load = load
        self._config = load()
        self._folders = folders
        self._since = clock()
        self._charges: dict[str, Charge] = {}
        self._adopting = threading.Lock()
        self._stopping = threading.Event()
        self._metrics = Metrics(version("dreamd"), self._since.timestamp(), self._standings)
        self._embedding = Embedding(download=self._config.embeddings.download)
        self._watcher = Watcher(self._changed)
        duties = Duties(self._metrics, self._stopping)
        self._looker = Looker(self._sorted, self._enter, lambda: self._config, duties, self._stopping)
        self._problems: tuple[Problem, ...] = ()
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
        """Give memory back that is not needed now: what dreams that have ended left, and a model nobody asks for."""
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

    def unready(self) -> str:
        """Why it does not serve yet."""
        if self._stopping.is_set():
            return "the daemon is stopping"
        return "" if self._ready else "the daemon is starting: it takes up its workspaces"

    def household(self) -> Household:
        """What there is."""
        return Household(
            version=version("dreamd"),
            pid=os.getpid(),
            since=self._since,
            at=clock(),
            socket=str(socket_path(os.environ)),
            http=self.http,
            dreaming=self._looker.dreams.running,
            waiting=self._looker.dreams.waiting,
            workspaces=tuple(Kept(one.name, str(one.root), one.problem) for one in self._sorted()),
            problems=(
                *self._refused,
                *((self.shut,) if self.shut else ()),
                *self._unbound(),
                *self._problems,
                *((self._watcher.problem,) if self._watcher.problem else ()),
            ),
        )

    def status(self) -> HouseStatus:
        """How everything is; a workspace whose status cannot be read is among the household's with its problem."""
        read = list[Status]()
        for charge in self._sorted():
            if charge.keeper is not None:
                with suppress(DreamdError):
                    read.append(self._status(charge.keeper))
        return HouseStatus(self.household(), tuple(read))

    def adopt(self, root: Path, *, trust: bool = False) -> str:
        """Keep the workspace with this root from now on, also after a restart."""
        workspace = open_workspace(root)
        if trust:
            workspace = adopt(workspace)
        workspace.require_own()
        name = name_of(workspace.root)
        add(registry_path(os.environ), workspace.root)
        if name not in self._charges:
            self._take(workspace.root)
        return name

    def release(self, name: str) -> None:
        """Keep it no more, until it is adopted by name again."""
        charge = self._charge(name)
        exclude(registry_path(os.environ), charge.root)
        with self._adopting:
            self._charges.pop(name, None)
            self._let_go(charge)

    @contextmanager
    def desk(self, name: str, told: Callable[[Step], None]) -> Iterator[Desk]:
        """A desk at this workspace."""
        charge = self._charge(name)
        keeper = charge.keeper
        if keeper is None or not keeper.kept:
            self._enter(charge)
            keeper = charge.keeper
        if keeper is None:
            why = charge.problem or Problem("it is being taken up", "try again")
            raise NotKeptError(f"{charge.root} is not in the daemon's keeping: {why.what}", why.advice)
        # At one that is not kept notes are taken and status is given; stores are refused, with the reason.
        yield KeeperDesk(keeper, self._config, told, self._looker.dream, self._wake, self._serving)

    # ------------------------------------------------------------ its life

    def start(self) -> None:
        """Take up every workspace that is known, then look after them."""
        self._take_all()
        self._ready = True
        self._looker.start()

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
                self._watcher.watch(charge.root, config.sources.transcripts)
        self._release_all_but(self._take_all())
        self._looker.look_at_all()

    def stop(self, seconds: float) -> bool:
        """End: nothing new begins, dreams stop at their next node. Whether all ended within the time."""
        deadline = time.monotonic() + seconds
        self._stopping.set()
        self._watcher.close()
        ended = self._looker.end(max(0.0, deadline - time.monotonic()))
        for keeper in [charge.keeper for charge in self._sorted() if charge.keeper is not None]:
            # Of a window: a thread that is at it would keep the process from ending.
            while keeper.busy and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            if keeper.busy:
                ended = False
            else:
                keeper.leave()
        return ended and self._ready

    # ------------------------------------------------------------ taking up and letting go

    def _take_all(self) -> frozenset[Path] | None:
        """Take up all that are known; their roots, None when it is not known which they are."""
        known = True
        try:
            found = known_workspaces(registry_path(os.environ), self._config.daemon.workspaces, home(os.environ))
        except DreamdError as error:  # a list that cannot be read: those that are kept are kept
            found = WorkspaceSet(problems=(Problem.of(error),))
            known = False
        self._problems = found.problems
        roots = tuple(dict.fromkeys((*(folder.resolve() for folder in self._folders), *found.roots)))
        for root in roots:
            if self._stopping.is_set():
                return None
            self._take(root)
        return frozenset(roots) if known else None

    def _release_all_but(self, roots: frozenset[Path] | None) -> None:
        """Keep no more what neither the registry nor the configuration names any longer."""
        if roots is None or any(problem.what.startswith("daemon.workspaces:") for problem in self._problems):
            return
        gone = tuple(problem.what for problem in self._problems)  # named there, and not to be found
        for charge in self._sorted():
            with self._adopting:
                named = charge.root in roots or any(what.startswith(f"{charge.root}:") for what in gone)
                if not named and self._charges.get(charge.name) is charge:
                    del self._charges[charge.name]
                    self._let_go(charge)

    def _take(self, root: Path) -> None:
        name = name_of(root)
        self._enter(self._charges.setdefault(name, Charge(name, root)))

    def _enter(self, charge: Charge) -> None:
        """Try to get hold of it; what is in the way is its problem, and no other workspace's."""
        with self._adopting:
            if self._charges.get(charge.name) is not charge:
                return  # released since whoever calls had a look at it
            if (charge.keeper is None or not charge.keeper.kept) and not self._stopping.is_set():
                self._enter_now(charge)

    def _enter_now(self, charge: Charge) -> None:
        log = logs.get(workspace=charge.name)
        try:
            workspace = open_workspace(charge.root)
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
        charge.problem = None
        self._watcher.watch(charge.root, self._config.sources.transcripts)
        log.info("workspace_adopted", root=str(charge.root))
        if charge.keeper.unfinished:
            self._looker.resume(charge, charge.keeper)

    def _let_go(self, charge: Charge) -> None:
        self._watcher.forget(charge.root)
        if charge.keeper is not None:
            charge.keeper.leave()
        logs.get(workspace=charge.name).info("workspace_released")

    # ------------------------------------------------------------ what it says

    def _charge(self, name: str) -> Charge:
        charge = self._charges.get(name)
        if charge is None and not self._ready:
            raise NotKeptError("the daemon is starting: it takes up its workspaces", "try again")
        if charge is None:
            known = ", ".join(sorted(self._charges)) or "none yet"
            raise UnknownWorkspaceError(
                f"the daemon keeps no workspace {name!r} (it keeps {known})", "'dreamd init' adds one"
            )
        return charge

    def _sorted(self) -> list[Charge]:
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
        now, charge = clock(), self._charges.get(keeper.name)
        words, at = "when the daemon can keep it", None
        if keeper.kept:
            foreseen = upcoming(
                now, self._looker.history(keeper, now), keeper.pending(now), self._looker.thresholds()
            )
            words, at = foreseen.detail, foreseen.at if foreseen.act is Act.DREAM else None
        charged = charge.problem if charge is not None else None
        problems = (charged, keeper.trouble, keeper.pass_trouble, *keeper.unread)
        return Serving(
            pid=os.getpid(),
            since=self._since,
            upcoming=words,
            at=at,
            dreaming=keeper.dreaming,
            problems=tuple(dict.fromkeys(problem for problem in problems if problem is not None)),
        )

    def _status(self, keeper: Keeper) -> Status:
        return status(keeper.workspace, self._config, clock(), self._serving(keeper))

    def _standings(self) -> Iterator[Standing]:
        for one in self.status().workspaces:
            name = name_of(Path(one.workspace))
            yield Standing(name, one.pending.notes, one.pending.oldest_seconds, one.crystals)


def _warned(name: str, what: str, error: Exception) -> None:
    logs.get(workspace=name).error(f"{what}_failed", error=error)
