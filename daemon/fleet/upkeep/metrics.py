"""Metrics of the whole fleet for Prometheus, beside those of the process that is asked: the same of every process.

Six statements, and no more often than every ten seconds, however many ask. No label grows with the fleet: of
tenants there are the twenty that have spent the most today.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from daemon.config.settings import Config
from daemon.fleet.upkeep.status import FleetStatus, fleet_status
from daemon.observability import logs
from state.errors import DreamdError
from state.stores.fleet.figures import Removing

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

    from state.stores.fleet.database import FleetDatabase

KEPT_SECONDS = 10.0
MOST_TENANTS = 20


class FleetMetrics:
    """The fleet's figures, as a collector for `daemon.observability.metrics.Metrics.include`. Any thread may call."""

    def __init__(self, database: "FleetDatabase", config: Config) -> None:
        self._database, self._config = database, config
        self._lock = threading.Lock()
        self._families: list[GaugeMetricFamily] = []
        self._at = float("-inf")

    def collect(self) -> "list[GaugeMetricFamily]":
        """Return the families `dreamd_fleet_…`, up to ten seconds old; without PostgreSQL `dreamd_fleet_up 0`."""
        with self._lock:
            if time.monotonic() - self._at >= KEPT_SECONDS:
                try:
                    read = fleet_status(self._database, self._config, spenders=MOST_TENANTS)
                    self._families = [_family(*one) for one in _families(read)]
                except DreamdError as error:
                    logs.get().warning("fleet_figures_unread", error=error)
                    self._families = [_family(*_UP, [({}, 0)])]
                self._at = time.monotonic()
            return self._families


Samples = Iterable[tuple[Mapping[str, str], float]]
_UP = ("up", "Whether the database of the fleet could be asked.")


def _families(read: FleetStatus) -> Iterator[tuple[str, str, Samples]]:
    counts, alive = read.counts, [one for one in read.processes if one.alive and one.kind == "serve"]
    yield from (
        (*_UP, [({}, 1)]),
        ("processes_alive", "Processes that spoke in the last 15 s.", [({}, len(alive))]),
        ("processes_draining", "Of them, those that end.", [({}, sum(one.draining for one in alive))]),
        ("slots", "Dreams that living processes run at once.", [({}, sum(one.slots for one in alive))]),
        ("dreaming", "Dreams that run.", [({}, sum(one.dreaming for one in alive))]),
        ("workspaces", "Workspaces.", [({}, counts.workspaces)]),
        ("bytes", "What their last generations hold.", [({}, counts.bytes)]),
        ("owned", "Workspaces that a living process holds.", [({}, counts.owned)]),
        ("due", "Workspaces that are due and whose job nobody has queued yet.", [({}, counts.due)]),
        ("queued", "Jobs that wait for a process.", [({}, counts.queued)]),
        ("running", "Jobs that a living process has.", [({}, counts.running)]),
        ("failing", "Workspaces whose last job failed.", [({}, counts.failing)]),
        ("sweep_lag_seconds", "For how long the oldest is due and not queued.", [({}, counts.lag_seconds)]),
        ("queue_wait_seconds", "For how long the oldest job waits.", [({}, counts.queued_seconds)]),
        ("inbox_waiting", "Notes and ends of sessions in no generation yet.", [({}, read.inbox.waiting)]),
        ("inbox_workspaces", "Workspaces whose last generation lacks some.", [({}, read.inbox.workspaces)]),
        ("inbox_oldest_seconds", "For how long the oldest note of them waits.", [({}, read.inbox.oldest_seconds)]),
        ("removals", "What is closed and not deleted.", _removals(read.removing)),
        ("spent_today_usd", "Dollars since midnight UTC.", [({}, read.spent.usd)]),
        ("spent_today_tokens", "Tokens since midnight UTC.", [({}, read.spent.tokens)]),
        ("spent_today_dreams", "Dreams since midnight UTC.", [({}, read.spent.dreams)]),
        (
            "tenant_spent_today_usd",
            "Dollars since midnight UTC, of those that spent the most.",
            [({"tenant": one.tenant}, one.usd) for one in read.spenders],
        ),
    )


def _removals(removing: Removing) -> Samples:
    return [({"what": "tenant"}, removing.tenants), ({"what": "workspace"}, removing.workspaces)]


def _family(name: str, about: str, samples: Samples) -> "GaugeMetricFamily":
    from prometheus_client.core import GaugeMetricFamily

    every = [*samples]
    family = GaugeMetricFamily(f"dreamd_fleet_{name}", about, labels=[*every[0][0]] if every else [])
    for labels, value in every:
        family.add_metric([*labels.values()], value)
    return family
