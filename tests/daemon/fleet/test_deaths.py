"""Processes that are killed, stopped and displaced: nothing that was acknowledged is lost, and nothing is twice."""

import json
import os
import socket
import time
from contextlib import ExitStack
from typing import Any

import pytest

from daemon.fleet.upkeep.status import fleet_status
from state.fleet import Place
from tests.daemon.fleet.running import Door, Fleet
from tests.support import forked, lived
from tests.support.model_characters import good
from tests.support.partition import Partition
from tests.support.postgres import Postgres
from tests.support.scripted_model import Reply, ScriptedModel, slowly
from tests.support.serving import until


def remember(door: Door, token: str, place: Place, text: str) -> int:
    """A write that its holder has to commit; the answer's status."""
    fields = {"session_id": "s1", "content": text, "priority": "high"}
    return door.do(token, place, "working_memory_add", **fields).status


def items(fleet: Fleet, place: Place) -> list[str]:
    return [row["content"] for row in lived.rows(fleet.last(place), "SELECT content FROM items ORDER BY 1")]


def test_what_a_killed_process_acknowledged_another_one_has(fleet: Fleet) -> None:
    token, place = fleet.one()
    with fleet.process() as first, fleet.process() as second:
        assert first.note(token, "one", "Ada prefers tea over coffee").status == 200
        assert remember(first, token, place, "the first") == 200
        assert remember(second, token, place, "passed on") == 200
        assert fleet.row(place)["owner"] == (first.row or {})["id"]
        first.kill()
        began = time.monotonic()
        assert remember(second, token, place, "the last") == 200
        assert time.monotonic() - began < 15
        assert second.search(token, "one", "tea coffee") == ["Ada prefers tea over coffee"]
    assert items(fleet, place) == ["passed on", "the first", "the last"]
    assert fleet.crystals(place) == ["Ada prefers tea over coffee"]


def test_a_machine_with_the_same_two_settings_is_found_by_the_others(fleet: Fleet, postgres: Postgres) -> None:
    """Both reach PostgreSQL as another machine, and listen and are called there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing
        own = str(probe.getsockname()[0])
    token, place = fleet.one()
    with Partition(postgres.port, own) as door, ExitStack() as both:
        first, second = (both.enter_context(fleet.process(database=door.through(fleet.url))) for _ in range(2))
        assert {one["address"] for one in (first.row, second.row) if one} == {
            f"http://{own}:{first.port}",
            f"http://{own}:{second.port}",
        }
        assert [remember(one, token, place, one.host) for one in (first, second)] == [200, 200]
        assert _status(fleet)["counts"]["owned"] == 1


def test_who_has_the_address_of_a_living_process_does_not_start(fleet: Fleet) -> None:
    address = {"DREAMD_FLEET__ADDRESS": "http://127.0.0.1:7350"}
    with fleet.process(**address) as first:
        with (
            pytest.raises(AssertionError, match=r"has the address http://127\.0\.0\.1:7350"),
            fleet.process(**address),
        ):
            pass
        assert len(fleet.living()) == 1
        other = fleet.stand_in("http://127.0.0.1:7350")
        problems = [one.what for one in fleet_status(fleet.database, fleet.config()).problems]
        assert any("2 processes have the address http://127.0.0.1:7350" in one for one in problems)
        assert any("on host" in one for one in problems)
        fleet.dead(other)
        first.kill()
        with fleet.process(**address):  # nobody waits for the dead
            pass


@pytest.mark.full
def test_what_a_dream_cost_is_counted_though_its_process_is_killed_before_the_end(fleet: Fleet) -> None:
    place = fleet.place()
    # What cannot be read is asked for again, by a step of its own.
    with ScriptedModel(lambda _, number: Reply("no JSON", wait_seconds=60.0 if number > 1 else 0.0)) as model:
        fleet.settings = {"model": {"name": "openai/scripted", "api_base": model.url}, "dream": {"min_chunks": 1}}
        for number in range(6):
            fleet.note(place, f"invoice {number} was paid on day {number * 31}")
        fleet.put(place, kind="session_end")
        with fleet.process(OPENAI_API_KEY="sk-none") as process:
            until(lambda: model.count > 1)
            process.kill()
    [spent] = fleet.database.rows("SELECT dreams, calls, tokens FROM spending")
    assert spent["dreams"] == 0
    assert spent["calls"] in (1, 2)  # the second was under way
    assert spent["tokens"] > 0


@pytest.mark.full
@pytest.mark.parametrize(("seconds", "beside"), [(5.0, False), (30.0, False), (30.0, True)])
def test_a_signal_drains_a_process_whose_model_is_slow(fleet: Fleet, seconds: float, *, beside: bool) -> None:
    """`beside`: another process lives at that moment; else one comes later."""
    token, place = fleet.one()
    notes = [f"invoice {number} was paid on day {number * 31}" for number in range(6)]
    with ScriptedModel(slowly(good, seconds)) as model, ExitStack() as later:
        fleet.settings = {"model": {"name": "openai/scripted", "api_base": model.url}, "dream": {"min_chunks": 1}}
        for note in notes:
            fleet.note(place, note)
        fleet.put(place, kind="session_end")
        with fleet.process(OPENAI_API_KEY="sk-none") as first:
            until(lambda: model.count)
            # What is acknowledged in the middle of the dream, by the holder and by the inbox.
            assert first.do(token, place, "feel", event="reward", because="the harbour was quiet").status == 200
            if beside:
                second = later.enter_context(fleet.process(OPENAI_API_KEY="sk-none"))
            model.script = slowly(good, 0.0)
            began = time.monotonic()
            first.process.terminate()
            fleet.note(place, "it came when the process ended")
            assert first.process.wait(30) == 0
            assert time.monotonic() - began < 10.5
            assert "Traceback" not in first.log, first.log
            assert not any(one.get("event") == "dream_committed" for one in first.events)
            if not beside:
                assert fleet.waiting(place) <= 1  # what it had taken in is committed
                assert fleet.row(place)["owner"] is None
        if not beside:
            second = later.enter_context(fleet.process(OPENAI_API_KEY="sk-none"))
        until(lambda: any(one.get("event") == "workspace_taken" for one in second.events), seconds=10)
        until(lambda: any(one.get("event") == "dream_committed" for one in second.events))
        until(lambda: fleet.row(place)["queued_at"] is None)
        if lived.pending(fleet.last(place)) or fleet.waiting(place):  # the note that came last
            assert second.do(token, place, "dream_now", wait=True).status == 200
        assert not fleet.waiting(place)
        status = _status(fleet)
    assert (status["counts"]["failing"], status["failing"]) == (0, [])
    here = fleet.last(place)
    lived.assert_once(here, [*notes, "it came when the process ended"])
    causes = [row["cause"] for row in lived.rows(here, "SELECT cause FROM feelings")]
    assert causes.count("the harbour was quiet") == 1
    assert {row["outcome"] for row in lived.rows(here, "SELECT outcome FROM dreams")} == {"committed"}


def _status(fleet: Fleet) -> Any:
    done = forked.run(["fleet", "status", "--json"], environment={**os.environ, "DREAMD_FLEET__DATABASE": fleet.url})
    status = json.loads(done.stdout)
    assert status["problems"] == []
    return status
