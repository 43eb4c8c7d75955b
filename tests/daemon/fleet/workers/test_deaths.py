"""Workers that are killed, stopped and displaced: nothing that was acknowledged is lost, and nothing is twice."""

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest

from daemon.fleet.workers import sweeper
from state.fleet.workspace import Place
from state.stores.fleet import schedule
from tests.daemon.fleet.workers.running import PATIENCE_SECONDS, Fleet, Running, until
from tests.support import forked, lived
from tests.support.model_characters import good
from tests.support.scripted_model import Reply, ScriptedModel, slowly

NOTE = "working_memory_note"


def write(worker: Running, place: Place, text: str) -> tuple[int, Any]:
    return worker.ask(place, NOTE, {"note": text, "importance": 0.9})


def hasten(alive: float) -> None:
    """In a worker's process: it counts as dead earlier than others do."""
    from daemon.fleet import lifetime
    from state.stores.fleet import processes

    vars(processes).update(ALIVE_SECONDS=alive)
    vars(lifetime).update(ALIVE_SECONDS=alive, HEARTBEAT_SECONDS=alive / 3, _MARGIN_SECONDS=alive / 8)


HASTY = (f"{__name__}:hasten", [3.0])
# A job whose worker died is taken for lost some time after it began, and its workspace is looked at again after this.
FOUND_SECONDS = schedule._BEGIN_SECONDS + sweeper._NET_SECONDS


def test_what_a_killed_worker_acknowledged_another_one_has(fleet: Fleet) -> None:
    place = fleet.place()
    with fleet.process(before=HASTY) as first, fleet.process(before=HASTY) as second:
        status, _ = write(first, place, "Ada prefers tea over coffee")
        assert status == 200
        first.kill()
        until(lambda: write(second, place, "and cake")[0] == 200)
        status, lines = second.ask(place, "memory_search", {"query": "tea"})
        assert status == 200
        assert "Ada prefers tea over coffee" in str(lines)
    assert sorted(fleet.crystals(place)) == ["Ada prefers tea over coffee", "and cake"]


@pytest.mark.full
def test_a_worker_that_was_stopped_for_long_commits_nothing(fleet: Fleet) -> None:
    place = fleet.place()
    with fleet.process(before=HASTY) as first, fleet.process(before=HASTY) as second:
        assert write(first, place, "before")[0] == 200
        answers: list[int] = []
        asking = threading.Thread(target=lambda: answers.append(write(first, place, "in the dark")[0]))
        first.process.send_signal(signal.SIGSTOP)
        asking.start()
        until(lambda: write(second, place, "meanwhile")[0] == 200)
        first.process.send_signal(signal.SIGCONT)
        asking.join(60)
        texts = Counter(fleet.crystals(place))
        assert texts["before"] == texts["meanwhile"] == 1
        assert texts["in the dark"] == (1 if answers == [200] else 0), answers
        until(lambda: first.row is not None)
        assert write(second, place, "after")[0] == 200
    assert Counter(fleet.crystals(place))["after"] == 1


def nothing_waits(fleet: Fleet, places: list[Place]) -> bool:
    """Where all three died of one workspace it is left alone for minutes: they have passed."""
    fleet.database.rows(
        "UPDATE workspaces SET due_at = clock_timestamp()"
        " WHERE failures > 0 AND due_at > clock_timestamp() + interval '1 minute'"
    )
    return not any(fleet.waiting(place) for place in places)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 6))
def test_each_note_becomes_one_memory_however_often_workers_are_killed(fleet: Fleet, seed: int) -> None:
    rng, places = random.Random(seed), [fleet.place() for _ in range(3)]
    fleet.settings = {"dream": {"interval_minutes": 1, "min_chunks": 1, "idle_minutes": 1}}
    notes = [f"the number of invoice {number} is {number * 7919}" for number in range(30)]
    for number, note in enumerate(notes):
        place = places[number % 3]
        fleet.note(place, note)
        if number % 10 == 9:
            for one in places:
                fleet.put(one, "session_end", "{}")
            with fleet.process(before=HASTY):
                time.sleep(rng.uniform(0.5, 3.5))
    with fleet.process(before=HASTY) as last:
        until(lambda: nothing_waits(fleet, places), FOUND_SECONDS + PATIENCE_SECONDS)
        assert "Traceback" not in last.log
    held = Counter(text for place in places for text in fleet.crystals(place))
    assert {note: held[note] for note in notes} == dict.fromkeys(notes, 1)


def slow(seconds: float) -> Any:
    return slowly(good, seconds)


@pytest.mark.full
def test_what_a_dream_cost_is_counted_though_its_worker_is_killed_before_the_end(fleet: Fleet) -> None:
    place = fleet.place()
    # What cannot be read is asked for again, by a step of its own.
    with ScriptedModel(lambda _, number: Reply("no JSON", wait_seconds=60.0 if number > 1 else 0.0)) as model:
        fleet.settings = {"model": {"name": "openai/scripted", "api_base": model.url}, "dream": {"min_chunks": 1}}
        for number in range(6):
            fleet.note(place, f"invoice {number} was paid on day {number * 31}")
        fleet.put(place, "session_end", "{}")
        with fleet.process(OPENAI_API_KEY="sk-none") as worker:
            until(lambda: model.count > 1)
            worker.kill()
    [spent] = fleet.database.rows("SELECT dreams, calls, tokens FROM spending")
    assert (spent["dreams"], spent["calls"]) == (0, 1)
    assert spent["tokens"] > 0


@pytest.mark.full
@pytest.mark.parametrize(("seconds", "beside"), [(5.0, False), (30.0, False), (30.0, True)])
def test_a_signal_drains_a_worker_whose_model_is_slow(fleet: Fleet, seconds: float, *, beside: bool) -> None:
    """`beside`: another worker lives at that moment; else one comes later."""
    place = fleet.place()
    notes = [f"invoice {number} was paid on day {number * 31}" for number in range(6)]
    with ScriptedModel(slow(seconds)) as model, ExitStack() as later:
        fleet.settings = {"model": {"name": "openai/scripted", "api_base": model.url}, "dream": {"min_chunks": 1}}
        for note in notes:
            fleet.note(place, note)
        fleet.put(place, "session_end", "{}")
        with fleet.process(OPENAI_API_KEY="sk-none") as first:
            until(lambda: model.count)
            # What is acknowledged in the middle of the dream, by the owner and by the inbox.
            assert first.ask(place, "feel", {"event": "reward", "because": "the harbour was quiet"})[0] == 200
            if beside:
                second = later.enter_context(fleet.process(OPENAI_API_KEY="sk-none"))
                assert fleet.row(place)["owner"] is not None
            model.script = slow(0.0)
            began = time.monotonic()
            first.process.terminate()
            fleet.note(place, "it came when the worker ended")
            assert first.process.wait(30) == 0
            assert time.monotonic() - began < 10.5
            assert "Traceback" not in first.log, first.log
            assert not any(one.get("event") == "dream_committed" for one in first.events)
            if not beside:
                assert fleet.waiting(place) <= 1  # what it had taken in is committed
                assert fleet.row(place)["owner"] is None
        if not beside:
            second = later.enter_context(fleet.process(OPENAI_API_KEY="sk-none"))
        until(lambda: any(one.get("event") == "workspace_taken" for one in second.events), 10)
        until(lambda: any(one.get("event") == "dream_committed" for one in second.events))
        until(lambda: fleet.row(place)["queued_at"] is None)
        if lived.pending(fleet.last(place)) or fleet.waiting(place):  # the note that came last
            assert second.ask(place, "dream_now", {"wait": True})[0] == 200
        assert not fleet.waiting(place)
        assert second.process.poll() is None
        status = _status(fleet)
    assert status["counts"]["failing"] == 0
    assert status["failing"] == []
    here = fleet.last(place)
    lived.assert_once(here, [*notes, "it came when the worker ended"])
    assert [row["cause"] for row in lived.rows(here, "SELECT cause FROM feelings")].count(
        "the harbour was quiet"
    ) == 1
    assert {row["outcome"] for row in lived.rows(here, "SELECT outcome FROM dreams")} == {"committed"}


def _status(fleet: Fleet) -> Any:
    """What `dreamd fleet status` says; nobody is a gateway here, which is its one problem."""
    done = forked.run(["fleet", "status", "--json"], environment={**os.environ, "DREAMD_FLEET__DATABASE": fleet.url})
    status = json.loads(done.stdout)
    assert [one["what"].split(":")[0] for one in status["problems"]] == ["no gateway lives"]
    return status
