"""What a process does while PostgreSQL or the object store is away, and what it asks while all is well."""

import time
from pathlib import Path

import pytest

from tests.daemon.fleet.running import Door, Fleet
from tests.daemon.fleet.test_deaths import items, remember
from tests.support.partition import Partition
from tests.support.postgres import Postgres
from tests.support.s3 import S3
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


def test_it_says_that_the_object_store_is_away_until_it_is_there(fleet: Fleet, s3: S3) -> None:
    with Partition(s3.port) as store:
        fleet.options = {name: store.through(value) for name, value in s3.options.items()}
        fleet.objects_url = s3.url
        token, place = fleet.one()
        with fleet.here() as door:
            assert remember(door, token, place, "before") == 200
            store.refuse()
            assert remember(door, token, place, "meanwhile") == 503
            until(lambda: "object store" in door.process.unready_reason())
            store.heal()
            until(lambda: not door.process.unready_reason())
            assert remember(door, token, place, "after") == 200
        assert items(fleet, place) == ["after", "before", "meanwhile"]


def _cpu(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(") ")[2].split()
    return (int(words[11]) + int(words[12])) / 100
