"""What a process does while PostgreSQL or the object store is away, and what it asks while all is well."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from daemon.fleet.upkeep.status import fleet_status
from state.stores.generations.guard import MARK
from state.stores.generations.objects import open_objects
from tests.daemon.fleet.running import OPERATOR, Door, Fleet
from tests.daemon.fleet.test_deaths import items, remember
from tests.support import forked, lived
from tests.support.model_characters import good
from tests.support.partition import Partition
from tests.support.postgres import Postgres
from tests.support.s3 import S3
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.serving import until

pytestmark = pytest.mark.full


def ready(door: Door) -> int:
    return door.ask("", "GET", "/readyz").status


@pytest.mark.parametrize("seconds", [2.0, 20.0])
def test_a_process_goes_on_by_itself_after_postgresql_was_away(
    fleet: Fleet, postgres: Postgres, seconds: float
) -> None:
    token, place = fleet.one()
    with Partition(postgres.port) as door, fleet.process(database=door.through(fleet.url)) as process:
        assert remember(process, token, place, "before") == 200
        assert ready(process) == 200
        door.refuse()
        began, burnt = time.monotonic(), _cpu(process.process.pid)
        if seconds > 15:
            until(lambda: ready(process) == 503, seconds=seconds + 5)
        while time.monotonic() < began + seconds:
            time.sleep(0.1)
        burnt = _cpu(process.process.pid) - burnt
        lines = len(process.log.splitlines())
        door.heal()
        until(lambda: ready(process) == 200)
        until(lambda: process.row is not None and remember(process, token, place, "after") == 200)
        assert burnt < 0.3 * (time.monotonic() - began)
        assert lines < 40, process.log
        fleet.note(place, "by the inbox")
        fleet.put(place, kind="session_end")
        until(lambda: not fleet.waiting(place))
    assert set(items(fleet, place)) == {"after", "before"}
    assert fleet.crystals(place) == ["by the inbox"]


@pytest.fixture
def store(fleet: Fleet, s3: S3) -> Iterator[Partition]:
    """The object store of the fleet is S3, behind this door."""
    with Partition(s3.port) as store:
        fleet.options = {name: store.through(value) for name, value in s3.options.items()}
        fleet.objects_url = s3.url
        yield store


def figure(door: Door, name: str) -> float:
    text = door.ask(OPERATOR, "GET", "/metrics").body.decode()
    [line] = [line for line in text.splitlines() if line.startswith(f"dreamd_fleet_{name} ")]
    return float(line.split()[1])


def problems(fleet: Fleet) -> str:
    return str([one.what for one in fleet_status(fleet.database, fleet.config()).problems])


def test_while_the_object_store_is_away_notes_are_taken_by_who_says_so(fleet: Fleet, store: Partition) -> None:
    token, place = fleet.one()
    with fleet.process() as process:
        assert remember(process, token, place, "before") == 200
        assert figure(process, "store_up") == 1
        store.refuse()
        until(lambda: figure(process, "store_up") == 0, seconds=10)
        until(lambda: "the object store of the fleet cannot be reached" in problems(fleet), seconds=10)
        assert ready(process) == 200
        assert process.note(token, "one", "meanwhile").status == 200
        refused = process.do(token, place, "feel", event="reward", because="nothing of it stands")
        assert (refused.status, refused.code) == (503, "UNREACHABLE")
        store.heal()
        until(lambda: figure(process, "store_up") == 1)
        assert remember(process, token, place, "after") == 200
        assert "cannot be reached" not in process.do(token, place, "dream_status").body.decode()
    assert items(fleet, place) == ["after", "before"]
    assert fleet.crystals(place) == ["meanwhile"]
    assert lived.rows(fleet.last(place), "SELECT cause FROM feelings") == []


def test_nobody_waits_for_an_object_store_that_hangs(fleet: Fleet, store: Partition) -> None:
    token, place = fleet.one()
    other = fleet.place(fleet.tenants.find("acme"), "other")

    def timed(number: int) -> tuple[float, int]:
        began = time.monotonic()
        status = remember(process, token, (place, other)[number % 2], f"number {number}")
        return time.monotonic() - began, status

    with fleet.process() as process:
        assert remember(process, token, place, "before") == 200
        store.hang()
        with ThreadPoolExecutor(12) as pool:
            waited = list(pool.map(timed, range(12)))
        assert max(seconds for seconds, _ in waited) < 3, waited
        assert {status for _, status in waited} == {503}
        began = time.monotonic()
        refused = process.do(token, other, "feel", event="reward")
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "UNREACHABLE", "2")
        assert time.monotonic() - began < 0.5
        assert process.search(token, "one", "before") == []  # what is held is read
        store.heal()
        until(lambda: remember(process, token, place, "after") == 200, seconds=10)
        assert remember(process, token, other, "there too") == 200
    assert {"after", "before"} <= set(items(fleet, place))


def test_a_store_that_is_emptied_takes_nothing_and_what_was_acknowledged_is_kept(
    fleet: Fleet, s3: S3, store: Partition
) -> None:
    token, place = fleet.one()
    with fleet.process() as process:
        assert remember(process, token, place, "before") == 200
        objects = open_objects(fleet.objects_url, fleet.options)
        kept = {one.key: objects.get(one.key) for one in objects.list("")}
        s3.clear()
        # At once, and for each write: what says that it is kept is, in a store that is the fleet's.
        assert process.note(token, "one", "acknowledged by the inbox").status == 200
        refused = process.do(token, place, "working_memory_add", session_id="s1", content="during", priority="high")
        assert refused.status == 503
        until(lambda: "has not the mark of this fleet" in problems(fleet), seconds=10)
        assert ready(process) == 200
        assert fleet.waiting(place) == 1
        process.kill()
    ended = forked.run(
        ["fleet", "serve"],
        environment={
            **os.environ,
            **fleet.options,
            "DREAMD_FLEET__DATABASE": fleet.url,
            "DREAMD_FLEET__OBJECTS": fleet.objects_url,
            "DREAMD_FLEET__FOLDER": str(fleet.folder / "own"),
        },
    )
    assert ended.returncode == 2
    assert b"is not the object store of this fleet" in ended.stderr
    s3.clear()
    for key, content in kept.items():
        objects.put(key, content)
    with fleet.process() as process:
        assert process.search(token, "one", "inbox acknowledged") == ["acknowledged by the inbox"]
        assert remember(process, token, place, "after") == 200
    assert items(fleet, place) == ["after", "before"]
    assert fleet.crystals(place) == ["acknowledged by the inbox"]


@pytest.mark.parametrize("later", [["after"], []])
def test_what_is_held_outlasts_a_store_that_comes_back_without_it(fleet: Fleet, later: list[str]) -> None:
    token, place = fleet.one()
    with fleet.here() as door:
        assert remember(door, token, place, "before") == 200
        objects = open_objects(fleet.objects_url, {})
        mark = objects.get(MARK)
        objects.delete([one.key for one in objects.list("")])
        until(lambda: door.process.objects.is_replaced, seconds=10)
        door.process.desk.tidy(idle_seconds=0)  # gives nothing back now
        objects.put(MARK, mark)
        until(lambda: not door.process.objects.problem)
        assert [remember(door, token, place, text) for text in later] == [200 for _ in later]
    assert items(fleet, place) == [*later, "before"]


def test_a_dream_that_ends_while_the_store_is_away_may_have_been_dreamt(fleet: Fleet, store: Partition) -> None:
    def script(request: dict[str, Any], number: int) -> Reply | str | dict[str, Any]:
        store.refuse()
        until(lambda: figure(process, "store_up") == 0, seconds=10)
        return good(request, number)

    token, place = fleet.one()
    with ScriptedModel(script) as model:
        fleet.settings = {"model": {"name": "openai/scripted", "api_base": model.url}}
        with fleet.process(OPENAI_API_KEY="sk-none") as process:
            assert process.note(token, "one", "Ada prefers tea over coffee").status == 200
            answer = process.do(token, place, "dream_now")
            store.heal()
            assert (answer.status, answer.code) == (503, "UNKNOWN_OUTCOME"), process.log


def _cpu(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(") ")[2].split()
    return (int(words[11]) + int(words[12])) / 100
