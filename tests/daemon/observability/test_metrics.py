"""What a scrape shows: each figure under its name, bounded labels, and two formats."""

from collections.abc import Callable, Iterable

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from daemon.observability.metrics import OTHER, Metrics, WorkspaceGauges
from state.budget import Spend
from state.errors import StorageError


def figures(metrics: Metrics) -> dict[str, float]:
    """Each sample as a scrape writes it: `name{label=value,…}`."""
    content, content_type = metrics.render()
    assert content_type.startswith("text/plain; version=")
    samples = (one for family in text_string_to_metric_families(content.decode()) for one in family.samples)
    return {
        one.name
        + ("{" + ",".join(f"{k}={v}" for k, v in sorted(one.labels.items())) + "}" if one.labels else ""): one.value
        for one in samples
    }


def made(gauges: Callable[[], Iterable[WorkspaceGauges]] = tuple) -> Metrics:
    return Metrics("0.2.0", 1_770_000_000.0, gauges)


def test_what_happened_is_counted() -> None:
    metrics = made()
    for seconds in (12.5, 0.2):
        metrics.dreamed("agent", "manual", "committed", seconds=seconds)
        metrics.paid("agent", Spend(2, 3_180, 0.021))
    metrics.dreamed("agent", "session end", "committed")
    metrics.dreamed("other agent", "interval", "skipped")
    for seconds in (0.004, 0.09, 7.0, -1.0):
        metrics.node_took("synthesize", seconds)
        metrics.answered("memory_search", "OK", seconds)
    metrics.answered("memory_search", "BUSY", 0.0)
    metrics.answered("dream_status", "OK", 0.2)
    metrics.refused("bond drift")
    metrics.refused("eviction runaway", 21)
    metrics.passed("agent")
    metrics.passed("agent", "failed")
    read = figures(metrics)
    expected = {
        "dreamd_dreams_total{outcome=committed,reason=manual,workspace=agent}": 2,
        "dreamd_dreams_total{outcome=committed,reason=session end,workspace=agent}": 1,
        "dreamd_dreams_total{outcome=skipped,reason=interval,workspace=other agent}": 1,
        "dreamd_dream_duration_seconds_count{outcome=committed}": 3,
        "dreamd_model_tokens_total{workspace=agent}": 6_360,
        "dreamd_model_calls_total{workspace=agent}": 4,
        "dreamd_model_dollars_total{workspace=agent}": pytest.approx(0.042),
        "dreamd_dream_node_duration_seconds_count{node=synthesize}": 4,
        "dreamd_dream_node_duration_seconds_sum{node=synthesize}": pytest.approx(7.094),
        "dreamd_dream_node_duration_seconds_bucket{le=0.1,node=synthesize}": 3,
        "dreamd_search_duration_seconds_bucket{le=0.005}": 3,
        "dreamd_search_duration_seconds_bucket{le=+Inf}": 5,
        "dreamd_requests_total{code=OK,operation=memory_search}": 4,
        "dreamd_requests_total{code=BUSY,operation=memory_search}": 1,
        "dreamd_request_duration_seconds_count{operation=memory_search}": 5,
        "dreamd_guard_rejections_total{guard=bond drift}": 1,
        "dreamd_guard_rejections_total{guard=eviction runaway}": 21,
        "dreamd_passes_total{outcome=done,workspace=agent}": 1,
        "dreamd_passes_total{outcome=failed,workspace=agent}": 1,
        "dreamd_build_info{version=0.2.0}": 1,
        "dreamd_start_time_seconds": 1_770_000_000.0,
    }
    assert {name: read.get(name) for name in expected} == expected
    assert "dreamd_dream_duration_seconds_count{outcome=skipped}" not in read
    assert read["process_resident_memory_bytes"] > 0


ODD = 'quo"te back\\slash line\nend 東京 🍵'


def test_what_stands_is_read_at_each_scrape_and_what_cannot_be_read_costs_none() -> None:
    now = [WorkspaceGauges("agent", 3, 61.5, {"generated": 40, "archived": 2}), WorkspaceGauges(ODD)]

    def standing() -> Iterable[WorkspaceGauges]:
        yield from now
        if not now:
            raise StorageError("state.db is corrupt; run 'dreamd doctor'")

    metrics = made(standing)
    read = figures(metrics)
    assert read["dreamd_pending_notes{workspace=agent}"] == 3
    assert read["dreamd_oldest_pending_note_seconds{workspace=agent}"] == 61.5
    assert read["dreamd_crystals{lifecycle=archived,workspace=agent}"] == 2
    assert read["dreamd_pending_notes{workspace=" + ODD + "}"] == 0
    now[:] = [WorkspaceGauges("agent", 4, 90.0)]
    again = figures(metrics)
    assert again["dreamd_pending_notes{workspace=agent}"] == 4
    assert f"dreamd_pending_notes{{workspace={ODD}}}" not in again
    assert "dreamd_crystals{lifecycle=archived,workspace=agent}" not in again
    now.clear()
    figures(metrics)
    assert figures(metrics)["dreamd_scrape_failures_total"] >= 1


def test_names_and_units_are_as_prometheus_wants_them_in_both_formats() -> None:
    metrics = made(lambda: [WorkspaceGauges("agent", 1, 2.0, {"generated": 1})])
    metrics.dreamed("agent", "manual", "committed")
    families = list(text_string_to_metric_families(metrics.render()[0].decode()))
    for family in (one for one in families if one.name.startswith("dreamd_")):
        assert family.documentation
        assert not family.name.endswith("_created")
        assert family.type != "histogram" or family.name.endswith("_seconds")
        assert family.type != "counter" or {one.name for one in family.samples} <= {f"{family.name}_total"}
    content, content_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert "dreamd_dreams" in {family.name for family in open_metrics(content.decode())}  # type: ignore[no-untyped-call]


def test_labels_are_bounded() -> None:
    metrics = made()
    for number in range(1_200):
        metrics.refused(f"guard {number}")
    metrics.refused("guard 5")
    metrics.node_took("x" * 200, 1.0)
    read = figures(metrics)
    assert len([name for name in read if name.startswith("dreamd_guard_rejections_total")]) == 1_001
    assert read[f"dreamd_guard_rejections_total{{guard={OTHER}}}"] == 200
    assert read["dreamd_guard_rejections_total{guard=guard 5}"] == 2
    assert read[f"dreamd_dream_node_duration_seconds_count{{node={OTHER}}}"] == 1
