"""Process: one process of the fleet. A fleet has any number of them, all alike.

┌─ heartbeat: one statement every five seconds
agents ─HTTP, MCP─> doors ─> api ─> access ─> desk (leases, folders, stores) ─> operations ─> commit ─> answer
│         ▲
│         └─ jobs of the schedule: dreams, passes
└─> the process that holds the workspace
"""

import threading
import time
from contextlib import suppress
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from daemon.config.settings import Config
from daemon.engine.work import Work
from daemon.fleet.arrivals import Arrivals
from daemon.fleet.bearers import Bearers, ExpiringCache
from daemon.fleet.connections import Connections
from daemon.fleet.desk import Desk
from daemon.fleet.disclosure import unknown
from daemon.fleet.jobs import Jobs, reserve
from daemon.fleet.leased import Leased, Surroundings
from daemon.fleet.lifetime import Lifetime, every
from daemon.fleet.upkeep.status import FleetMetrics
from daemon.models.command import preset_of
from daemon.observability import logs
from daemon.observability.metrics import Metrics
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.errors import ConfigError, DreamdError, NotFoundError
from state.fleet import Place, Token, is_name
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.leases import Condition, Leases
from state.stores.fleet.registry import Places
from state.stores.fleet.schedule import ANYBODYS_QUEUE, Schedule
from state.stores.generations.guard import PROBE_SECONDS, GuardedObjects

_MOST_PLACES, _PLACE_SECONDS = 100_000, 60.0
_LOOK_SECONDS = 2.0
_NO_CEILING_USD, _NO_CEILING_TOKENS = 1e12, 10**15


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
        """`folder`: this process's own; `address`: where other processes reach it."""
        self.config = reached_at(without_machines_ceilings(config), address)
        """The configuration; its HTTP section applies to the port."""
        self.database, self.objects = connections.database, GuardedObjects(connections.objects, connections.mark)
        self.since = utc_now()
        self.stopping = threading.Event()
        """Set when the process begins to stop."""
        self.metrics = Metrics(version("dreamd"), self.since.timestamp())
        self.metrics.include(FleetMetrics(self.database, config, lambda: self.objects.problem))
        self._embedding = embedding or Embedding(model=config.embeddings.model)
        slots = config.fleet.dreams_at_once
        self.lifetime = Lifetime(self.database, self._condition, address, slots)
        # After a note arrives, this is the earliest time that a pass or an idle dream may be due.
        minutes = min(config.dream.idle_minutes, config.daemon.pass_minutes)
        self.inbox = Inbox(self.database, timedelta(minutes=minutes))
        self._schedule, leases = Schedule(self.database), Leases(self.database)
        around = Surroundings(
            self.config, self._embedding, leases, self.inbox, self.objects,
            partial(reserve, self.config, self._schedule),
        )  # fmt: skip
        self.desk = Desk(folder / "workspaces", around, self.lifetime.id)
        # Discreet: tenants can read ledgers and generations, so errors of the operator's model go to the log alone.
        self.work = Work(self.metrics, self.stopping, slots, slots, discreet=True)
        self.jobs = Jobs(self.desk, leases, self.work)
        self.bearers = Bearers(self.database.tokens.authenticate)
        self.places = Places(self.database)
        self.known: ExpiringCache[tuple[int, str], Place] = ExpiringCache(_MOST_PLACES, _PLACE_SECONDS)
        """Workspaces looked up in the last minute, by tenant and name."""
        self.arrivals = Arrivals(self.inbox.put)

    def unready_reason(self) -> str:
        """Return why the process cannot take a note now; empty if it can, for which it needs PostgreSQL alone."""
        return "the process is stopping" if self.stopping.is_set() else self.lifetime.problem

    def place(self, token: Token, name: str, *, anew: bool = False) -> Place:
        """Return the workspace, from a cache of one minute unless `anew`.

        Raise the same NotFoundError whether it does not exist or this token does not reach it.
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

    def queue_dream(self, held: Leased, reason: Reason) -> None:
        """Queue a dream for whichever process holds the workspace then."""
        self._schedule.queue(held.place.id, reason.value, self.queue)

    @property
    def queue(self) -> str:
        """Return the name of the job queue for workspaces that this process holds; everybody's once it is to end."""
        return ANYBODYS_QUEUE if self.lifetime.is_draining else f"w{self.lifetime.id.hex}"

    # ------------------------------------------------------------ start and end

    def start(self) -> None:
        """Join the fleet, and begin the periodic work. Raise UnreachableError."""
        self.lifetime.start()
        every(_LOOK_SECONDS, "round", self._look, self.stopping)
        every(5 * _LOOK_SECONDS, "round", self.desk.drop_lost, self.stopping)
        every(PROBE_SECONDS, "store", self._probe_store, self.stopping)

    def _condition(self) -> Condition:
        return Condition(len(self.desk.all()), self.work.dreams.running, self.objects.problem)

    def _look(self) -> None:
        self.desk.tidy(self.config.fleet.idle_seconds)
        if minutes := self.config.embeddings.idle_minutes:
            self._embedding.rest(minutes * 60)

    def _probe_store(self) -> None:
        before = self.objects.problem
        self.objects.probe()
        now = self.objects.problem
        if now and not before:
            logs.get().error("objects_unreachable", why=now)
        elif before and not now:
            logs.get().info("objects_reached")
        if self.objects.is_replaced:
            self.desk.distrust_store()

    def stop(self, seconds: float) -> bool:
        """Take no more work, end dreams at their next node, give back all workspaces; return whether all ended."""
        deadline = time.monotonic() + seconds
        with suppress(DreamdError):
            self.lifetime.drain()
        self.stopping.set()
        self.desk.closed = True
        while time.monotonic() < deadline and any(held.callers for held in self.desk.all()):
            self.desk.give_back_idle(0)
            time.sleep(0.05)
        self.desk.give_back_idle(0)
        if left := self.desk.cut_off():
            with suppress(DreamdError):
                self._schedule.abandon(left)
        ended = not self.desk.all()
        self.lifetime.stop()
        return ended


def reached_at(config: Config, address: str) -> Config:
    """Return the configuration with the host of this address among those that the process goes by."""
    host = urlsplit(address if "//" in address else f"//{address}").hostname or ""
    allowed = (*config.http.allowed_hosts, *([host] if host not in ("", "127.0.0.1", "localhost") else []))
    return config.model_copy(update={"http": config.http.model_copy(update={"allowed_hosts": allowed})})


def without_machines_ceilings(config: Config) -> Config:
    """Return the configuration without the ceilings of one machine, which spends for many tenants here.

    `reserve` applies the fleet's and the tenants' ceilings. Raise ConfigError for a program, such as a
    person's own agent.
    """
    if config.model.name is not None and preset_of(config.model.name):
        who = f"model.name is {config.model.name}, a program that answers on the login of one person"
        raise ConfigError(who, "tenants' dreams want a provider's model.")
    section = config.daemon.model_copy(update={"usd_per_day": _NO_CEILING_USD, "tokens_per_day": _NO_CEILING_TOKENS})
    return config.model_copy(update={"daemon": section})
