"""Forgetting that is cut off anywhere is finished by the next call, and brings nothing back meanwhile."""

import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.config.settings import Config
from daemon.ingest.notes import absorb_notes
from daemon.upkeep.examine import check_stores
from daemon.upkeep.forget import Receipt, forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.adoption import open_workspace
from daemon.workspace.status import status
from daemon.workspace.stores import utc_now
from state.document.document import parse
from state.errors import StorageError
from state.forgetting.known import Target
from state.scratch import Note
from state.stores.database.tombstones import TombstoneStore
from state.stores.disk.workspace import Workspace
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, share
from tests.support.forgettable import BY_HAND, KEPT, SECRET, assert_gone, copied, finds, little, quick
from tests.support.long_variants import variants


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return little(tmp_path_factory.mktemp("cut off") / "w", SECRET)


def assert_finished(copy: Workspace) -> Receipt:
    """The next call, which is told nothing, finishes it; everything else is there."""
    with quick(copy) as store:
        receipt = forget(store, ForgetRequest(""), utc_now())
        assert receipt.clean, receipt.left
    assert_everything_else(copy)
    return receipt


def assert_everything_else(copy: Workspace) -> None:
    assert_gone(copy, SECRET)
    lines = [block.text for _, block in parse(copy.document.read_text(encoding="utf-8")).lines()]
    assert BY_HAND in lines
    with quick(copy) as store:
        assert all(any(line in one for one in finds(store, line)) for line in KEPT)
        assert [note for note in tuple(store.notes.each_pending()) if note.text.strip() == f"{KEPT[0]}."]
        assert [one for one in check_stores(store) if one.about in ("history", "forgetting") and one.advice] == []
    assert not [one for one in status(copy, Config(), utc_now()).problems if "forgetting" in one.what]


def begun(copy: Workspace) -> bool:
    with sqlite3.connect(copy.database) as connection:
        found = connection.execute("SELECT 1 FROM meta WHERE name = 'forgetting'").fetchone() is not None
    assert found is any("forgetting" in one.what for one in status(copy, Config(), utc_now()).problems)
    return found


@pytest.mark.full
@pytest.mark.parametrize("every", variants(short=7, long=1))
def test_whatever_call_to_the_disk_fails_the_next_one_finishes(workspace: Workspace, every: int) -> None:
    counted = {"cut off": 0}

    def prepare(folder: Path) -> Path:
        with quick(copied(workspace, folder)):
            return folder

    def scenario(system: FaultySystem) -> None:
        copy, system.fail_at = open_workspace(system.root), (system.fail_at or 0) * every
        with quick(copy, system) as store:
            try:
                forget(store, ForgetRequest(SECRET), utc_now())
            except (PowerCut, StorageError):
                counted["cut off"] += 1
        parse(copy.document.read_text(encoding="utf-8"))
        if begun(copy):
            assert assert_finished(copy).went_on
        else:
            # Not begun; or done, and only the copy of state.db is not made anew.
            is_done = SECRET not in copy.document.read_text(encoding="utf-8")
            assert is_done or not system.met or system.fault is Fault.ERROR
            assert_everything_else(copy)

    faults = (Fault.CRASH,) if every > 1 else (Fault.CRASH, Fault.TORN_CRASH, Fault.ERROR)
    runs = every_fault(faults, prepare, scenario)
    assert counted["cut off"] * every > share(20)
    assert runs > counted["cut off"]


def test_a_note_that_says_it_again_is_wiped_whatever_call_fails(workspace: Workspace, tmp_path: Path) -> None:
    begun, said = copied(workspace, tmp_path / "begun"), "Ada keeps bees near Oslo"
    with quick(begun) as store:
        TombstoneStore(store.connection).block(Target.of(said), utc_now())
        store.notes.inbox.append(Note(f"Rex is a dog. {said}. Miez is a cat.", utc_now()))
        with begun.scratch.open("a") as agent:
            agent.write(f"- {said}\n- The mast is oak\n")

    def scenario(system: FaultySystem) -> None:
        copy = open_workspace(system.root)
        with quick(copy, system) as store, suppress(PowerCut, StorageError):
            absorb_notes(store, utc_now())
        with quick(copy) as store:
            absorb_notes(store, utc_now())
            pending = [one.text for one in store.notes.each_pending()]
            assert not any(said in path.read_text() for path in store.notes.inbox.files())
        assert {"Rex is a dog. Miez is a cat.", "The mast is oak"} <= set(pending)
        assert len(pending) == len(set(pending))

    faults = (Fault.CRASH, Fault.TORN_CRASH, Fault.ERROR)
    assert every_fault(faults, lambda folder: copied(begun, folder).root, scenario) > share(10)
