"""Status: figures and problems of the whole fleet, for people and for Prometheus; never a word of a tenant's memory.

Every process exports the same metrics, and no label grows with the fleet.
"""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client.core import GaugeMetricFamily

from daemon.config.settings import Config
from daemon.observability import logs
from daemon.workspace.status import Problem
from state.errors import DreamdError
from state.stores.fleet import figures
from state.stores.fleet.database import FleetDatabase, named
from state.stores.fleet.figures import Counts, Failing, InboxFigures, Removing, SpentToday
from state.stores.fleet.leases import Process, processes

_MOST_FAILING = 20
_MOST_TENANTS = 5
# Beyond these, something is wrong. The sweep runs every second and takes five hundred workspaces at a time.
_LAG_SECONDS = 60.0
# A process fetches a job within seconds; if every slot is taken, the job waits minutes for a dream to end.
_QUEUED_SECONDS = 1_800.0
_REMOVAL_SECONDS = 3_600.0
# The next pass takes an inbox in.
_PASSES = 6


KINDS = ("processes", "process", "address", "versions", "sweep", "queue", "failing", "inbox", "removal", "ceiling")
"""Kinds of problems, as the metrics label them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetProblem(Problem):
    """A problem of the fleet: `kind` is one of `KINDS`; `since` is when it began, None if nobody knows."""

    kind: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Daily ceilings of all tenants together; 0: no ceiling."""

    usd_per_day: float
    tokens_per_day: int


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """The fleet at one moment. `database`, `objects`: their addresses; `spenders`: tenants that spent most today.

    `inbox.workspaces` counts workspaces whose last generation lacks something that was acknowledged.
    """

    at: datetime
    database: str
    objects: str
    processes: tuple[Process, ...]
    counts: Counts
    failing: tuple[Failing, ...]
    inbox: InboxFigures
    spent: SpentToday
    spenders: tuple[SpentToday, ...]
    ceilings: Ceilings
    removing: Removing
    problems: tuple[FleetProblem, ...]


def fleet_status(
    database: FleetDatabase, config: Config, oldest_minutes: float | None = None, spenders: int = _MOST_TENANTS
) -> FleetStatus:
    """Return the status of the fleet, with at most this many `spenders`. Raise UnreachableError.

    An inbox row that waits for longer than `oldest_minutes` is a problem (by default: derived from the schedule).
    """
    fleet, known = config.fleet, tuple(processes(database))
    [counts] = database.all(Counts, figures.COUNTS)
    [inbox] = database.all(InboxFigures, figures.INBOX)
    [removing] = database.all(Removing, figures.REMOVING)
    spent, *most = database.all(SpentToday, figures.SPENT, {"most": spenders + 1})
    failing = tuple(database.all(Failing, figures.FAILING, {"most": _MOST_FAILING}))
    ceilings = Ceilings(fleet.usd_per_day, fleet.tokens_per_day)
    if oldest_minutes is None:
        oldest_minutes = _PASSES * config.daemon.pass_minutes + config.dream.interval_minutes / 10
    problems = (
        *_of_processes(known, counts.at),
        *_of_addresses([one for one in known if one.alive]),
        *_of_work(failing, counts),
        *_of_waiting(inbox, removing, counts.at, oldest_minutes),
        *_of_money(spent, ceilings),
    )
    return FleetStatus(
        counts.at,
        named(fleet.database),
        fleet.objects,
        known,
        counts,
        failing,
        inbox,
        spent,
        tuple(most),
        ceilings,
        removing,
        problems,
    )


_LOOPBACK = re.compile(r"https?://(127\.[0-9.]+|localhost|\[::1\])(:|/|$)")


def _problem(kind: str, since: datetime | None, what: str, advice: str) -> FleetProblem:
    return FleetProblem(what, advice, kind=kind, since=since)


def _of_processes(every: tuple[Process, ...], now: datetime) -> Iterator[FleetProblem]:
    alive = [one for one in every if one.alive]
    if all(one.draining for one in alive):
        last = max((now - timedelta(seconds=one.silent_seconds) for one in every), default=None)
        what = "no process lives: no agent reaches its memory, and nothing is dreamt"
        yield _problem("processes", last, what, "start 'dreamd fleet serve' on any machine of the fleet")
    for one in alive:
        if one.problem:
            what = f"the process at {one.address} says: {one.problem}"
            advice = f"look from {one.host} at fleet.objects; it goes on by itself once the fleet's objects are there"
            yield _problem("process", one.healthy_at, what, advice)
    if len({one.version for one in alive}) > 1:
        newest = max(alive, key=lambda one: one.started_at)
        others = [one for one in alive if one.version != newest.version]
        what = (
            f"dreamd {newest.version} and {', '.join(sorted({one.version for one in others}))} live side by side:"
            " the older may refuse workspaces that the newer has written"
        )
        advice = f"finish the upgrade: restart {', '.join(one.address for one in others)}"
        yield _problem("versions", newest.started_at, what, advice)


def _of_addresses(alive: list[Process]) -> Iterator[FleetProblem]:
    hosts = defaultdict[str, list[Process]](list)
    for one in alive:
        hosts[one.address].append(one)
    for address, at in hosts.items():
        since, names = max(one.started_at for one in at), ", ".join(sorted(one.host for one in at))
        if len(at) > 1:
            what = f"{len(at)} processes have the address {address}, on {names}: one answers for all"
            yield _problem("address", since, what, "set fleet.host or fleet.address of each to where others reach it")
        elif _LOOPBACK.match(address) and len({one.host for one in alive}) > 1:
            what = f"the process at {address} on {names} is reached from that machine alone"
            yield _problem("address", since, what, "set its fleet.host or fleet.address to where others reach it")


def _of_work(failing: tuple[Failing, ...], counts: Counts) -> Iterator[FleetProblem]:
    if counts.lag_seconds > _LAG_SECONDS:
        yield _problem(
            "sweep",
            counts.at - timedelta(seconds=counts.lag_seconds),
            f"the sweep does not keep up: a workspace is due for {counts.lag_seconds / 60:.0f} minutes, not queued",
            "restart the processes whose log has 'sweep_failed'; without one, PostgreSQL is too slow",
        )
    if counts.queued_seconds > _QUEUED_SECONDS:
        yield _problem(
            "queue",
            counts.at - timedelta(seconds=counts.queued_seconds),
            f"the queue does not move: a job waits for {counts.queued_seconds / 60:.0f} minutes",
            "start more processes, or raise fleet.dreams_at_once",
        )
    if failing:
        what = "1 workspace fails" if counts.failing == 1 else f"{counts.failing:,} workspaces fail"
        first = failing[0]
        which = f"{first.tenant}/{first.workspace}, {first.failures} in a row: {first.problem}"
        again = f", this one at {first.due_at:%H:%M} UTC" if first.due_at else ""
        advice = f"mend what it says, the log of its process has more ('job_failed'); each is tried again{again}"
        since = min((one.since for one in failing if one.since), default=None)
        yield _problem("failing", since, f"{what}; {which}", advice)


def _of_waiting(
    inbox: InboxFigures, removing: Removing, now: datetime, oldest_minutes: float
) -> Iterator[FleetProblem]:
    if inbox.oldest_seconds > 60 * oldest_minutes:
        yield _problem(
            "inbox",
            now - timedelta(seconds=inbox.oldest_seconds),
            f"what was acknowledged {inbox.oldest_seconds / 60:.0f} minutes ago still waits in an inbox",
            f"{oldest_minutes:.0f} are usual; mend the other problems, or start more processes",
        )
    if removing.oldest_seconds > _REMOVAL_SECONDS:
        yield _problem(
            "removal",
            now - timedelta(seconds=removing.oldest_seconds),
            f"what was removed {removing.oldest_seconds / 3600:.0f} hours ago is not deleted yet",
            "run 'dreamd fleet tenant remove' again; the logs of processes say why ('removal_failed')",
        )


def _of_money(spent: SpentToday, ceilings: Ceilings) -> Iterator[FleetProblem]:
    for most, used, said, key in (
        (ceilings.usd_per_day, spent.usd, f"${ceilings.usd_per_day:,.2f}", "fleet.usd_per_day"),
        (ceilings.tokens_per_day, spent.tokens, f"{ceilings.tokens_per_day:,} tokens", "fleet.tokens_per_day"),
    ):
        if most and used >= most:
            what = f"the fleet's ceiling of {said} a day is reached"
            advice = f"nothing dreams until midnight UTC; raise {key} and restart the processes, or wait"
            yield _problem("ceiling", None, what, advice)


# ------------------------------------------------------------------- metrics

KEPT_SECONDS = 10.0
MOST_TENANTS = 20
Samples = Iterable[tuple[Mapping[str, str], float]]
_UP = ("up", "Whether the database of the fleet could be asked.")
_STORE_UP = ("store_up", "Whether this process reaches the object store, and it is the fleet's own.")


class FleetMetrics:
    """The fleet's figures as a collector for `daemon.observability.metrics.Metrics.include`. Any thread may call.

    They cost six statements, at most every ten seconds. Only the twenty tenants that spent most today are included.
    """

    def __init__(self, database: FleetDatabase, config: Config, store_problem: Callable[[], str]) -> None:
        self._database, self._config, self._store_problem = database, config, store_problem
        self._lock = threading.Lock()
        self._families: list[GaugeMetricFamily] = []
        self._at = float("-inf")

    def collect(self) -> list[GaugeMetricFamily]:
        """Return the families `dreamd_fleet_…`, up to ten seconds old; without PostgreSQL `dreamd_fleet_up 0`."""
        with self._lock:
            if time.monotonic() - self._at >= KEPT_SECONDS:
                try:
                    read = fleet_status(self._database, self._config, spenders=MOST_TENANTS)
                    self._families = [_family(*one) for one in _families(read)]
                except DreamdError as error:
                    logs.get().warning("fleet_figures_unread", error=error)
                    self._families = [_family(*_UP, 0)]
                self._at = time.monotonic()
            return [*self._families, _family(*_STORE_UP, int(not self._store_problem()))]


def _families(read: FleetStatus) -> Iterator[tuple[str, str, float | Samples]]:
    counts, alive = read.counts, [one for one in read.processes if one.alive]
    kinds = [one.kind for one in read.problems]
    problems = [({"kind": kind}, kinds.count(kind)) for kind in KINDS]
    removing = (({"what": "tenant"}, read.removing.tenants), ({"what": "workspace"}, read.removing.workspaces))
    spenders = [({"tenant": one.tenant}, one.usd) for one in read.spenders]
    yield from (
        (*_UP, 1),
        ("processes_alive", "Processes that spoke in the last 15 s.", len(alive)),
        ("processes_draining", "Of them, those that end.", sum(one.draining for one in alive)),
        ("processes_died", "Processes that died in the last hour.", sum(one.has_died for one in read.processes)),
        ("slots", "Dreams that living processes run at once.", sum(one.slots for one in alive)),
        ("dreaming", "Dreams that run.", sum(one.dreaming for one in alive)),
        ("workspaces", "Workspaces.", counts.workspaces),
        ("bytes", "What their last generations hold.", counts.bytes),
        ("owned", "Workspaces that a living process holds.", counts.owned),
        ("due", "Workspaces that are due and whose job nobody has queued yet.", counts.due),
        ("queued", "Jobs that wait for a process.", counts.queued),
        ("running", "Jobs that a living process has.", counts.running),
        ("failing", "Workspaces whose last job failed.", counts.failing),
        ("problems", "What 'dreamd fleet status' calls a problem.", problems),
        ("sweep_lag_seconds", "For how long the oldest is due and not queued.", counts.lag_seconds),
        ("queue_wait_seconds", "For how long the oldest job waits.", counts.queued_seconds),
        ("inbox_waiting", "Notes and ends of sessions in no generation yet.", read.inbox.waiting),
        ("inbox_workspaces", "Workspaces whose last generation lacks some.", read.inbox.workspaces),
        ("inbox_oldest_seconds", "For how long the oldest note of them waits.", read.inbox.oldest_seconds),
        ("removals", "What is closed and not deleted.", removing),
        ("spent_today_usd", "Dollars since midnight UTC.", read.spent.usd),
        ("spent_today_tokens", "Tokens since midnight UTC.", read.spent.tokens),
        ("spent_today_dreams", "Dreams since midnight UTC.", read.spent.dreams),
        ("tenant_spent_today_usd", "Dollars since midnight UTC, of those that spent the most.", spenders),
    )


def _family(name: str, about: str, samples: float | Samples) -> GaugeMetricFamily:
    every = [({}, samples)] if isinstance(samples, int | float) else [*samples]
    family = GaugeMetricFamily(f"dreamd_fleet_{name}", about, labels=[*every[0][0]] if every else [])
    for labels, value in every:
        family.add_metric([*labels.values()], value)
    return family
