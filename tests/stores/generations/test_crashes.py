"""Whatever cuts a put off, the next one is right; what was acknowledged outlasts the power."""

import shutil
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest

from state.errors import DreamdError, StorageError
from state.stores.disk.workspace import contained
from state.stores.generations.generations import Generations
from state.stores.generations.objects import FolderObjects
from tests.support.committing import Prepared, assert_recovers_and_goes_on, opened, prepared
from tests.support.faults import Bytes, Fault, FaultySystem, Names, PowerCut, Unsynced, every_fault, share
from tests.support.generation_folders import PREFIX, contents, files, grow, make_folder, put, write_rows
from tests.support.running import ROOT

_FAULTS = (Fault.ERROR, Fault.ERROR_ONWARDS, Fault.CRASH, Fault.TORN_CRASH)


@pytest.mark.full
def test_a_put_that_is_cut_off_anywhere_leaves_what_was_committed_and_the_next_is_whole(tmp_path: Path) -> None:
    here = make_folder(tmp_path / "here")
    first_store = FolderObjects(tmp_path / "first", Unsynced())
    first = put(Generations(first_store, PREFIX), here, 1)
    old = contents(here)
    write_rows(here, ["one more"])

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        store = shutil.copytree(tmp_path / "first", tmp_path / f"{fault.name}{fail_at}")
        system = FaultySystem(store, fail_at, fault)
        key = None
        with suppress(DreamdError, PowerCut):
            key = put(Generations(FolderObjects(store, system), PREFIX), here, 2)
        image = system.image(tmp_path / "image", Names.SYNCED, Bytes.SYNCED)  # the power goes now
        generations = Generations(FolderObjects(image, Unsynced()), PREFIX)
        if key is not None:  # it was acknowledged
            generations.bring_up(tmp_path / "there", key)
            assert contents(tmp_path / "there") == contents(here)
        generations.bring_up(tmp_path / "there", first)
        assert contents(tmp_path / "there") == old
        second = put(generations, here, 2, whole=True)
        generations.sweep(forgotten=True)
        assert len(files(image)) == 1
        generations.bring_up(tmp_path / "there", second)
        assert contents(tmp_path / "there") == contents(here)
        for folder in (store, image, tmp_path / "there"):
            shutil.rmtree(folder)
        return system

    assert every_fault(_FAULTS, scenario) > share(25)


_CHILD = """
    import sys
    from pathlib import Path
    from state.stores.generations.objects import FolderObjects
    from state.stores.generations.generations import Generations
    from tests.support.generation_folders import PREFIX, put, write_rows
    store, here, there, key = sys.argv[1:]
    generations = Generations(FolderObjects(Path(store)), PREFIX)
    number = generations.version(key).number
    print("begun", flush=True)
    while True:
        write_rows(Path(here), ["one more"])
        number += 1
        key = put(generations, Path(here), number)
        print(key, flush=True)
        Generations(FolderObjects(Path(store)), PREFIX).bring_up(Path(there), key)
"""


@pytest.mark.full
def test_a_process_that_is_killed_loses_nothing_that_it_was_told_is_written(tmp_path: Path) -> None:
    here, store = make_folder(tmp_path / "here"), FolderObjects(tmp_path / "store")
    grow(here, 1)
    key = put(Generations(store, PREFIX), here, 1)
    for turn in range(20):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_CHILD), tmp_path / "store", here, tmp_path / "there", key],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        with child as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            time.sleep(0.02 + 0.013 * turn)
            process.send_signal(signal.SIGKILL)
            said = [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        key = said[-1].strip() if said else key
        generations = Generations(store, PREFIX)
        generations.bring_up(tmp_path / "there", key)
        assert contents(tmp_path / "there").keys() == set(generations.version(key).files)
        fresh = tmp_path / f"fresh{turn}"
        generations.bring_up(fresh, key)
        assert contents(tmp_path / "there") == contents(fresh)
    assert generations.version(key).number > 5


@pytest.mark.full
def test_a_commit_that_was_cut_off_is_finished_by_whoever_brings_it_up(tmp_path: Path) -> None:
    ready: Prepared = prepared(tmp_path / "agent")
    store = FolderObjects(tmp_path / "store", Unsynced())

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        workspace = ready.copy(tmp_path / f"{fault.name}{fail_at}")
        system = FaultySystem(workspace.root, fail_at, fault)
        with suppress(PowerCut, StorageError), opened(workspace, system) as held:
            held.memory.commit(ready.dream)
        prefix = f"1/{fail_at}{fault.value}"
        key = put(Generations(store, prefix), workspace.root, 1)
        Generations(store, prefix).bring_up(tmp_path / "there", key)
        # One transaction is the commit; what is done to files is done after it.
        assert assert_recovers_and_goes_on(contained(tmp_path / "there"), ready)
        shutil.rmtree(workspace.root)
        shutil.rmtree(tmp_path / "there")
        return system

    assert every_fault((Fault.CRASH,), scenario) > share(15)
