"""Metrics: the daemon's counters and gauges for Prometheus.

Events are counted as they happen; gauges are read at each scrape. The registry is the object's own, so that two
daemons in one process (as in tests) do not share figures. Labels hold our own names (workspaces, nodes, guards,
reasons), never text, and are bounded: past so many values of one label the rest is "other".
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from daemon.observability import logs
from state.budget import Spend

Foreign: TypeAlias = Any
"""Something of prometheus_client's, which is imported late."""

OTHER = "other"
_MOST_VALUES = 1_000
_LONGEST_VALUE = 80
# What is counted: its name, what it says, its labels. A histogram's buckets are in seconds; a node is milliseconds
# without a model, and up to a timeout of minutes with one.
_COUNTERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("dreams", "Runs by reason and outcome.", ("workspace", "reason", "outcome")),
    ("model_calls", "Calls of a model.", ("workspace",)),
    ("model_tokens", "Tokens paid for.", ("workspace",)),
    ("model_dollars", "Dollars paid, where the price is known.", ("workspace",)),
    ("guard_rejections", "What guards refused.", ("guard",)),
    ("passes", "Consolidation passes.", ("workspace", "outcome")),
    ("requests", "Requests answered; code is OK or an error's.", ("operation", "code")),
    ("scrape_failures", "Scrapes that could not read how the workspaces stand.", ()),
)
_HISTOGRAMS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("dream", "From start to end of a run, skips left out.", ("outcome",), ".1 .5 1 2.5 5 10 30 60 120 300 900"),
    ("dream_node", "One node of a dream.", ("node",), ".01 .05 .1 .25 .5 1 2.5 5 10 30 60 120 300"),
    ("search", "One memory_search.", (), ".005 .01 .025 .05 .075 .1 .15 .25 .5 1 2.5"),
    ("request", "One request, as its window saw it.", ("operation",), ".001 .005 .01 .05 .1 .25 .5 1 5 30 120"),
)
_GAUGES = (
    ("pending_notes", "Notes that no dream has consumed.", ["workspace"]),
    ("oldest_pending_note_seconds", "How long the oldest of them waits.", ["workspace"]),
    ("crystals", "Crystals by lifecycle, as it is kept.", ["workspace", "lifecycle"]),
)


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
        import prometheus_client as prometheus

        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # else each has a second series that nobody reads
        own = self._registry = prometheus.CollectorRegistry(auto_describe=False)
        self._seen: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        self._counters = {
            name: prometheus.Counter(f"dreamd_{name}", about, labels, registry=own)
            for name, about, labels in _COUNTERS
        }
        self._seconds = {}
        for name, about, labels, text in _HISTOGRAMS:
            named, buckets = f"dreamd_{name}_duration_seconds", [*map(float, text.split())]
            self._seconds[name] = prometheus.Histogram(named, about, labels, buckets=buckets, registry=own)
        prometheus.Info("dreamd_build", "What runs.", registry=own).info({"version": version})
        since = "When the daemon started, since the epoch."
        prometheus.Gauge("dreamd_start_time_seconds", since, registry=own).set(started_at)
        prometheus.ProcessCollector(registry=own)
        own.register(_collector(gauges, self._counters["scrape_failures"]))

    def include(self, collector: Foreign) -> None:
        """Show what this collector (of prometheus_client's kind) gives at each scrape as well."""
        self._registry.register(collector)

    def dreamed(self, workspace: str, reason: str, outcome: str, *, seconds: float = 0.0) -> None:
        """Count a run that has ended: committed, skipped, rejected or failed. Skips have no duration."""
        self._count("dreams", workspace=workspace, reason=reason, outcome=outcome)
        if outcome != "skipped":
            self._took("dream", seconds, outcome=outcome)

    def paid(self, workspace: str, spend: Spend) -> None:
        """Count what a dream has paid for calls of a model, however it ended."""
        for name, amount in (("calls", spend.calls), ("tokens", spend.tokens), ("dollars", spend.usd)):
            self._count(f"model_{name}", max(0.0, amount), workspace=workspace)

    def node_took(self, node: str, seconds: float) -> None:
        """Count the time that a node of a dream took."""
        self._took("dream_node", seconds, node=node)

    def refused(self, guard: str, times: int = 1) -> None:
        """Count what a guard has refused."""
        self._count("guard_rejections", times, guard=guard)

    def passed(self, workspace: str, outcome: str = "done") -> None:
        """Count a consolidation pass that has ended."""
        self._count("passes", workspace=workspace, outcome=outcome)

    def answered(self, operation: str, code: str, seconds: float) -> None:
        """Count a request that was answered. `code` is "OK" or the error's."""
        self._count("requests", operation=operation, code=code)
        self._took("request", seconds, operation=operation)
        if operation == "memory_search":
            self._took("search", seconds)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return the figures now, and their content type: OpenMetrics for who accepts it, else Prometheus' own."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _count(self, counter: str, amount: float = 1, **labels: str) -> None:
        self._labelled(self._counters[counter], labels).inc(amount)

    def _took(self, histogram: str, seconds: float, **labels: str) -> None:
        self._labelled(self._seconds[histogram], labels).observe(max(0.0, seconds))

    def _labelled(self, metric: Foreign, labels: Mapping[str, str]) -> Foreign:
        bounded = {label: self._bounded(label, value) for label, value in labels.items()}
        return metric.labels(**bounded) if bounded else metric

    def _bounded(self, label: str, value: str) -> str:
        with self._lock:
            seen = self._seen.setdefault(label, set())
            if value not in seen and (len(value) > _LONGEST_VALUE or len(seen) >= _MOST_VALUES):
                return OTHER
            seen.add(value)
            return value


def _collector(gauges: Callable[[], Iterable[WorkspaceGauges]], failures: Foreign) -> Foreign:
    """Return the collector that reads the gauges at each scrape."""
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector

    class Gauges(Collector):
        def collect(self) -> Iterator[GaugeMetricFamily]:
            pending, oldest, crystals = families = [
                GaugeMetricFamily(f"dreamd_{name}", about, labels=labels) for name, about, labels in _GAUGES
            ]
            try:
                for one in tuple(gauges()):
                    pending.add_metric([one.workspace], one.pending_notes)
                    oldest.add_metric([one.workspace], one.oldest_seconds)
                    for lifecycle, count in one.crystals.items():
                        crystals.add_metric([one.workspace, lifecycle], count)
            except Exception as error:  # noqa: BLE001 - the other figures are still to be seen
                failures.inc()
                logs.get().warning("standings_unread", error=error)
                return
            yield from families

    return Gauges()
