"""Process: one of the fleet, as `DaemonApi` for its port: any number of them, all alike, serve its tenants.

                          ┌─ heartbeat: one statement every five seconds
    agents ─HTTP, MCP─> doors ─> access ─> desk (leases, folders, stores) ─> operations ─> commit ─> answer
                                   │         ▲
                                   │         └─ jobs of the schedule: dreams, passes
                                   └─> the process that holds the workspace

A workspace is opened by its handle, which only the doors of this process write.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, cast

from daemon.api.access import WorkspaceAccess
from daemon.api.daemon import DaemonInfo, DaemonStatus
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.fleet.connections import Connections
from daemon.fleet.decision import without_machines_ceilings
from daemon.fleet.desk import Desk, StoreWatch
from daemon.fleet.doors.access import HeldAccess, TenantAccess
from daemon.fleet.doors.arrivals import Arrivals
from daemon.fleet.doors.bearers import Bearers, Recent
from daemon.fleet.doors.disclosure import unknown
from daemon.fleet.doors.names import SIGN, handle_parts
from daemon.fleet.doors.quotas import NoteQuotas
from daemon.fleet.held import Held, Surroundings
from daemon.fleet.lifetime import Lifetime
from daemon.fleet.upkeep.metrics import FleetMetrics
from daemon.fleet.work import Work
from daemon.observability import logs
from daemon.observability.metrics import Metrics
from daemon.service.schedule import Thresholds
from daemon.workspace.status import BY_FLEET, ServiceStatus
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.errors import DreamdError, NotFoundError, UsageError
from state.fleet.tenant import Token, is_name
from state.fleet.workspace import Place
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.leases import Leases
from state.stores.fleet.places import Places
from state.stores.fleet.processes import Condition
from state.stores.fleet.schedule import Schedule
from state.stores.fleet.tenants import Tokens

if TYPE_CHECKING:
    from daemon.service.keeper import Keeper

_MOST_PLACES, _PLACE_SECONDS = 100_000, 60.0
_LOOK_SECONDS, _LOST_EVERY = 2.0, 5


@dataclass(frozen=True, slots=True)
class Parts:
    """What the calls of one process share."""

    config: Callable[[], Config]
    desk: Desk
    places: Places
    arrivals: Arrivals
    quotas: NoteQuotas
    secret_of: Callable[[Token], str]
    held_access: Callable[[Held, Callable[[Step], None], list[str]], HeldAccess]
    known: Recent[tuple[int, str], Place] = field(default_factory=lambda: Recent(_MOST_PLACES, _PLACE_SECONDS))

    def place(self, token: Token, name: str, *, anew: bool = False) -> Place:
        """Return the workspace, which may have gone in the last minute, unless it is looked up `anew`.

        Raise NotFoundError, the same whether there is none or it is not for this token.
        """
        if not is_name(name) or not token.reaches(name):
            raise unknown(name)
        key = token.tenant.id, name
        place = None if anew else self.known.get(key)
        if place is None:
            try:
                place = self.places.find(*key).place
            except NotFoundError:
                self.known.drop(key)
                raise unknown(name) from None
            self.known.put(key, place)
        return place


class FleetProcess:
    """One process of the fleet. Any thread may call."""

    def __init__(
        self,
        config: Config,
        connections: Connections,
        folder: Path,
        address: str,
        embedding: Embedding | None = None,
    ) -> None:
        """`folder` is this process's own; `address`: where others reach it."""
        self._config = without_machines_ceilings(config)
        self.database, self.objects = connections.database, connections.objects
        self._since = utc_now()
        self.stopping = threading.Event()
        """Set when the process ends."""
        self._metrics = Metrics(version("dreamd"), self._since.timestamp())
        self._metrics.include(FleetMetrics(self.database, config))
        self._embedding = embedding or Embedding(download=config.embeddings.download, model=config.embeddings.model)
        leases, places, self._schedule = Leases(self.database), Places(self.database), Schedule(self.database)
        # By then a pass or an idle dream may be due.
        minutes = min(config.dream.idle_minutes, config.daemon.pass_minutes)
        inbox = Inbox(self.database, timedelta(minutes=minutes))
        self._watch = StoreWatch(self.objects)
        slots = config.fleet.dreams_at_once
        self.lifetime = Lifetime(self.database, "serve", self._condition, address, slots)
        around = Surroundings(
            lambda: self._config, self._embedding, leases, inbox, self._thresholds, self._watch.asking
        )
        self.desk = Desk(folder / "workspaces", self._watch, leases, around, self.lifetime.id)
        self.work = Work(self._config, self.desk, leases, self._schedule, self._metrics, self.stopping)
        self._dreamers = ThreadPoolExecutor(slots, "dream")
        self.bearers = Bearers(Tokens(self.database, os.urandom).authenticate)
        self.parts = Parts(
            config=lambda: self._config,
            desk=self.desk,
            places=places,
            arrivals=Arrivals(inbox.put),
            quotas=NoteQuotas(inbox.notes_this_minute, lambda place: places.find(place.tenant, place.name).bytes),
            secret_of=self.bearers.secret_of,
            held_access=self._held_access,
        )

    # ------------------------------------------------------------ DaemonApi

    @property
    def config(self) -> Config:
        """The configuration; its section of HTTP is that of the port."""
        return self._config

    @property
    def metrics(self) -> Metrics:
        """The counters."""
        return self._metrics

    def info(self) -> DaemonInfo:
        """Describe the process alone: its tenants ask which workspaces they have."""
        return DaemonInfo(
            version=version("dreamd"),
            pid=0,
            since=self._since,
            at=utc_now(),
            socket="",
            http="",
            dreaming=0,
            waiting=0,
            workspaces=(),
            problems=(),
        )

    def status(self) -> DaemonStatus:
        """Return the status of the process alone."""
        return DaemonStatus(self.info(), ())

    def register(self, root: Path) -> str:  # noqa: ARG002 - as the daemon's
        """Raise UsageError: a fleet registers no folders."""
        raise UsageError("a fleet has no folders", "make a workspace with POST /v1/workspaces")

    def unregister(self, name: str) -> None:
        """Raise UsageError: a workspace of a fleet is removed over HTTP."""
        raise UsageError(
            f"{handle_parts(name).name!r} is not unregistered here", "DELETE /v1/workspaces/NAME does it"
        )

    def meant(self, given: str) -> str:
        """Return the handle of the workspace that a path of MCP names, if this token reaches it.

        Raise UsageError when none is named, and NotFoundError.
        """
        token, name, _ = self._bearer(given)
        if not name:
            raise UsageError("which workspace is meant?", "ask at /mcp/NAME; GET /v1/workspaces lists yours")
        self.parts.place(token, name)
        return given

    def keeps(self, name: str) -> bool:
        """Tell whether the bearer of this handle has been seen of late."""
        return self.bearers.known(handle_parts(name).token) is not None

    def owner_of(self, name: str) -> str:
        """Return the tenant of this handle's bearer, which has its share of threads and no more."""
        token = self.bearers.known(handle_parts(name).token)
        return str(token.tenant.id) if token is not None else ""

    def pulse(self, name: str) -> str:
        """Return the same at every call: no page of a fleet waits for a change."""
        return name.partition(SIGN)[2]

    @contextmanager
    def open(self, name: str, on_step: Callable[[Step], None]) -> Iterator[WorkspaceAccess]:
        """Give access to the workspace of this handle. Raise NotFoundError."""
        token, own, is_forwarded = self._bearer(name)
        access = TenantAccess(self.parts, token, self.parts.place(token, own), on_step, is_forwarded)
        # Of an access the servers use `run` and `notices`; a tenant's has no more.
        yield cast("WorkspaceAccess", access)

    def unready_reason(self) -> str:
        """Return why it does not serve now; empty when it does."""
        if self.stopping.is_set():
            return "the process is stopping"
        return self.lifetime.problem or self._watch.problem

    def _bearer(self, given: str) -> tuple[Token, str, bool]:
        parts = handle_parts(given)
        token = self.bearers.known(parts.token)
        if token is None:
            raise unknown(parts.name)
        return token, parts.name, parts.is_forwarded

    # ------------------------------------------------------------ workspaces that are held

    def _held_access(self, held: Held, on_step: Callable[[Step], None], notices: list[str]) -> HeldAccess:
        return HeldAccess(
            held.keeper,
            self._config,
            on_step,
            lambda _, reason, mode, step: self._dreamers.submit(
                self.work.dream, held, reason, mode, step or (lambda _: None)
            ),
            lambda _: None,
            self._service_status,
            held.keeper.acquire,
            notices,
            held=held,
            queue=self._queue,
            require_room=self.work.require_room,
        )

    def _queue(self, held: Held, reason: Reason) -> None:
        self._schedule.queue(held.place.id, reason.value, self.queue)

    @property
    def queue(self) -> str:
        """The queue of the jobs for workspaces that this process holds."""
        return f"w{self.lifetime.id.hex}"

    def _service_status(self, keeper: "Keeper") -> ServiceStatus:
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

    def _thresholds(self) -> Thresholds:
        section = self._config.dream
        return Thresholds(
            interval=timedelta(minutes=section.interval_minutes),
            min_chunks=section.min_chunks,
            idle=timedelta(minutes=section.idle_minutes),
            passes_every=timedelta(minutes=self._config.daemon.pass_minutes),
        )

    def _condition(self) -> Condition:
        return Condition(len(self.desk.all()), self.work.dreaming, self._watch.problem)

    # ------------------------------------------------------------ start and end

    def start(self) -> None:
        """Be known to the fleet, and take work. Raise UnreachableError."""
        self.lifetime.start()
        threading.Thread(target=self._look, name="look", daemon=True).start()

    def _look(self) -> None:
        looks = 0
        while not self.stopping.wait(_LOOK_SECONDS):
            looks += 1
            try:
                self.desk.look(self._config.fleet.idle_seconds)
                if minutes := self._config.embeddings.idle_minutes:
                    self._embedding.rest(minutes * 60)
                if looks % _LOST_EVERY == 0:
                    with suppress(DreamdError):  # the database is away; the lifetime says so
                        self.desk.drop_lost()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look comes
                logs.get().error("round_failed", error=error)

    def stop(self, seconds: float) -> bool:
        """Take nothing more, end dreams at their next node, give back everything; return whether all ended."""
        deadline = time.monotonic() + seconds
        self.lifetime.drain()
        self.stopping.set()
        self.desk.closed = True
        while time.monotonic() < deadline and any(held.users for held in self.desk.all()):
            self.desk.give_back_idle(0)
            time.sleep(0.05)
        self.desk.give_back_idle(0)
        if left := self.desk.cut_off():
            with suppress(DreamdError):
                self._schedule.abandon(left)
        ended = not self.desk.all()
        self.lifetime.stop()
        self._dreamers.shutdown(wait=False, cancel_futures=True)
        return ended
