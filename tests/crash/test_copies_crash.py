"""Copying state.db, cut off anywhere: every copy is sound, and the next call makes one."""

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from state.errors import StorageError
from state.stores.database.copies import KEPT, copies_of, make_copy
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace
from state.stores.repair.check import damage_of
from tests.support.breaking import copied, lived
from tests.support.faults import Fault, FaultySystem, PowerCut, Unsynced, every_fault, images
from tests.support.folders import PLACE
from tests.support.long_variants import fewer

_COPY_FOR_EVER = """
import sys
from pathlib import Path
from state.stores.database.copies import make_copy
from state.stores.disk.disk import Disk
database = Path(sys.argv[1])
print("ready", flush=True)
while True:
    make_copy(database, Disk(database.parent))
"""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return lived(tmp_path_factory.mktemp("origin") / "here")


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(dir=PLACE))
    yield made
    shutil.rmtree(made)


def assert_sound_copies(database: Path) -> None:
    copies = copies_of(database)
    assert len(copies) in range(KEPT, KEPT + 2)
    for copy in copies:
        assert damage_of(copy, expected=True) == [], copy


def test_a_copy_that_is_cut_off_at_any_call_leaves_sound_copies_and_the_next_is_made(
    origin: Workspace, folder: Path
) -> None:
    def scenario(number: int, fault: Fault) -> FaultySystem:
        workspace = copied(origin, folder / f"{fault.name} {number}")
        system = FaultySystem(workspace.state, number, fault)
        try:
            make_copy(workspace.database, Disk(workspace.state, system))
        except (PowerCut, StorageError):
            assert system.met
        assert_sound_copies(workspace.database)
        for image in images(system, folder / f"images {fault.name} {number}"):
            assert_sound_copies(image / "state.db")
        make_copy(workspace.database, Disk(workspace.state, Unsynced()))
        assert_sound_copies(workspace.database)
        assert len(copies_of(workspace.database)) == KEPT
        shutil.rmtree(folder / f"images {fault.name} {number}")
        shutil.rmtree(workspace.root)
        return system

    assert every_fault((Fault.CRASH, Fault.TORN_CRASH, Fault.ERROR), scenario) > 12


def test_a_copy_that_is_killed_at_any_time_leaves_sound_copies(origin: Workspace, folder: Path) -> None:
    workspace, chance = copied(origin, folder / "here"), random.Random(1)
    for _ in range(fewer(3, 40)):
        with subprocess.Popen(
            [sys.executable, "-c", _COPY_FOR_EVER, str(workspace.database)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0, 0.1))
            process.kill()
        assert_sound_copies(workspace.database)
    make_copy(workspace.database, Disk(workspace.state))
    assert len(copies_of(workspace.database)) == KEPT
