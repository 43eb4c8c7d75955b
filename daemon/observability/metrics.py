"""Metrics: the daemon's counters and gauges for Prometheus.

Events are counted as they happen, in plain numbers; gauges are read at each scrape, for which alone prometheus_client
is loaded. Labels hold our own names (workspaces, nodes, guards, reasons), never text, and are bounded: past so many
values of one label the rest is "other".
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
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
_BOUNDS = {name: [*map(float, bounds.split())] for name, _, _, bounds in _HISTOGRAMS}
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
        self._version, self._started_at, self._gauges = version, started_at, gauges
        self._included = list[Foreign]()
        self._lock = threading.Lock()
        self._seen: dict[str, set[str]] = {}
        # Of each counter and histogram, by the values of its labels: the sum; how many seconds were in each bucket.
        self._sums: dict[str, dict[tuple[str, ...], float]] = {}
        self._buckets: dict[str, dict[tuple[str, ...], list[int]]] = {}
        for name, _, labels in _COUNTERS:
            self._sums[name] = {} if labels else {(): 0.0}
        for name, _, labels, _ in _HISTOGRAMS:
            self._sums[name] = {} if labels else {(): 0.0}
            self._buckets[name] = {} if labels else {(): [0] * (len(_BOUNDS[name]) + 1)}

    def include(self, collector: Foreign) -> None:
        """Show what this collector (of prometheus_client's kind) gives at each scrape as well."""
        self._included.append(collector)

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
        from prometheus_client import CollectorRegistry, ProcessCollector  # most daemons are never scraped
        from prometheus_client.exposition import choose_encoder

        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Scrape(self._families))
        ProcessCollector(registry=registry)
        for collector in self._included:
            registry.register(collector)
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type

    def _families(self) -> Iterator[Foreign]:
        """Yield everything that is counted, then what is read now."""
        from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

        gauges = [GaugeMetricFamily(f"dreamd_{name}", about, labels=labels) for name, about, labels in _GAUGES]
        try:
            pending, oldest, crystals = gauges
            for one in tuple(self._gauges()):
                pending.add_metric([one.workspace], one.pending_notes)
                oldest.add_metric([one.workspace], one.oldest_seconds)
                for lifecycle, number in one.crystals.items():
                    crystals.add_metric([one.workspace, lifecycle], number)
        except Exception as error:  # noqa: BLE001 - the other figures are still to be seen
            self._count("scrape_failures")
            logs.get().warning("standings_unread", error=error)
            gauges = []
        yield from self._counted()
        yield InfoMetricFamily("dreamd_build", "What runs.", value={"version": self._version})
        since = "When the daemon started, since the epoch."
        yield GaugeMetricFamily("dreamd_start_time_seconds", since, value=self._started_at)
        yield from gauges

    def _counted(self) -> list[Foreign]:
        """Return the counters and the histograms."""
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        found = list[Foreign]()
        with self._lock:
            for name, about, labels in _COUNTERS:
                counter = CounterMetricFamily(f"dreamd_{name}", about, labels=labels)
                for values, total in self._sums[name].items():
                    counter.add_metric(values, total)
                found.append(counter)
            for name, about, labels, _ in _HISTOGRAMS:
                bounds = [*map(str, _BOUNDS[name]), "+Inf"]
                histogram = HistogramMetricFamily(f"dreamd_{name}_duration_seconds", about, labels=labels)
                for values, in_each in self._buckets[name].items():
                    buckets = list(zip(bounds, accumulate(in_each), strict=True))
                    histogram.add_metric(values, buckets, self._sums[name][values])
                found.append(histogram)
        return found

    def _count(self, name: str, amount: float = 1, **labels: str) -> None:
        with self._lock:
            values, sums = self._bounded(labels), self._sums[name]
            sums[values] = sums.get(values, 0.0) + amount

    def _took(self, name: str, seconds: float, **labels: str) -> None:
        seconds, bounds = max(0.0, seconds), _BOUNDS[name]
        with self._lock:
            values, sums = self._bounded(labels), self._sums[name]
            sums[values] = sums.get(values, 0.0) + seconds
            self._buckets[name].setdefault(values, [0] * (len(bounds) + 1))[bisect_left(bounds, seconds)] += 1

    def _bounded(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the values of these labels; "other" for what a label has too many of."""
        return tuple(self._known(label, value) for label, value in labels.items())

    def _known(self, label: str, value: str) -> str:
        seen = self._seen.setdefault(label, set())
        if value not in seen and (len(value) > _LONGEST_VALUE or len(seen) >= _MOST_VALUES):
            return OTHER
        seen.add(value)
        return value


@dataclass(frozen=True, slots=True)
class _Scrape:
    """A collector of prometheus_client's kind: what it gives at a scrape."""

    collect: Callable[[], Iterator[Foreign]]
