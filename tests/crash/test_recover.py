"""What recovery makes of a commit that SQLite failed, and of a restore that was cut off."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from daemon.dream.restore import restore
from daemon.workspace.stores import Store
from state.errors import StorageError
from state.stores.disk.workspace import contained
from tests.support.committing import (
    FURTHER,
    NEW_NOTES,
    OLD_NOTES,
    Prepared,
    assert_recovers_and_goes_on,
    dreamt,
    opened,
    places,
    prepared,
)
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, share


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a disk keeps is simulated: the real one need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared(tmp_path_factory.mktemp("commit") / "agent")


# ---------------------------------------------------------------------------------------------- SQLite


@contextmanager
def interrupted(connection: sqlite3.Connection, after: int) -> Iterator[list[int]]:
    """Every statement fails once so many times forty of SQLite's instructions have been executed."""
    count = [0]

    def tick() -> int:
        count[0] += 1
        return int(count[0] > after)

    connection.set_progress_handler(tick, 40)
    yield count
    connection.set_progress_handler(None, 0)


@pytest.mark.full
def test_a_statement_that_fails_anywhere_in_a_commit_leaves_a_way_forward(ready: Prepared, tmp_path: Path) -> None:
    after, decided, failed = 0, 0, True
    while failed:
        workspace = ready.copy(tmp_path / str(after))
        with opened(workspace) as store, interrupted(store.crystals.connection, after):
            try:
                store.memory.commit(ready.dream)
                failed = False
            except sqlite3.OperationalError as error:
                assert "interrupted" in str(error)  # noqa: PT017 - the last run raises nothing
        decided += assert_recovers_and_goes_on(workspace, ready)
        shutil.rmtree(workspace.root)
        after += 1
    assert after > 10
    assert 0 < decided < after


@pytest.mark.full
def test_a_database_that_is_full_at_any_page_loses_no_note(ready: Prepared, tmp_path: Path) -> None:
    notes = [f"Note {number}: {chr(97 + number) * 900}" for number in range(8)]  # state.db has to grow for them
    every = dict.fromkeys((*OLD_NOTES, *NEW_NOTES, *notes), 1)
    full, spare = True, 0
    while full:
        workspace = ready.copy(tmp_path / str(spare))
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


# ---------------------------------------------------------------------------------------------- restore


@pytest.fixture(scope="module")
def restorable(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Two versions; what a restore of the first one commits is for each test to find out."""
    source = prepared(tmp_path_factory.mktemp("restore") / "agent")
    with opened(contained(source.root)) as store:
        store.memory.commit(source.dream)
        store.ledger.end(source.dream.id, "committed", "", source.dream.at, 3)
    return source


def assert_restored_or_not(store: Store) -> bool:
    """Version 3 with every note consumed, or version 1 again with that dream's notes pending."""
    text = store.disk.read_bytes(store.workspace.document).decode()
    last = store.lineage.last_version()
    assert last in (3, 4)
    assert text == store.memory.text(1 if last == 4 else 3)
    assert text == store.memory.text(last)
    assert places(store) == dict.fromkeys((*OLD_NOTES, *NEW_NOTES), 1)
    pending = {note.text for note in tuple(store.notes.each_pending())}
    assert pending == (set(NEW_NOTES) if last == 4 else set())
    return last == 4


@pytest.mark.full
def test_a_restore_that_is_cut_off_anywhere_happens_whole_or_not_at_all(restorable: Prepared, tmp_path: Path) -> None:
    ends = {True: 0, False: 0}

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        workspace = restorable.copy(tmp_path / f"{fault.name}{fail_at}")
        system = FaultySystem(workspace.root, fail_at, fault)
        with suppress(StorageError, PowerCut), opened(workspace, system) as store:
            restore(store, 1)
        with opened(workspace) as store:
            restored = assert_restored_or_not(store)
            ends[restored] += 1
            dreamt(store, FURTHER)
            assert tuple(store.notes.each_pending()) == ()
            assert places(store) == dict.fromkeys((*OLD_NOTES, *NEW_NOTES, FURTHER), 1)
            assert all(run.outcome != "running" for run in store.ledger.runs(10))
        shutil.rmtree(workspace.root)
        return system

    every_fault((Fault.ERROR, Fault.CRASH, Fault.TORN_CRASH), scenario)
    assert ends[True] > share(5)  # all that is done in files is done after the commit
