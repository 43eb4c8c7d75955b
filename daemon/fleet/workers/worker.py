"""Worker: owns workspaces while there is work in them, as `DaemonApi`; any number of workers share a fleet.

    gateways ─HTTP─┐                                     ┌─ heartbeat: one statement every five seconds
                   ▼                                     │
    jobs ─> acquire ─> Owned (lease, folder, stores) ─> dream, pass, operations ─> commit ─> give back when idle

What a worker owns is free for others as soon as its session with PostgreSQL ends; when it has another session it goes
on with what nobody has taken.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from daemon.api.access import WorkspaceAccess
from daemon.api.daemon import DaemonInfo, DaemonStatus, WorkspaceInfo
from daemon.config.settings import Config, day_start
from daemon.dream.progress import Step
from daemon.dream.run import Mode
from daemon.fleet.connections import Connections
from daemon.fleet.lifetime import Lifetime
from daemon.fleet.workers.ceilings import without_machines_ceilings
from daemon.fleet.workers.decision import refusal
from daemon.fleet.workers.owned import Owned, Surroundings
from daemon.fleet.workers.owned_access import OwnedAccess
from daemon.fleet.workers.ownership import Ownership
from daemon.fleet.workers.watched_objects import WatchedObjects
from daemon.fleet.workers.worker_jobs import WorkerJobs
from daemon.observability import logs
from daemon.observability.failures import failure
from daemon.observability.metrics import Metrics
from daemon.service.keeper import Keeper
from daemon.service.schedule import Action, Thresholds
from daemon.workspace.status import BY_FLEET, ServiceStatus
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.errors import (
    BusyError,
    DreamdError,
    FencedError,
    NotFoundError,
    NothingToDoError,
    NotKeptError,
    QuotaError,
    StoppedError,
    UnknownWorkspaceError,
    UnreachableError,
    UsageError,
)
from state.fleet.tenant import Quotas
from state.fleet.workspace import Worker as Row
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.leases import Leases
from state.stores.fleet.places import Places
from state.stores.fleet.processes import Condition
from state.stores.fleet.schedule import Schedule, Use

_ERASURES_SECONDS = 10.0
_LOOK_SECONDS = 2.0
# The queue of its owner gets the job then.
_NOT_KEPT_WAIT = timedelta(seconds=2)
_BUSY_WAIT = timedelta(seconds=10)
# Dreams under way may cost less than is counted for them, and a ceiling may be raised.
_CEILING_WAIT = timedelta(minutes=10)
_SOON_SECONDS = 0.1


class Worker:
    """One process of the fleet that owns workspaces. Any thread may call."""

    def __init__(
        self, load: Callable[[], Config], connections: Connections, folder: Path, address: str, secret: str
    ) -> None:
        self._config = without_machines_ceilings(load())
        self.database = connections.database
        self._since = utc_now()
        self._stopping = threading.Event()
        self._metrics = Metrics(version("dreamd"), self._since.timestamp())
        self._embedding = Embedding(download=self._config.embeddings.download, model=self._config.embeddings.model)
        self._leases = Leases(connections.database)
        self._places = Places(connections.database)
        self._schedule = Schedule(connections.database)
        self._dreamers = ThreadPoolExecutor(self._config.fleet.dreams_at_once, "dream")
        self.lifetime = Lifetime(
            connections.database,
            Row(uuid4(), address, secret),
            "worker",
            self._condition,
            self._config.fleet.dreams_at_once,
        )
        around = Surroundings(
            lambda: self._config,
            self._embedding,
            self._leases,
            Inbox(connections.database),
            self.thresholds,
        )
        (folder / "workspaces").mkdir(mode=0o700, exist_ok=True)
        self._objects = WatchedObjects(connections.objects)
        self.ownership = Ownership(
            folder / "workspaces", self._leases, self._objects, around, self.lifetime.worker.id
        )
        self.jobs = WorkerJobs(self._metrics, self._stopping)
        self._threads = [
            threading.Thread(target=self._look, name="look", daemon=True),
            threading.Thread(target=self._drop_erased, name="erasures", daemon=True),
        ]

    # ------------------------------------------------------------ DaemonApi

    @property
    def config(self) -> Config:
        """The configuration."""
        return self._config

    @property
    def metrics(self) -> Metrics:
        """The counters."""
        return self._metrics

    def info(self) -> DaemonInfo:
        """Describe the worker with the workspaces that it owns now."""
        return DaemonInfo(
            version=version("dreamd"),
            pid=os.getpid(),
            since=self._since,
            at=utc_now(),
            socket="",
            http="",
            dreaming=self.jobs.dreaming,
            waiting=0,
            workspaces=tuple(
                WorkspaceInfo(f"ws-{one}", "", None)
                for one in sorted(owned.place.id for owned in self.ownership.all())
            ),
            problems=(),
        )

    def status(self) -> DaemonStatus:
        """Return the status of the worker alone: that of a workspace is an operation."""
        return DaemonStatus(self.info(), ())

    def register(self, root: Path, *, trust: bool = False) -> str:  # noqa: ARG002 - as the daemon's
        """Raise UsageError: workspaces are made at a gateway."""
        raise UsageError(
            f"{root} is a folder of one machine", "'dreamd fleet import' brings a workspace into the fleet"
        )

    def unregister(self, name: str) -> None:
        """Raise UsageError: workspaces are removed at a gateway."""
        raise UsageError(f"{name} is removed at a gateway", "see 'dreamd fleet workspace --help'")

    def meant(self, given: str) -> str:
        """Return the name as it was given."""
        return given

    def keeps(self, name: str) -> bool:
        """Tell whether it owns this workspace."""
        return self.ownership.find(_number(name)) is not None

    def pulse(self, name: str) -> str:
        """Return a text that changes whenever its stores are written."""
        owned = self.ownership.find(_number(name))
        return f"{name} {owned.keeper.written if owned is not None else ''}"

    def unready_reason(self) -> str:
        """Return why it takes nothing now; empty when it does."""
        if self._stopping.is_set():
            return "the worker is stopping"
        return self.lifetime.problem or self._objects.problem

    @contextmanager
    def open(self, name: str, on_step: Callable[[Step], None]) -> Iterator[WorkspaceAccess]:
        """Give access to the workspace, which is taken if nobody owns it.

        Raise NotKeptError when another worker owns it or this one ends, UnknownWorkspaceError, UnreachableError.
        """
        if self._stopping.is_set():  # not StoppedError, of which nobody knows what was done
            raise NotKeptError("the worker is stopping", "ask another one")
        with self.ownership.owning(_number(name)) as owned:
            yield OwnedAccess(
                owned.keeper,
                self._config,
                on_step,
                lambda _, reason, mode, step: self._dreamers.submit(
                    self.jobs.dream, owned, reason, mode, step or (lambda _: None)
                ),
                lambda _: None,
                self._service_status,
                owned.keeper.acquire,
                owned=owned,
                queue=self._queue,
                require_room=self._require_room,
            )

    def run_job(self, workspace: int, reason: str = "") -> None:
        """Do what the workspace wants, or the dream for this reason.

        Whatever it fails with, the schedule knows when it is tried again.
        """
        log = logs.get(workspace=f"ws-{workspace}")
        try:
            with self.ownership.owning(workspace) as owned:
                owned.absorb()
                self._work(owned, reason)
        except (NotKeptError, BusyError, QuotaError) as error:
            log.info("job_put_off", why=str(error))
            with suppress(DreamdError):
                self._leases.put_off(workspace, _wait_after(error))
        except (NothingToDoError, StoppedError, FencedError, UnreachableError, NotFoundError) as error:
            log.info("job_ended", why=str(error))  # the sweep finds what was not committed
        except Exception as error:  # noqa: BLE001 - it is told, and tried again later
            log.error("job_failed", error=error)
            mine = self.ownership.find(workspace)
            if mine is not None and mine.lost:  # another one's job is none of ours
                return
            with suppress(DreamdError):
                self._leases.settle_failed(workspace, failure(error).what)

    def _work(self, owned: Owned, reason: str) -> None:
        if owned.dreaming:
            raise BusyError(f"{owned.place.handle}: a dream is under way", "what it leaves is done afterwards")
        decision = owned.decision()
        if reason or (decision is not None and decision.action is Action.DREAM):
            why = Reason(reason) if reason else decision.reason if decision is not None else None
            self._require_room(owned)
            self.jobs.dream(owned, why or Reason.MANUAL, Mode(self._config.dream.mode), lambda _: None, queued=True)
        elif decision is not None and decision.action is Action.PASS:
            self.jobs.consolidate(owned, decision.reason)
        else:
            owned.settle()

    # ------------------------------------------------------------ threads

    def _look(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                self.ownership.give_back_idle(self._config.fleet.idle_seconds)
                for owned in self.ownership.all():
                    owned.keeper.close_idle()
                self.ownership.remove_old_copies()
                self._objects.ask_again()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look comes
                logs.get().error("round_failed", error=error)

    def _drop_erased(self) -> None:
        """Remove copies of workspaces in which something was forgotten, or which are gone."""
        seen, left, pause = 0, set[int](), _SOON_SECONDS
        while not self._stopping.wait(pause):
            pause = _ERASURES_SECONDS
            try:
                for number, workspace in self._places.erasures(seen):
                    left.add(workspace)
                    seen = number
                left = {one for one in left if not self._is_removed(one)}
            except DreamdError:
                continue  # the database is away; the lifetime says so

    def _is_removed(self, workspace: int) -> bool:
        """Remove the copy of a workspace, and return whether it could be. One that cannot be holds up no other."""
        try:
            return self.ownership.remove_copy(workspace)
        except OSError as error:
            logs.get(workspace=f"ws-{workspace}").error("copy_not_removed", error=error)
            return False

    # ------------------------------------------------------------ start and end

    def start(self) -> None:
        """Be known to the fleet, and take work. Raise UnreachableError."""
        self.lifetime.start()
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float) -> bool:
        """Take nothing more, end dreams at their next node, give back everything; return whether all ended."""
        deadline = time.monotonic() + seconds
        self.lifetime.drain()
        self._stopping.set()
        while time.monotonic() < deadline and any(owned.users for owned in self.ownership.all()):
            self.ownership.give_back_idle(0)
            time.sleep(0.05)
        self.ownership.give_back_idle(0)
        if left := self.ownership.cut_off():
            with suppress(DreamdError):
                self._schedule.abandon(left)
        ended = not self.ownership.all()
        self.lifetime.stop()
        self._dreamers.shutdown(wait=False, cancel_futures=True)
        return ended

    def trim(self) -> None:
        """Free what is not needed now: an idle embedding model."""
        if minutes := self._config.embeddings.idle_minutes:
            self._embedding.rest(minutes * 60)

    @property
    def stopping(self) -> threading.Event:
        """Set when the worker ends."""
        return self._stopping

    def thresholds(self) -> Thresholds:
        """Return the thresholds of the triggers, as configured."""
        section = self._config.dream
        return Thresholds(
            interval=timedelta(minutes=section.interval_minutes),
            min_chunks=section.min_chunks,
            idle=timedelta(minutes=section.idle_minutes),
            passes_every=timedelta(minutes=self._config.daemon.pass_minutes),
        )

    def _condition(self) -> Condition:
        return Condition(len(self.ownership.all()), self.jobs.dreaming, self._objects.problem)

    def _require_room(self, owned: Owned) -> None:
        """Count a dream of the owner's tenant from now on, or raise QuotaError."""
        fleet = self._config.fleet
        with_all = bool(fleet.usd_per_day or fleet.tokens_per_day)

        def refused(quotas: Quotas, own: Use, everybody: Use) -> str:
            return refusal(self._config, quotas, own, everybody)

        if what := self._schedule.admit(owned.place, refused, with_all=with_all):
            raise QuotaError(f"the day's ceiling of {what} is reached", "it opens at midnight UTC")

    def _queue(self, owned: Owned, reason: Reason) -> None:
        self._schedule.queue(owned.place.id, reason.value, self.lifetime.worker.queue)

    def _service_status(self, keeper: Keeper) -> ServiceStatus:
        problems = (keeper.dream_problem, keeper.pass_problem, *keeper.unread_transcripts)
        return ServiceStatus(
            pid=0,
            since=self._since,
            upcoming=BY_FLEET,
            at=None,
            dreaming=keeper.dreaming,
            alone=keeper.exclusive_busy,
            problems=tuple(dict.fromkeys(problem for problem in problems if problem is not None)),
        )


def _wait_after(error: DreamdError) -> timedelta:
    """Return after how long a job that could not be done is tried again."""
    if isinstance(error, QuotaError):
        now = utc_now()
        return min(_CEILING_WAIT, day_start(now) + timedelta(days=1) - now)
    return _BUSY_WAIT if isinstance(error, BusyError) else _NOT_KEPT_WAIT


def _number(name: str) -> int:
    """Return the number in a workspace's name among workers. Raise UnknownWorkspaceError."""
    kind, _, digits = name.partition("-")
    if kind != "ws" or not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise UnknownWorkspaceError(f"there is no workspace {name[:60]!r}", "a worker is asked by gateways alone")
    return int(digits)
