"""What a worker acknowledges is in a generation; what it does not acknowledge may be done again."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from state.errors import NotKeptError
from tests.daemon.fleet.workers.running import Fleet, another_owner, run, until

WRITES: dict[str, dict[str, Any]] = {
    "working_memory_note": {"note": "Ada prefers tea", "importance": 0.9},
    "feel": {"event": "reward", "because": "it works"},
    "working_memory_add": {"session_id": "s1", "content": "a word of the session", "priority": "high"},
}


def _generation(fleet: Fleet, place: Any) -> int:
    return int(fleet.row(place)["generation"])


@pytest.mark.parametrize("operation", WRITES)
def test_what_is_acknowledged_is_in_a_generation(fleet: Fleet, operation: str) -> None:
    place = fleet.place()
    with fleet.worker() as worker:
        run(worker, place, operation, **WRITES[operation])
        assert _generation(fleet, place) == 1
        run(worker, place, "mood")
        assert _generation(fleet, place) == 1


def test_many_who_write_at_once_share_generations(fleet: Fleet) -> None:
    place = fleet.place()
    with fleet.worker() as worker:
        run(worker, place, "mood")
        ready = threading.Barrier(20)

        def write(number: int) -> None:
            ready.wait()
            run(worker, place, "working_memory_note", note=f"note {number}", importance=0.8)

        with ThreadPoolExecutor(20) as threads:
            list(threads.map(write, range(20)))
        assert _generation(fleet, place) <= 10
        assert sorted(fleet.crystals(place)) == sorted(f"note {number}" for number in range(20))


def test_copies_go_when_they_are_old_or_the_disk_is_full_and_what_is_owned_stays(fleet: Fleet) -> None:
    old, young, owned = (fleet.place() for _ in range(3))
    with fleet.worker() as worker:
        for place in (old, young):
            run(worker, place, "working_memory_note", note=f"of {place.name}", importance=0.9)
        worker.ownership.give_back_idle(0)
        run(worker, owned, "working_memory_note", note="here", importance=0.9)
        [here] = fleet.folder.glob("worker-*/workspaces")
        os.utime(here / old.handle, (1, 1))

        def copies() -> set[str]:
            return {folder.name for folder in here.iterdir()}

        worker.ownership.remove_old_copies()
        assert copies() == {young.handle, owned.handle}
        worker.ownership.remove_old_copies(least_free=1.1)
        assert copies() == {owned.handle}
        run(worker, old, "working_memory_note", note="again", importance=0.9)
    assert set(fleet.crystals(old)) == {f"of {old.name}", "again"}


def test_each_row_of_the_inbox_is_taken_in_once(fleet: Fleet) -> None:
    place = fleet.place()
    notes = [f"the note of number {number}" for number in range(30)]
    with fleet.worker() as worker:
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                run(worker, place, "mood")

        def write() -> None:
            while not stop.is_set():
                run(worker, place, "session_open", session_id="s1")

        with ThreadPoolExecutor(4) as threads:
            tasks = [threads.submit(work) for work in (read, write, read, write)]
            for note in notes:
                fleet.note(place, note)
            until(lambda: not fleet.waiting(place))
            stop.set()
            for task in tasks:
                task.result()
        # Whoever dies now leaves what its last generation holds, and the rows that it did not take.
        assert sorted(fleet.crystals(place)) == sorted(notes)


def test_a_row_that_comes_while_a_generation_is_made_is_not_in_it(fleet: Fleet, monkeypatch: Any) -> None:
    from state.stores.generations import snapshot

    place, taken = fleet.place(), threading.Event()
    with fleet.worker() as worker:
        run(worker, place, "mood")
        absorbing: list[threading.Thread] = []
        take = snapshot.take

        def read() -> None:
            run(worker, place, "mood")
            taken.set()

        def late(*arguments: Any) -> Any:
            if not absorbing:
                fleet.note(place, "it came while the generation was made")
                absorbing.append(threading.Thread(target=read))
                absorbing[0].start()
                assert not taken.wait(0.5)
            return take(*arguments)

        monkeypatch.setattr(snapshot, "take", late)
        run(worker, place, "working_memory_note", note="the first", importance=0.8)
        absorbing[0].join()
        assert fleet.waiting(place) == 1
        assert fleet.crystals(place) == ["the first"]
        run(worker, place, "working_memory_note", note="the last", importance=0.8)
        assert fleet.waiting(place) == 0
        assert sorted(fleet.crystals(place)) == ["it came while the generation was made", "the first", "the last"]


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "null",
        "7",
        "{}",
        "not json",
        '{"text": 5, "importance": 1}',
        '{"text": "a", "importance": null}',
        '{"text": "a", "importance": 7}',
        '{"text": "", "importance": 0.5}',
        '{"text": "a", "at": "yesterday", "importance": 0.5}',
        '{"text": "a", "importance": 0.5, "at": "0001-01-01T00:00:00+23:00"}',
    ],
)
def test_a_row_that_nobody_can_read_holds_up_no_other(fleet: Fleet, body: str) -> None:
    place = fleet.place()
    poison = fleet.put(place, "note", body)
    fleet.note(place, "the note behind it")
    with fleet.worker() as worker:
        run(worker, place, "working_memory_note", note="the last", importance=0.8)
        assert sorted(fleet.crystals(place)) == ["the last", "the note behind it"]
        assert fleet.waiting(place) == 0
    row = fleet.database.row("SELECT body FROM inbox WHERE id = %(id)s", {"id": poison})
    assert row == {"body": body}


def test_who_was_displaced_commits_nothing(fleet: Fleet) -> None:
    place = fleet.place()
    with fleet.worker() as worker:
        run(worker, place, "working_memory_note", note="before", importance=0.8)
        with another_owner(fleet, place):
            for operation, fields in (("working_memory_note", {"note": "too late", "importance": 0.8}), ("mood", {})):
                with pytest.raises(NotKeptError):
                    run(worker, place, operation, **fields)
        assert fleet.crystals(place) == ["before"]
        folder = worker.ownership._folder / place.handle
        assert not folder.exists()


def test_the_next_owner_goes_on_where_the_last_one_stopped(fleet: Fleet) -> None:
    place = fleet.place()
    with fleet.worker() as worker:
        run(worker, place, "working_memory_note", note="before", importance=0.8)
        with worker.ownership.owning(place.id) as owned:
            worker.jobs.consolidate(owned, None)
            passed, due = owned.keeper.last_pass, fleet.row(place)["due_at"]
    with fleet.worker() as worker, worker.ownership.owning(place.id) as owned:
        assert passed is not None
        assert owned.keeper.last_pass == fleet.row(place)["committed_at"] > passed
        assert owned.keeper.changed == (due is not None)


def test_no_user_is_lost_count_of(fleet: Fleet) -> None:
    place = fleet.place()
    with fleet.worker() as worker:

        def use(_: int) -> None:
            for _ in range(200):
                with worker.ownership.owning(place.id):
                    pass

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(use, range(8)))
        owned = worker.ownership.find(place.id)
        assert owned is not None
        assert owned.users == 0
