"""Metrics: the daemon's counters and gauges for Prometheus.

Events are counted as they happen; gauges are read at each scrape. Labels are our own names (workspaces, nodes,
guards, reasons), never text, and bounded: after a thousand values of one label, further ones become "other".
prometheus_client is loaded at the first event or scrape, which saves an idle daemon a megabyte.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from daemon.observability import logs
from state.budget import Spend

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector

OTHER = "other"
_MOST_VALUES = 1_000
_LONGEST_VALUE = 80
# Name, help text and labels; a histogram's buckets are in seconds. A node takes milliseconds without a model, and up
# to a timeout of minutes with one.
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
    """Counters, with a method for each kind of event, which any thread may call.

    `gauges` is called at every scrape, so it must be cheap. If it fails, the scrape shows everything else and counts
    the failure.
    """

    def __init__(
        self, version: str, started_at: float, gauges: Callable[[], Iterable[WorkspaceGauges]] = tuple
    ) -> None:
        """Begin at zero. `started_at` is in seconds since the epoch."""
        self._version, self._started_at, self._gauges = version, started_at, gauges
        self._lock = threading.Lock()
        self._made: CollectorRegistry | None = None
        # Counters and histograms by name.
        self._counted: dict[str, Any] = {}
        self._seen: dict[str, set[str]] = {}

    def include(self, collector: "Collector") -> None:
        """Add the figures of this collector (of prometheus_client's kind) to each scrape."""
        self._registry().register(collector)

    def dreamed(self, workspace: str, reason: str, outcome: str, *, seconds: float = 0.0) -> None:
        """Count a run that has ended: committed, skipped, rejected or failed. Skips have no duration."""
        self._count("dreams", workspace=workspace, reason=reason, outcome=outcome)
        if outcome != "skipped":
            self._took("dream", seconds, outcome=outcome)

    def paid(self, workspace: str, spend: Spend) -> None:
        """Count a dream's model calls, tokens and dollars, however it ended."""
        for name, amount in (("calls", spend.calls), ("tokens", spend.tokens), ("dollars", spend.usd)):
            self._count(f"model_{name}", max(0.0, amount), workspace=workspace)

    def node_took(self, node: str, seconds: float) -> None:
        """Record the duration of a node of a dream."""
        self._took("dream_node", seconds, node=node)

    def refused(self, guard: str, times: int = 1) -> None:
        """Count operations that a guard has refused."""
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
        """Return the current figures and their content type: OpenMetrics if accepted, else Prometheus' own."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept)
        return encode(self._registry()), content_type

    def collect(self) -> "Iterator[GaugeMetricFamily]":
        """Yield the gauges, read now; the registry calls this at a scrape."""
        from prometheus_client.core import GaugeMetricFamily

        gauges = [GaugeMetricFamily(f"dreamd_{name}", about, labels=labels) for name, about, labels in _GAUGES]
        try:
            pending, oldest, crystals = gauges
            for one in tuple(self._gauges()):
                pending.add_metric([one.workspace], one.pending_notes)
                oldest.add_metric([one.workspace], one.oldest_seconds)
                for lifecycle, number in one.crystals.items():
                    crystals.add_metric([one.workspace, lifecycle], number)
        except Exception as error:  # noqa: BLE001 - the other figures are still shown
            self._count("scrape_failures")
            logs.get().warning("standings_unread", error=error)
            return
        yield from gauges

    def _registry(self) -> "CollectorRegistry":
        """Return the registry, made at the first call."""
        import prometheus_client as prometheus

        with self._lock:
            if self._made is not None:
                return self._made
            prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
            self._made = made = prometheus.CollectorRegistry(auto_describe=False)
            made.register(self)  # first, so that its failure is counted in the same scrape
            own: dict[str, Any] = {"namespace": "dreamd", "registry": made}
            for name, about, labels in _COUNTERS:
                self._counted[name] = prometheus.Counter(name, about, labels, **own)
            for name, about, labels, bounds in _HISTOGRAMS:
                buckets = [*map(float, bounds.split())]
                full = f"{name}_duration_seconds"
                self._counted[name] = prometheus.Histogram(full, about, labels, buckets=buckets, **own)
            prometheus.Info("build", "What runs.", **own).info({"version": self._version})
            since = "When the daemon started, since the epoch."
            prometheus.Gauge("start_time_seconds", since, **own).set(self._started_at)
            prometheus.ProcessCollector(registry=made)
            return made

    def _count(self, name: str, amount: float = 1, **labels: str) -> None:
        self._labelled(name, labels).inc(amount)

    def _took(self, name: str, seconds: float, **labels: str) -> None:
        self._labelled(name, labels).observe(max(0.0, seconds))

    def _labelled(self, name: str, labels: Mapping[str, str]) -> Any:  # noqa: ANN401 - a counter or a histogram
        """Return the counter or histogram with these labels; a label with too many values becomes "other"."""
        self._registry()
        bounded = dict[str, str]()
        for label, value in labels.items():
            seen = self._seen.setdefault(label, set())
            is_known = value in seen or (len(value) <= _LONGEST_VALUE and len(seen) < _MOST_VALUES)
            bounded[label] = value if is_known else OTHER
            seen.add(bounded[label])
        return self._counted[name].labels(**bounded) if labels else self._counted[name]
