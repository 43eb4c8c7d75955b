"""The owner edits MEMORY.md at the worst moments of a commit: the owner wins, and the dream's other lines apply."""

import os
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from daemon.workspace.stores import Store, utc_now
from state.document.operations import Action
from state.scratch import Note
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace, contained
from state.stores.history.inbox import NoteInbox
from state.stores.history.lineage import Lineage
from state.stores.history.memory import Memory
from state.stores.history.notes import Notes
from tests.support.committing import (
    BY_HAND,
    FURTHER,
    NEW_NOTES,
    OLD_NOTES,
    Prepared,
    added,
    cut_off,
    dreamt,
    is_committed,
    lines,
    opened,
    places,
    prepared,
    without,
    write,
)
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, share

PORT, TEA, LEDGER = OLD_NOTES
NEW_PORT, GOAL, FAILED = NEW_NOTES
TYPED = "Call the dentist on Friday"
LATER = "The red bicycle is in the cellar"
GREEN = "Ada prefers green tea over coffee in the morning"


@dataclass(frozen=True, slots=True)
class Edit:
    """What the owner does to the text, and what must be so ever after."""

    change: Callable[[str], str]
    stays: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


ADDS = Edit(lambda text: added(text, TYPED), stays=(TYPED, LEDGER))
DELETES = Edit(lambda text: without(text, LEDGER), gone=(LEDGER,))
REWRITES = Edit(lambda text: text.replace(TEA, GREEN), stays=(GREEN,), gone=(TEA,))
EDITS = {"adds": ADDS, "deletes": DELETES, "rewrites": REWRITES}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a disk keeps is simulated: the real one need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The same workspace, where the note about the port names the line that it replaces."""
    root = prepared(tmp_path_factory.mktemp("edits") / "agent").root
    with opened(contained(root)) as store:
        store.notes.inbox.append(Note(NEW_PORT, utc_now(), 0.8, replaces=PORT))
        store.ledger.end(store.ledger.runs(1)[0].id, "failed", "cut off", utc_now())
        dream = cut_off(store)
    assert any(operation.action is Action.REVISE for operation in dream.operations)
    return Prepared(root, dream)


Saves = list[Callable[[str], str]]


@dataclass
class FaultyInterrupting(FaultySystem):
    """The same, and a fault at one of the calls."""

    saves: Saves = field(default_factory=list)

    def exchange(self, one: Path, other: Path, /) -> None:
        if other.name == "MEMORY.md" and self.saves:
            write(contained(self.root), self.saves.pop(0))
        super().exchange(one, other)


def assert_wins(store: Store, *edits: Edit, dreams: int = 1) -> None:
    """Now and after a further dream: the owner's lines as they were left, the dream's other lines beside them."""
    gone = {one for edit in edits for one in edit.gone}
    stays = {BY_HAND, GOAL, FAILED, *(one for edit in edits for one in edit.stays)} - gone
    for turn in range(dreams + 1):
        found = lines(store.workspace)
        assert stays <= set(found)
        assert not gone & set(found)
        assert len(found) == len(set(found))
        if turn < dreams:
            dreamt(store, FURTHER if turn == 0 else f"{FURTHER} for the {turn + 1}th time")
    assert tuple(store.notes.each_pending()) == ()
    assert {note: places(store)[note] for note in (*OLD_NOTES, *NEW_NOTES)} == dict.fromkeys(
        (*OLD_NOTES, *NEW_NOTES), 1
    )


def test_a_line_that_is_deleted_while_the_dream_revises_it_stays_deleted(ready: Prepared, tmp_path: Path) -> None:
    workspace = ready.copy(tmp_path / "agent")
    write(workspace, lambda text: without(text, PORT))
    with opened(workspace) as store:
        store.memory.commit(ready.dream)
        assert {GOAL, FAILED} <= set(lines(workspace))
        dreamt(store, FURTHER)
        assert store.lineage.tombstones() == [PORT]
        dreamt(store, f"{PORT}!")
        assert not any(line.startswith("The staging server") for line in lines(workspace))


@pytest.mark.full
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_between_a_crash_and_its_recovery_wins(ready: Prepared, tmp_path: Path, name: str) -> None:
    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        workspace = ready.copy(tmp_path / f"{fault.name}{fail_at}")
        system = FaultySystem(workspace.root, fail_at, fault)
        with suppress(PowerCut), opened(workspace, system) as store:
            store.memory.commit(ready.dream)
        decided = is_committed(workspace, ready.dream)
        write(workspace, EDITS[name].change)
        with opened(workspace) as store:
            if decided:
                assert_wins(store, EDITS[name])
            else:
                assert workspace.document.read_text(encoding="utf-8") == EDITS[name].change(ready.dream.before)
        shutil.rmtree(workspace.root)
        return system

    assert every_fault((Fault.TORN_CRASH,), scenario) > share(15)


@pytest.mark.full
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_before_the_swap_survives_a_crash_at_any_call(ready: Prepared, tmp_path: Path, name: str) -> None:
    """And one more that follows it, between the crash and recovery."""
    typed = Edit(str, stays=(LATER,))

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        workspace = ready.copy(tmp_path / f"{fault.name}{fail_at}")
        system = FaultyInterrupting(workspace.root, fail_at, fault, saves=[EDITS[name].change])
        with suppress(PowerCut), opened(workspace, system) as store:
            store.memory.commit(ready.dream)
        if not system.saves:
            write(workspace, lambda text: added(text, LATER))
            with opened(workspace) as store:
                assert_wins(store, EDITS[name], typed)
        shutil.rmtree(workspace.root)
        return system

    assert every_fault((Fault.TORN_CRASH, Fault.CRASH), scenario) > share(50)


@pytest.mark.full
def test_a_second_crash_while_recovering_an_edit_loses_nothing(ready: Prepared, tmp_path: Path) -> None:
    """The owner's save is taken out by the swap, the power goes; during recovery it goes again, at every call."""

    def until_taken_out(workspace: Workspace) -> None:
        for fail_at in range(100):
            shutil.rmtree(workspace.root, ignore_errors=True)
            ready.copy(workspace.root)
            write(workspace, DELETES.change)
            system = FaultyInterrupting(workspace.root, fail_at, Fault.TORN_CRASH, saves=[ADDS.change])
            with suppress(PowerCut), opened(workspace, system) as store:
                store.memory.commit(ready.dream)
            if not system.saves:
                return

    until_taken_out(contained((tmp_path / "once").resolve()))

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        root = tmp_path / f"{fault.name}{fail_at}"
        shutil.copytree(tmp_path / "once", root)
        workspace = contained(root.resolve())
        system = FaultySystem(workspace.root, fail_at, fault)
        with suppress(PowerCut), closing(open_database(workspace.database)) as connection:
            disk = Disk(workspace.root, system)
            stores = Crystals(connection), Lineage(connection), Notes(NoteInbox(workspace, disk), connection)
            Memory(workspace, disk, *stores, check=lambda: None).recover()
        with opened(workspace) as store:
            assert_wins(store, Edit(str, stays=(TYPED,)), DELETES)
        shutil.rmtree(workspace.root)
        return system

    assert every_fault((Fault.CRASH, Fault.TORN_CRASH), scenario) > share(20)
