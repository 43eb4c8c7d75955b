"""What was forgotten lies in no object and on no disk, whoever dies on the way."""

from datetime import timedelta
from pathlib import Path

import pytest

from daemon.fleet.workers import owned as owned_module
from daemon.fleet.workers.sweeper import Sweeper
from state.errors import UnreachableError
from state.stores.generations.generations import Generations
from tests.daemon.fleet.workers.running import Fleet, run, until
from tests.support.generation_folders import held_in

PLACE = "Zanzibarquartz"
TEXT = f"Ada spent the summer in {PLACE}"


def _kept(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and PLACE.encode() in held_in(path)]


def test_after_forgetting_no_object_and_no_copy_holds_it(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.fleet.workers.worker._ERASURES_SECONDS", 0.2)
    place = fleet.place()
    with fleet.worker() as first, fleet.worker() as second:
        run(first, place, "working_memory_note", note=TEXT, importance=0.9)
        run(first, place, "working_memory_note", note="Ada prefers tea", importance=0.9)
        first.ownership.give_back_idle(0)
        assert not _kept(first.ownership._folder)
        assert [*first.ownership._folder.iterdir()]  # what it holds of the meaning of texts
        run(second, place, "mood")
        run(second, place, "working_memory_note", note="and cake", importance=0.9)
        assert fleet.holds(PLACE)
        run(second, place, "forget", text=TEXT, confirm=True)
        assert fleet.holds(PLACE) == []
        until(lambda: not [*first.ownership._folder.iterdir()])
    assert sorted(fleet.crystals(place)) == ["Ada prefers tea", "and cake"]
    assert _kept(fleet.folder) == []


@pytest.mark.full
def test_who_takes_over_finishes_an_erasure(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    place = fleet.place()
    with fleet.worker() as first:
        run(first, place, "working_memory_note", note=TEXT, importance=0.9)
        run(first, place, "working_memory_note", note="Ada prefers tea", importance=0.9)
        with monkeypatch.context() as patch:
            patch.setattr(Generations, "sweep", _die)
            with pytest.raises(UnreachableError):
                run(first, place, "forget", text=TEXT, confirm=True)
        assert fleet.holds(PLACE)
        for owned in first.ownership.all():
            owned.lost = True  # it dies here
        first.ownership.give_back_idle(0)
        fleet.database.rows("UPDATE workspaces SET owner = NULL")
        row = fleet.row(place)
        assert row["due_at"] is not None
        assert row["erasing_at"] is not None
        # Half a minute later the schedule wants a pass, which whoever owns it then does.
        monkeypatch.setattr(owned_module, "_ERASED_AGAIN", timedelta(0))
        fleet.database.rows("UPDATE workspaces SET due_at = clock_timestamp() - interval '1 second'")
        assert Sweeper(first.database, first.stopping).tick() == 1
        assert fleet.row(place)["queued_at"] is not None
        with fleet.worker() as second:
            second.run_job(place.id)
            assert fleet.holds(PLACE) == []
            assert fleet.row(place)["erasing_at"] is None
    assert fleet.crystals(place) == ["Ada prefers tea"]


def _die(*_: object) -> None:
    raise UnreachableError("the store is away", "try again")
