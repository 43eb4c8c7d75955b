"""Copying state.db, cut off anywhere: every copy is sound, and the next call makes one."""

import shutil
from pathlib import Path

import pytest

from state.errors import StorageError
from state.stores.database.copies import KEPT, copies_of, make_copy
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.repair.check import damage_of
from tests.support.committing import OLD_NOTES, dreamt, opened
from tests.support.faults import Fault, FaultySystem, PowerCut, Unsynced, every_fault, images


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = init_workspace(contained(tmp_path_factory.mktemp("origin") / "here"))
    with opened(workspace) as store:
        dreamt(store, *OLD_NOTES)
        while len(copies_of(workspace.database)) < KEPT:
            make_copy(workspace.database, workspace.disk(Unsynced()))
    return workspace


def assert_sound_copies(database: Path) -> None:
    copies = copies_of(database)
    assert len(copies) in range(KEPT, KEPT + 2)
    for copy in copies:
        assert damage_of(copy, expected=True) == [], copy


def test_a_copy_that_is_cut_off_at_any_call_leaves_sound_copies_and_the_next_is_made(
    origin: Workspace,
) -> None:
    def scenario(system: FaultySystem) -> None:
        database = system.root / "state.db"
        try:
            make_copy(database, Disk(system.root, system))
        except (PowerCut, StorageError):
            assert system.met
        assert_sound_copies(database)
        for image in images(system):
            assert_sound_copies(image / "state.db")
        make_copy(database, Disk(system.root, Unsynced()))
        assert_sound_copies(database)
        assert len(copies_of(database)) == KEPT

    faults = (Fault.CRASH, Fault.TORN_CRASH, Fault.ERROR)
    assert every_fault(faults, lambda folder: Path(shutil.copytree(origin.state, folder)), scenario) > 12
