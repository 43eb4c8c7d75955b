"""How a process ends: unready at once, at work until balancers know, and sooner when somebody insists."""

import signal

import pytest

from tests.daemon.fleet.running import Fleet
from tests.support.serving import until

pytestmark = pytest.mark.full
SIGNALS = {"twice": (signal.SIGTERM, signal.SIGTERM), "by a terminal": (signal.SIGTERM, signal.SIGINT)}


@pytest.mark.parametrize("signals", SIGNALS.values(), ids=SIGNALS)
def test_a_process_that_drains_is_unready_answers_and_ends_when_asked_again(
    fleet: Fleet, signals: tuple[signal.Signals, ...]
) -> None:
    token, place = fleet.one()
    fleet.settings = {"fleet": {"drain_seconds": 300}}
    with fleet.process() as process:
        assert process.ask("", "GET", "/readyz").status == 200
        process.process.send_signal(signals[0])
        until(lambda: process.ask("", "GET", "/readyz").status == 503)
        assert process.ask("", "GET", "/healthz").status == 200
        answer = process.do(token, place, "working_memory_add", session_id="s1", content="tea", priority="low")
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        until(lambda: (process.row or {})["draining"])
        process.process.send_signal(signals[1])
        assert process.process.wait(60) == 0
    assert fleet.row(place)["owner"] is None


def test_a_process_that_is_interrupted_does_not_drain(fleet: Fleet) -> None:
    fleet.settings = {"fleet": {"drain_seconds": 300}}
    with fleet.process() as process:
        process.process.send_signal(signal.SIGINT)
        assert process.process.wait(60) == 0


def test_a_process_that_drains_begins_no_job_and_leaves_it_to_others(fleet: Fleet) -> None:
    token, place = fleet.one()
    fleet.settings = {"fleet": {"drain_seconds": 300}, "dream": {"min_chunks": 1}}
    with fleet.process() as first:
        assert (
            first.do(token, place, "working_memory_add", session_id="s1", content="x", priority="low").status == 200
        )
        assert fleet.row(place)["owner"] == (first.row or {})["id"]
        first.process.send_signal(signal.SIGTERM)
        until(lambda: (first.row or {})["draining"])
        with fleet.process() as second:
            fleet.note(place, "Ada prefers tea")
            fleet.put(place, kind="session_end")
            until(lambda: "job_put_off" in second.log)  # the first one holds the workspace
            first.process.send_signal(signal.SIGTERM)
            until(lambda: not fleet.waiting(place))
            until(lambda: fleet.row(place)["queued_at"] is None)
        assert "dream_committed" not in first.log
    assert fleet.row(place)["failures"] == 0
    assert fleet.crystals(place) == ["Ada prefers tea"]
