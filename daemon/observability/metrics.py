"""Metrics: the daemon's counters and gauges for Prometheus.

Events are counted as they happen; gauges are read at each scrape. The registry is the object's own, so that two
daemons in one process (as in tests) do not share figures. Labels hold our own names (workspaces, nodes, guards,
reasons), never text, and are bounded: past so many values of one label the rest is "other".
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from daemon.observability import logs
from state.budget import Spend

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

Foreign: TypeAlias = Any
"""A counter or a histogram: prometheus_client is imported late."""

OTHER = "other"
_MOST_VALUES = 1_000
_LONGEST_VALUE = 80
# Seconds. A node is milliseconds without a model, and up to a timeout of minutes with one.
_NODE_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_DREAM_BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
_SEARCH_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5)
_REQUEST_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 120)

_log = logs.get()


@dataclass(frozen=True, slots=True)
class WorkspaceGauges:
    """One workspace at a scrape. `crystals` counts by lifecycle; `oldest_seconds` is 0 without a pending note."""

    workspace: str
    pending_notes: int = 0
    oldest_seconds: float = 0.0
    crystals: Mapping[str, int] = field(default_factory=dict)


class Metrics:
    """Counters of what happened, one method for each thing; any thread may call them.

    `gauges` is called at every scrape, so it has to be cheap. When it fails, the scrape shows everything else and
    counts the failure.
    """

    def __init__(
        self, version: str, started_at: float, gauges: Callable[[], Iterable[WorkspaceGauges]] = tuple
    ) -> None:
        """Begin at zero. `started_at` is in seconds since the epoch."""
        from prometheus_client import CollectorRegistry, Gauge, Info, ProcessCollector, disable_created_metrics

        disable_created_metrics()  # type: ignore[no-untyped-call]  # else every counter and histogram has a second series that nobody reads
        self._registry = CollectorRegistry(auto_describe=False)
        self._seen: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        self._define_counters(self._registry)
        Info("dreamd_build", "What runs.", registry=self._registry).info({"version": version})
        Gauge("dreamd_start_time_seconds", "When the daemon started, since the epoch.", registry=self._registry).set(
            started_at
        )
        ProcessCollector(registry=self._registry)
        self._registry.register(_collector(gauges, self._unread))

    def _define_counters(self, registry: "CollectorRegistry") -> None:
        from prometheus_client import Counter, Histogram

        def counter(name: str, about: str, *labels: str) -> Foreign:
            return Counter(f"dreamd_{name}", about, labels, registry=registry)

        def histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Foreign:
            return Histogram(f"dreamd_{name}", about, labels, buckets=buckets, registry=registry)

        self._dreams = counter("dreams", "Runs by reason and outcome.", "workspace", "reason", "outcome")
        self._dream_seconds = histogram(
            "dream_duration_seconds", "From start to end of a run, skips left out.", _DREAM_BUCKETS, "outcome"
        )
        self._node_seconds = histogram("dream_node_duration_seconds", "One node of a dream.", _NODE_BUCKETS, "node")
        self._calls = counter("model_calls", "Calls of a model.", "workspace")
        self._tokens = counter("model_tokens", "Tokens paid for.", "workspace")
        self._dollars = counter("model_dollars", "Dollars paid, where the price is known.", "workspace")
        self._rejections = counter("guard_rejections", "What guards refused.", "guard")
        self._passes = counter("passes", "Consolidation passes.", "workspace", "outcome")
        self._search_seconds = histogram("search_duration_seconds", "One memory_search.", _SEARCH_BUCKETS)
        self._requests = counter("requests", "Requests answered; code is OK or an error's.", "operation", "code")
        self._request_seconds = histogram(
            "request_duration_seconds", "One request, as its window saw it.", _REQUEST_BUCKETS, "operation"
        )
        self._unread = counter("scrape_failures", "Scrapes that could not read how the workspaces stand.")

    def include(self, collector: Foreign) -> None:
        """Show what this collector (of prometheus_client's kind) gives at each scrape as well."""
        self._registry.register(collector)

    def dreamed(self, workspace: str, reason: str, outcome: str, *, seconds: float = 0.0) -> None:
        """Count a run that has ended: committed, proposed, skipped, rejected or failed. Skips have no duration."""
        named = self._bounded("workspace", workspace)
        ended = self._bounded("outcome", outcome)
        self._dreams.labels(named, self._bounded("reason", reason), ended).inc()
        if outcome != "skipped":
            self._dream_seconds.labels(ended).observe(max(0.0, seconds))

    def paid(self, workspace: str, spend: Spend) -> None:
        """Count what a dream has paid for calls of a model, however it ended."""
        named = self._bounded("workspace", workspace)
        amounts = ((self._calls, spend.calls), (self._tokens, spend.tokens), (self._dollars, spend.usd))
        for spent, amount in amounts:
            spent.labels(named).inc(max(0.0, amount))

    def node_took(self, node: str, seconds: float) -> None:
        """Count the time that a node of a dream took."""
        self._node_seconds.labels(self._bounded("node", node)).observe(max(0.0, seconds))

    def refused(self, guard: str, times: int = 1) -> None:
        """Count what a guard has refused."""
        self._rejections.labels(self._bounded("guard", guard)).inc(times)

    def passed(self, workspace: str, outcome: str = "done") -> None:
        """Count a consolidation pass that has ended."""
        self._passes.labels(self._bounded("workspace", workspace), self._bounded("outcome", outcome)).inc()

    def answered(self, operation: str, code: str, seconds: float) -> None:
        """Count a request that was answered. `code` is "OK" or the error's."""
        named = self._bounded("operation", operation)
        self._requests.labels(named, self._bounded("code", code)).inc()
        self._request_seconds.labels(named).observe(max(0.0, seconds))
        if operation == "memory_search":
            self._search_seconds.observe(max(0.0, seconds))

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return the figures now, and their content type: OpenMetrics for who accepts it, else Prometheus' own."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _bounded(self, label: str, value: str) -> str:
        with self._lock:
            seen = self._seen.setdefault(label, set())
            if value in seen:
                return value
            if len(value) > _LONGEST_VALUE or len(seen) >= _MOST_VALUES:
                return OTHER
            seen.add(value)
            return value


def _collector(gauges: Callable[[], Iterable[WorkspaceGauges]], failures: Foreign) -> Foreign:
    """Return the collector that reads the gauges at each scrape."""
    from prometheus_client.registry import Collector

    class Gauges(Collector):
        def collect(self) -> "Iterator[GaugeMetricFamily]":
            try:
                read = tuple(gauges())
            except Exception as error:  # noqa: BLE001 - the other figures are still to be seen
                failures.inc()
                _log.warning("standings_unread", error=error)
                return
            yield from _families(read)

        def describe(self) -> "Iterable[GaugeMetricFamily]":
            return _families(())

    return Gauges()


def _families(read: tuple[WorkspaceGauges, ...]) -> "Iterator[GaugeMetricFamily]":
    from prometheus_client.core import GaugeMetricFamily

    pending = GaugeMetricFamily("dreamd_pending_notes", "Notes that no dream has consumed.", labels=["workspace"])
    oldest = GaugeMetricFamily(
        "dreamd_oldest_pending_note_seconds", "How long the oldest of them waits.", labels=["workspace"]
    )
    crystals = GaugeMetricFamily(
        "dreamd_crystals", "Crystals by lifecycle, as it is kept.", labels=["workspace", "lifecycle"]
    )
    for one in read:
        pending.add_metric([one.workspace], one.pending_notes)
        oldest.add_metric([one.workspace], one.oldest_seconds)
        for lifecycle, count in one.crystals.items():
            crystals.add_metric([one.workspace, lifecycle], count)
    yield from (pending, oldest, crystals)
