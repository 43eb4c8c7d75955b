"""Gateway: tenants' workspaces as `DaemonApi`, for the HTTP application and the MCP endpoint inside a gateway.

A workspace is opened by its handle, which only this gateway's authentication writes. Nothing is kept here that
another gateway would miss: any number of them serve one fleet.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

from daemon.api.access import WorkspaceAccess
from daemon.api.daemon import DaemonInfo, DaemonStatus
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.fleet.connections import Connections
from daemon.fleet.gateways.arrivals import Arrivals
from daemon.fleet.gateways.bearers import Bearers
from daemon.fleet.gateways.gateway_access import GatewayAccess
from daemon.fleet.gateways.names import SIGN, handle_parts, unknown
from daemon.fleet.gateways.quotas import NoteQuotas
from daemon.fleet.gateways.replicas import Replicas
from daemon.fleet.gateways.worker_calls import WorkerCalls
from daemon.fleet.lifetime import Lifetime
from daemon.fleet.recent import Recent
from daemon.fleet.upkeep.metrics import FleetMetrics
from daemon.observability.metrics import Metrics
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.errors import DreamdError, NotFoundError, UsageError
from state.fleet.tenant import Token, is_name
from state.fleet.workspace import Place, Worker
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.places import Places
from state.stores.fleet.processes import Condition, Processes
from state.stores.fleet.standings import Standings
from state.stores.fleet.tenants import Tokens

_MOST_PLACES, _PLACE_SECONDS = 100_000, 60.0
# An owner that is silent for so long is not waited for by who only reads: there is a replica.
_READING_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What the calls of one gateway share. `reading` gives up sooner than `calls`."""

    config: Callable[[], Config]
    embedding: Embedding
    standings: Standings
    places: Places
    arrivals: Arrivals
    replicas: Replicas
    quotas: NoteQuotas
    calls: WorkerCalls
    reading: WorkerCalls
    known: Recent[tuple[int, str], Place] = field(default_factory=lambda: Recent(_MOST_PLACES, _PLACE_SECONDS))

    def place(self, token: Token, name: str) -> Place:
        """Return the workspace, which may have gone in the last minute: the inbox refuses a note for it then.

        Raise NotFoundError, the same whether there is none or it is not for this token.
        """
        if not is_name(name) or not token.reaches(name):
            raise unknown(name)
        key = token.tenant.id, name
        place = self.known.get(key)
        if place is None:
            with suppress(NotFoundError):
                place = self.standings.find(*key).place
            if place is None:
                raise unknown(name)
            self.known.put(key, place)
        return place

    def forget_place(self, place: Place) -> None:
        """Look the workspace up anew the next time: it is gone."""
        self.known.drop((place.tenant, place.name))


class Gateway:
    """One process that serves tenants. Any thread may call."""

    def __init__(
        self,
        load: Callable[[], Config],
        connections: Connections,
        folder: Path,
        embedding: Embedding | None = None,
    ) -> None:
        """`folder` is this process's own."""
        self._config = load()
        self._since = utc_now()
        self._metrics = Metrics(version("dreamd"), self._since.timestamp())
        self._metrics.include(FleetMetrics(connections.database))
        database = connections.database
        # By then a pass or an idle dream may be due.
        minutes = min(self._config.dream.idle_minutes, self._config.daemon.pass_minutes)
        self.inbox = Inbox(database, timedelta(minutes=minutes))
        self.bearers = Bearers(Tokens(database, os.urandom).authenticate)
        self._database = database
        self._lifetime: Lifetime | None = None
        self._erasures_seen = 0
        standings, processes = Standings(database), Processes(database)

        def owner_of(place: Place) -> Worker | None:
            return standings.find(place.tenant, place.name).owner

        def bytes_of(place: Place) -> int:
            return standings.find(place.tenant, place.name).bytes

        self.parts = Parts(
            config=lambda: self._config,
            embedding=embedding
            or Embedding(download=self._config.embeddings.download, model=self._config.embeddings.model),
            standings=standings,
            places=Places(database),
            arrivals=Arrivals(self.inbox.put),
            replicas=Replicas(
                folder / "replicas", connections.objects, standings, lambda: self._config.secrets.redaction
            ),
            quotas=NoteQuotas(self.inbox.notes_this_minute, bytes_of),
            calls=WorkerCalls(owner_of, processes.workers),
            reading=WorkerCalls(owner_of, lambda: (), _READING_PATIENCE_SECONDS),
        )

    @property
    def config(self) -> Config:
        """The configuration; its section of HTTP is that of the gateway's port."""
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

    def register(self, root: Path, *, trust: bool = False) -> str:  # noqa: ARG002 - as the daemon's
        """Raise UsageError: a gateway registers no folders."""
        raise UsageError("a gateway has no folders", "make a workspace with POST /v1/workspaces")

    def unregister(self, name: str) -> None:
        """Raise UsageError: a workspace of a gateway is removed over HTTP."""
        raise UsageError(
            f"{handle_parts(name)[1]!r} is not unregistered here", "DELETE /v1/workspaces/NAME removes it"
        )

    def meant(self, given: str) -> str:
        """Return the handle of the workspace that a path of MCP names, if this token reaches it.

        Raise UsageError when none is named, and NotFoundError.
        """
        token, name = self._bearer(given)
        if not name:
            raise UsageError("which workspace is meant?", "ask at /mcp/NAME; GET /v1/workspaces lists yours")
        self.parts.place(token, name)
        return given

    def keeps(self, name: str) -> bool:
        """Tell whether the bearer of this handle has been seen of late."""
        return self.bearers.known(handle_parts(name)[0]) is not None

    def owner_of(self, name: str) -> str:
        """Return the tenant of this handle's bearer, which has its share of threads and no more."""
        token = self.bearers.known(handle_parts(name)[0])
        return str(token.tenant.id) if token is not None else ""

    def pulse(self, name: str) -> str:
        """Return the same at every call: no page of a gateway waits for a change."""
        return name.partition(SIGN)[2]

    @contextmanager
    def open(self, name: str, on_step: Callable[[Step], None]) -> Iterator[WorkspaceAccess]:
        """Give access to the workspace of this handle. Raise NotFoundError."""
        token, own = self._bearer(name)
        yield GatewayAccess(self.parts, token, self.parts.place(token, own), on_step)

    def unready_reason(self) -> str:
        """Return why it does not serve now; empty when it does."""
        return self._lifetime.problem if self._lifetime is not None else "the gateway is starting"

    def start(self, address: str, seconds: float | None = None) -> None:
        """Be known to the fleet at this address. Raise UnreachableError."""
        self._erasures_seen = self.parts.places.last_erasure()  # there are no copies yet
        me = Worker(uuid4(), address, "")
        self._lifetime = Lifetime(
            self._database, me, "gateway", Condition, after_each=self._drop_forgotten, seconds=seconds
        )
        self._lifetime.start()

    def stop(self) -> None:
        """Be known no more."""
        if self._lifetime is not None:
            self._lifetime.stop()

    def _drop_forgotten(self) -> None:
        """Drop the copies of workspaces in which something was forgotten since, or which are gone."""
        for number, workspace in self.parts.places.erasures(self._erasures_seen):
            self.drop(workspace)
            self._erasures_seen = number

    def drop(self, workspace: int) -> None:
        """Keep no copy of this workspace: something in it was forgotten, or it is gone."""
        with suppress(DreamdError):
            self.parts.replicas.drop(workspace)

    def remove(self, place: Place) -> None:
        """Remove a workspace: nothing of it is given out from now on."""
        self.parts.places.close(place)
        self.parts.forget_place(place)
        self.drop(place.id)

    def _bearer(self, given: str) -> tuple[Token, str]:
        identity, name = handle_parts(given)
        token = self.bearers.known(identity)
        if token is None:
            raise unknown(name)
        return token, name
