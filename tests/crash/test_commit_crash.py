"""A version that is cut off anywhere is there or not: of a dream, of a restore, of lines that their owner changes.

Each note is consumed once, no file of a killed writer stays, and the next dream goes on.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.dream.lines.change import LineWish, change
from daemon.dream.lines.standing import standing_lines
from daemon.dream.restore import restore
from daemon.workspace.stores import Store, utc_now
from graphs.review import LineAction
from state.document.document import SectionName
from state.errors import StorageError
from state.stores.disk.syscalls import System
from state.stores.disk.workspace import Workspace, contained
from tests.support.committing import (
    BY_HAND,
    FURTHER,
    NEW_NOTES,
    OLD_NOTES,
    Prepared,
    assert_recovers,
    assert_recovers_and_goes_on,
    dreamt,
    lines,
    opened,
    places,
    prepared,
)
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, images, share
from tests.support.long_variants import fewer, is_whole
from tests.support.stepping import killed

PORT, TEA, LEDGER = OLD_NOTES
MINE, NEW = "Ada prefers cocoa in the morning", "Ada answers in one line"


@dataclass(frozen=True, slots=True)
class Act:
    """What makes a version, and what must be so once it was cut off: says whether it was done.

    With a `further` note another dream is made as well.
    """

    do: Callable[[Store, Prepared], object]
    is_done: Callable[[Workspace, Prepared, str], bool]


def committed(workspace: Workspace, ready: Prepared, further: str) -> bool:
    return (assert_recovers_and_goes_on if further else assert_recovers)(workspace, ready)


def restored(workspace: Workspace, _: Prepared, further: str) -> bool:
    """Version 3 with every note consumed, or version 1 again with that dream's notes pending."""
    with opened(workspace) as store:
        text, last = workspace.document.read_text(encoding="utf-8"), store.lineage.last_version()
        assert last in (3, 4)
        assert text == store.memory.text(1 if last == 4 else 3) == store.memory.text(last)
        assert places(store) == dict.fromkeys((*OLD_NOTES, *NEW_NOTES), 1)
        pending = {note.text for note in store.notes.each_pending()}
        assert pending == (set(NEW_NOTES) if last == 4 else set())
        if further:
            dreamt(store, further)
            assert tuple(store.notes.each_pending()) == ()
            assert places(store) == dict.fromkeys((*OLD_NOTES, *NEW_NOTES, further), 1)
            assert all(run.outcome != "running" for run in store.ledger.runs(10))
    return last == 4


def change_lines(store: Store, _: Prepared) -> None:
    known = {line.text: line.id for section in standing_lines(store, utc_now()).sections for line in section.lines}
    wishes = [
        LineWish(LineAction.WRONG, known[TEA], expected=TEA, text=MINE),
        LineWish(LineAction.DELETE, known[PORT], expected=PORT),
        LineWish(LineAction.PIN, known[LEDGER], expected=LEDGER),
        LineWish(LineAction.ADD, section=SectionName.PHENOTYPE, text=NEW),
    ]
    change(store, wishes)


def changed(workspace: Workspace, _: Prepared, further: str) -> bool:
    """The file, the ledger and the crystals say the same, and the next dream agrees."""
    before = {BY_HAND, *OLD_NOTES}
    text = workspace.document.read_text(encoding="utf-8")
    assert set(lines(workspace)) in (before, {BY_HAND, NEW, MINE, LEDGER})
    with opened(workspace) as store:
        done = MINE in {line.text for line in store.lineage.current_lines()}
        assert done or workspace.document.read_text(encoding="utf-8") == text
        standing = {line.text for line in store.lineage.current_lines()}
        if done:
            assert standing == set(lines(workspace)) == {BY_HAND, NEW, MINE, LEDGER}
        assert set(store.lineage.tombstones()) == ({PORT, TEA} if done else set())
        assert (f"{LEDGER} 📌" in workspace.document.read_text(encoding="utf-8")) is done
        owners = store.crystals.connection.execute("SELECT 1 FROM supersessions WHERE cause = 'owner'").fetchall()
        assert bool(owners) is done
        if further:
            kept = set(lines(workspace))
            dreamt(store, further)
            assert set(lines(workspace)) >= kept | {further}
            assert store.ledger.unfinished() is None
    return done


COMMIT = Act(lambda store, ready: store.memory.commit(ready.dream), committed)
RESTORE = Act(lambda store, _: restore(store, 1), restored)
LINES = Act(change_lines, changed)
ACTS = pytest.mark.parametrize("act", [COMMIT, RESTORE, LINES], ids=["commit", "restore", "lines"])


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a disk keeps is simulated: the real one need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A dream that is to be committed."""
    return prepared(tmp_path_factory.mktemp("commit") / "agent")


@pytest.fixture(scope="module")
def done(waiting: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The same, committed: a restore goes back behind it."""
    workspace = waiting.copy(tmp_path_factory.mktemp("restore") / "agent")
    with opened(workspace) as store:
        store.memory.commit(waiting.dream)
        store.ledger.end(waiting.dream.id, "committed", "", waiting.dream.at, 3)
    return Prepared(workspace.root, waiting.dream)


@pytest.fixture
def ready(act: Act, waiting: Prepared, done: Prepared) -> Prepared:
    return done if act is RESTORE else waiting


def assert_nothing_is_left(workspace: Workspace) -> None:
    """What killed writers leave behind is cleared away, wherever it is."""
    with opened(workspace) as store:
        store.sweep(utc_now() + timedelta(hours=2))
    assert list(workspace.root.rglob("*.dreamd-tmp")) == []
    assert list(workspace.root.glob(".*.displaced")) == []


@pytest.mark.full
@ACTS
def test_a_call_that_fails_leaves_the_old_version_or_the_new_one(act: Act, ready: Prepared, tmp_path: Path) -> None:
    ends = {True: 0, False: 0}

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        workspace = ready.copy(tmp_path / f"{fault.name}{fail_at}")
        system = FaultySystem(workspace.root, fail_at, fault)
        with opened(workspace, system) as store, suppress(StorageError):
            act.do(store, ready)
            assert not system.met or fault is Fault.ERROR
        ends[act.is_done(workspace, ready, FURTHER)] += 1
        shutil.rmtree(workspace.root)
        return system

    assert every_fault((Fault.ERROR, Fault.ERROR_ONWARDS), scenario) > share(15)
    assert ends[True] > share(10)  # nearly all that is done in files is done after the commit


@pytest.mark.full
@ACTS
def test_a_loss_of_power_leaves_the_old_version_or_the_new_one(act: Act, ready: Prepared, tmp_path: Path) -> None:
    worlds, left = 0, set[str]()

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        nonlocal worlds
        workspace = ready.copy(tmp_path / f"{fault.name}{fail_at}")
        system = FaultySystem(workspace.root, fail_at, fault)
        with suppress(PowerCut), opened(workspace, system) as store:
            act.do(store, ready)
        for image in images(system, tmp_path / "images"):
            # SQLite synced what it committed; the rest of the folder is what the disk kept.
            shutil.copyfile(workspace.database, image / ".dreamd" / "state.db")
            act.is_done(contained(image), ready, "" if worlds % 6 else FURTHER)
            worlds += 1
        left.update(path.name.split(".")[1] for path in workspace.root.rglob("*.dreamd-tmp"))
        assert_nothing_is_left(workspace)
        shutil.rmtree(tmp_path / "images")
        shutil.rmtree(workspace.root)
        return system

    every_fault((Fault.CRASH, Fault.TORN_CRASH), scenario)
    assert worlds > share(100)
    assert left >= ({"MEMORY", "scratch"} if is_whole() and act is not LINES else {"MEMORY"})


@pytest.mark.full
@ACTS
def test_a_kill_before_any_step_leaves_the_old_version_or_the_new_one(
    act: Act, ready: Prepared, tmp_path: Path
) -> None:
    def work(workspace: Workspace) -> Callable[[], None]:
        def live() -> None:
            with opened(workspace, System()) as store:
                act.do(store, ready)

        return live

    steps = killed(work(ready.copy(tmp_path / "whole")), -1, {})
    assert steps is not None
    ends = {True: 0, False: 0}
    for kill_at in range(0, steps, fewer(3, 1)):
        workspace = ready.copy(tmp_path / str(kill_at))
        assert killed(work(workspace), kill_at, {}) is None
        ends[act.is_done(workspace, ready, FURTHER)] += 1
        assert_nothing_is_left(workspace)
        shutil.rmtree(workspace.root)
    assert all(ends.values())


@pytest.mark.full
def test_a_database_that_is_full_at_any_page_loses_no_note(waiting: Prepared, tmp_path: Path) -> None:
    notes = [f"Note {number}: {chr(97 + number) * 900}" for number in range(8)]  # state.db has to grow for them
    every = dict.fromkeys((*OLD_NOTES, *NEW_NOTES, *notes), 1)
    full, spare = True, 0
    while full:
        workspace = waiting.copy(tmp_path / str(spare))
        with opened(workspace) as store:
            connection = store.crystals.connection
            connection.execute("VACUUM")
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + spare}")
            try:
                dreamt(store, *notes)
                full = False
            except sqlite3.OperationalError as error:
                assert "full" in str(error)  # noqa: PT017 - the last run raises nothing
        with opened(workspace) as store:
            assert places(store) == every
            dreamt(store, FURTHER)
            if tuple(store.notes.each_pending()):  # the interrupted dream went on with what it had read
                dreamt(store)
            assert tuple(store.notes.each_pending()) == ()
            assert places(store) == {**every, FURTHER: 1}
        shutil.rmtree(workspace.root)
        spare += 1
    assert spare > 5
