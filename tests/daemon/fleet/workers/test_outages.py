"""What a worker does while PostgreSQL or the object store is away, and what it asks while all is well."""

import http.client
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from daemon.fleet.workers.watched_objects import WatchedObjects
from state.errors import UnreachableError
from state.stores.generations.folder_objects import FolderObjects
from state.stores.generations.objects import open_objects
from tests.daemon.fleet.workers.running import Fleet, Running, run, until
from tests.daemon.fleet.workers.test_deaths import write
from tests.support.partition import Partition
from tests.support.postgres import Postgres
from tests.support.s3 import S3


def ready(worker: Running) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=10)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.full
@pytest.mark.parametrize("seconds", [2.0, 5.0, 20.0])
def test_a_worker_goes_on_by_itself_after_postgresql_was_away(
    fleet: Fleet, postgres: Postgres, seconds: float
) -> None:
    place = fleet.place()
    with Partition(postgres.port) as door, fleet.process(database=door.through(fleet.url)) as worker:
        assert write(worker, place, "before")[0] == 200
        assert ready(worker) == 200
        door.refuse()
        began, burnt = time.monotonic(), _cpu(worker.process.pid)
        if seconds > 15:
            until(lambda: ready(worker) == 503, seconds + 5)
        while time.monotonic() < began + seconds:
            time.sleep(0.1)
        burnt = _cpu(worker.process.pid) - burnt
        lines = len(worker.log.splitlines())
        door.heal()
        until(lambda: ready(worker) == 200)
        until(lambda: worker.row is not None and write(worker, place, "after")[0] == 200)
        assert burnt < 0.3 * (time.monotonic() - began)
        assert lines < 40, worker.log
        fleet.note(place, "by the inbox")
        fleet.put(place, "session_end", "{}")
        until(lambda: not fleet.waiting(place))
    assert sorted(fleet.crystals(place)) == ["after", "before", "by the inbox"]


@pytest.mark.full
def test_a_commit_whose_answer_is_lost_is_made_once(fleet: Fleet, postgres: Postgres) -> None:
    place = fleet.place()
    with Partition(postgres.port) as door:
        behind = Fleet(door.through(fleet.url), fleet.folder, objects_url=fleet.objects_url)
        with closing(behind), behind.worker() as worker:
            for number in range(3):
                door.lose_answer(f"{place.prefix}/generations/".encode())
                run(worker, place, "working_memory_note", note=f"note {number}", importance=0.9)
                assert (door.lost, fleet.row(place)["generation"]) == (number + 1, number + 1)
    assert sorted(fleet.crystals(place)) == ["note 0", "note 1", "note 2"]


@pytest.mark.full
@pytest.mark.parametrize("away", [0.0, 2.0])
def test_a_job_whose_end_could_not_be_told_holds_up_nobody(fleet: Fleet, postgres: Postgres, away: float) -> None:
    """Its worker lives on, and says so every ten seconds."""
    place = fleet.place()
    with (
        Partition(postgres.port) as door,
        fleet.process(database=door.through(fleet.url), DREAMD_DREAM__MIN_CHUNKS="1") as worker,
    ):
        door.lose_question(b"procrastinate_finish_job", *([door.refuse] if away else []))
        fleet.note(place, "the first")
        fleet.put(place, "session_end", "{}")
        until(lambda: door.lost)
        time.sleep(away)
        door.heal()
        fleet.note(place, "the second")
        fleet.put(place, "session_end", "{}")
        until(lambda: not fleet.waiting(place), 75)
        assert fleet.row(place)["problem"] == ""
        assert worker.process.poll() is None
    assert sorted(fleet.crystals(place)) == ["the first", "the second"]


@pytest.mark.full
def test_it_says_that_the_object_store_is_away_until_it_is_there(fleet: Fleet, s3: S3) -> None:
    with Partition(s3.port) as door:
        fleet.options = {name: door.through(value) for name, value in s3.options.items()}
        fleet.objects_url = s3.url
        place = fleet.place()
        with fleet.worker() as worker:
            run(worker, place, "working_memory_note", note="before", importance=0.9)
            door.refuse()
            with pytest.raises(UnreachableError):
                run(worker, place, "working_memory_note", note="meanwhile", importance=0.9)
            assert "object store" in worker.unready_reason()
            door.heal()
            until(lambda: not worker.unready_reason())
            run(worker, place, "working_memory_note", note="after", importance=0.9)
        assert set(fleet.crystals(place)) == {"before", "meanwhile", "after"}


def test_a_search_does_not_wait_for_an_upload(fleet: Fleet) -> None:
    place, begun, go_on = fleet.place(), threading.Event(), threading.Event()

    class Slow(FolderObjects):
        def put_new(self, key: str, content: bytes) -> None:
            begun.set()
            assert go_on.wait(60)
            super().put_new(key, content)

    with fleet.worker() as worker, ThreadPoolExecutor(1) as pool:
        run(worker, place, "working_memory_note", note="Ada prefers tea", importance=0.9)
        worker._objects._objects = Slow(fleet.folder / "objects")
        writing = pool.submit(run, worker, place, "working_memory_note", note="and cake", importance=0.9)
        assert begun.wait(60)
        fleet.note(place, "and honey")
        assert "honey" in str(run(worker, place, "memory_search", query="honey"))
        assert not writing.done()
        go_on.set()
        writing.result(60)
    assert set(fleet.crystals(place)) == {"Ada prefers tea", "and cake", "and honey"}


def test_what_a_store_says_is_no_outage(fleet: Fleet) -> None:
    from state.errors import NotFoundError

    objects = WatchedObjects(open_objects(fleet.objects_url, {}))
    with pytest.raises(NotFoundError):
        objects.get("nothing")
    assert not objects.problem


@pytest.mark.full
def test_what_dreams_and_idle_workspaces_ask_of_postgresql(
    fleet: Fleet, postgres: Postgres, capsys: pytest.CaptureFixture[str]
) -> None:
    import psycopg

    name = fleet.url.rpartition("/")[2]
    with psycopg.connect(postgres.admin_url, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE \"{name}\" SET log_statement = 'all'".encode())
    places = [fleet.place() for _ in range(20)]
    for place in places:
        for number in range(5):
            fleet.note(place, f"invoice {number} was paid")
        fleet.put(place, "session_end", "{}")
    with fleet.process(DREAMD_FLEET__IDLE_SECONDS="1") as worker:
        asked = postgres._log.stat().st_size
        until(lambda: all(fleet.settled(place) and fleet.row(place)["generation"] for place in places))
        time.sleep(3)
        text = postgres._log.read_text(errors="replace")
        dreamt = sum(one["event"] == "dream_committed" for one in worker.events)
        by_worker = text[asked:].count("statement:") + text[asked:].count("execute")
        own = text[asked:].count("SELECT * FROM workspaces WHERE id")
        burnt, began, idle_begins = _cpu(worker.process.pid), time.monotonic(), postgres._log.stat().st_size
        time.sleep(5)
        idle = postgres._log.read_text(errors="replace")[idle_begins:]
        burnt = (_cpu(worker.process.pid) - burnt) / (time.monotonic() - began)
    assert dreamt >= len(places)
    figures = {
        "statements a dream": (by_worker - own) / dreamt,
        "statements a second when idle": (idle.count("statement:") + idle.count("execute")) / 5,
        "share of a processor when idle": burnt,
    }
    with capsys.disabled():
        print(f"\n{figures}")
    assert figures["statements a dream"] < 30
    assert figures["statements a second when idle"] < 8
    assert burnt < 0.1


def _cpu(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(") ")[2].split()
    return (int(words[11]) + int(words[12])) / 100
