"""What a scrape shows, as Prometheus' own parser reads it."""

import threading
from collections.abc import Callable, Iterable

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from daemon.observability.metrics import OTHER, Metrics, WorkspaceGauges
from state.budget import Spend
from state.dream import Reason
from state.errors import StorageError

Sample = tuple[str, frozenset[tuple[str, str]]]


def scraped(metrics: Metrics) -> dict[Sample, float]:
    content, content_type = metrics.render()
    assert content_type.startswith("text/plain; version=")
    families = text_string_to_metric_families(content.decode())
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def sample(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


def made(standings: Callable[[], Iterable[WorkspaceGauges]] = tuple) -> Metrics:
    return Metrics("0.2.0", 1_770_000_000.0, standings)


def test_dreams_are_counted_by_workspace_reason_and_outcome() -> None:
    metrics = made()
    for reason in Reason:
        metrics.dreamed("agent", reason, "committed", seconds=12.5)
        metrics.paid("agent", Spend(2, 3_180, 0.021))
    metrics.dreamed("agent", "manual", "committed", seconds=0.2)
    metrics.dreamed("other agent", "interval", "skipped")
    read = scraped(metrics)
    labels = {"workspace": "agent", "outcome": "committed"}
    assert read[sample("dreamd_dreams_total", reason="manual", **labels)] == 2
    assert read[sample("dreamd_dreams_total", reason="session end", **labels)] == 1
    assert read[sample("dreamd_dreams_total", workspace="other agent", reason="interval", outcome="skipped")] == 1
    assert read[sample("dreamd_dream_duration_seconds_count", outcome="committed")] == len(Reason) + 1
    assert sample("dreamd_dream_duration_seconds_count", outcome="skipped") not in read
    assert read[sample("dreamd_model_tokens_total", workspace="agent")] == 3_180 * len(Reason)
    assert read[sample("dreamd_model_calls_total", workspace="agent")] == 2 * len(Reason)
    assert read[sample("dreamd_model_dollars_total", workspace="agent")] == pytest.approx(0.021 * len(Reason))


def test_nodes_searches_and_requests_have_their_durations() -> None:
    metrics = made()
    for seconds in (0.004, 0.09, 7.0, -1.0):
        metrics.node_took("synthesize", seconds)
        metrics.answered("memory_search", "OK", seconds)
    metrics.answered("memory_search", "BUSY", 0.0)
    metrics.answered("dream_status", "OK", 0.2)
    read = scraped(metrics)
    assert read[sample("dreamd_dream_node_duration_seconds_count", node="synthesize")] == 4
    assert read[sample("dreamd_dream_node_duration_seconds_sum", node="synthesize")] == pytest.approx(7.094)
    assert read[sample("dreamd_dream_node_duration_seconds_bucket", node="synthesize", le="0.1")] == 3
    assert read[sample("dreamd_search_duration_seconds_bucket", le="0.005")] == 3
    assert read[sample("dreamd_search_duration_seconds_bucket", le="+Inf")] == 5
    assert read[sample("dreamd_requests_total", operation="memory_search", code="OK")] == 4
    assert read[sample("dreamd_requests_total", operation="memory_search", code="BUSY")] == 1
    assert read[sample("dreamd_request_duration_seconds_count", operation="memory_search")] == 5


def test_guards_and_passes_are_counted() -> None:
    metrics = made()
    metrics.refused("bond drift")
    metrics.refused("eviction runaway", 21)
    metrics.passed("agent")
    metrics.passed("agent", "failed")
    read = scraped(metrics)
    assert read[sample("dreamd_guard_rejections_total", guard="bond drift")] == 1
    assert read[sample("dreamd_guard_rejections_total", guard="eviction runaway")] == 21
    assert read[sample("dreamd_passes_total", workspace="agent", outcome="done")] == 1
    assert read[sample("dreamd_passes_total", workspace="agent", outcome="failed")] == 1


def test_what_stands_is_read_at_each_scrape() -> None:
    now = [WorkspaceGauges("agent", 3, 61.5, {"generated": 40, "archived": 2}), WorkspaceGauges("empty")]
    metrics = made(lambda: now)
    read = scraped(metrics)
    assert read[sample("dreamd_pending_notes", workspace="agent")] == 3
    assert read[sample("dreamd_oldest_pending_note_seconds", workspace="agent")] == 61.5
    assert read[sample("dreamd_crystals", workspace="agent", lifecycle="archived")] == 2
    assert read[sample("dreamd_pending_notes", workspace="empty")] == 0
    now[:] = [WorkspaceGauges("agent", 4, 90.0)]
    again = scraped(metrics)
    assert again[sample("dreamd_pending_notes", workspace="agent")] == 4
    assert sample("dreamd_pending_notes", workspace="empty") not in again
    assert sample("dreamd_crystals", workspace="agent", lifecycle="archived") not in again


def test_a_workspace_that_cannot_be_read_costs_no_scrape() -> None:
    def broken() -> Iterable[WorkspaceGauges]:
        yield WorkspaceGauges("agent", 3)
        raise StorageError("state.db is corrupt; run 'dreamd doctor'")

    metrics = made(broken)
    metrics.passed("agent")
    scraped(metrics)
    read = scraped(metrics)
    assert read[sample("dreamd_passes_total", workspace="agent", outcome="done")] == 1
    assert sample("dreamd_pending_notes", workspace="agent") not in read
    assert read[sample("dreamd_scrape_failures_total")] >= 1


def test_a_scrape_says_what_runs_and_since_when() -> None:
    read = scraped(made())
    assert read[sample("dreamd_build_info", version="0.2.0")] == 1
    assert read[sample("dreamd_start_time_seconds")] == 1_770_000_000.0
    assert read[sample("process_resident_memory_bytes")] > 0


def test_names_and_units_are_as_prometheus_wants_them() -> None:
    metrics = made(lambda: [WorkspaceGauges("agent", 1, 2.0, {"generated": 1})])
    metrics.dreamed("agent", "manual", "committed")
    families = list(text_string_to_metric_families(metrics.render()[0].decode()))
    ours = [one for one in families if one.name.startswith("dreamd_")]
    assert all(one.documentation for one in ours)
    for family in ours:
        assert not family.name.endswith("_created")
        if family.type == "histogram":
            assert family.name.endswith("_seconds")
        if family.type == "counter":
            assert {one.name for one in family.samples} <= {f"{family.name}_total"}


def test_open_metrics_is_given_to_who_asks_for_it() -> None:
    metrics = made(lambda: [WorkspaceGauges("agent", 1, 2.0, {"generated": 1})])
    metrics.dreamed("agent", "manual", "committed")
    content, content_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert "dreamd_dreams" in {family.name for family in open_metrics(content.decode())}  # type: ignore[no-untyped-call]


def test_labels_are_bounded() -> None:
    metrics = made()
    for number in range(1_200):
        metrics.refused(f"guard {number}")
    metrics.refused("guard 5")
    metrics.node_took("x" * 200, 1.0)
    read = scraped(metrics)
    guards = {labels for name, labels in read if name == "dreamd_guard_rejections_total"}
    assert len(guards) == 1_001
    assert read[sample("dreamd_guard_rejections_total", guard=OTHER)] == 200
    assert read[sample("dreamd_guard_rejections_total", guard="guard 5")] == 2
    assert read[sample("dreamd_dream_node_duration_seconds_count", node=OTHER)] == 1


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "line\nend", "東京 🍵"])
def test_any_name_of_a_workspace_survives_the_format(name: str) -> None:
    metrics = made(lambda: [WorkspaceGauges(name, 7)])
    metrics.passed(name)
    read = scraped(metrics)
    assert read[sample("dreamd_passes_total", workspace=name, outcome="done")] == 1
    assert read[sample("dreamd_pending_notes", workspace=name)] == 7


def test_two_daemons_in_one_process_share_no_figures() -> None:
    one, other = made(), made()
    one.passed("agent")
    assert sample("dreamd_passes_total", workspace="agent", outcome="done") not in scraped(other)


def test_threads_lose_no_count() -> None:
    metrics = made()

    def work() -> None:
        for number in range(500):
            metrics.passed(f"agent {number % 7}")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    read = scraped(metrics)
    assert sum(value for (name, _), value in read.items() if name == "dreamd_passes_total") == 4_000
