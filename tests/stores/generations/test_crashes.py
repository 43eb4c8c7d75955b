"""Whatever cuts a put off, the next one is right; what was acknowledged outlasts the power."""

import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from state.errors import DreamdError
from state.stores.generations.generations import Generations
from state.stores.generations.objects import FolderObjects
from tests.support.faults import Bytes, Fault, FaultySystem, Names, PowerCut, Unsynced, every_fault, share
from tests.support.generation_folders import PREFIX, bring_up, contents, files, make_folder, put, write_rows

_FAULTS = (Fault.ERROR, Fault.ERROR_ONWARDS, Fault.CRASH, Fault.TORN_CRASH)


@pytest.mark.full
def test_a_put_that_is_cut_off_anywhere_leaves_what_was_committed_and_the_next_is_whole(tmp_path: Path) -> None:
    here = make_folder(tmp_path / "here")
    put(Generations(FolderObjects(tmp_path / "first", Unsynced()), PREFIX), here, 1)
    old = contents(here)
    write_rows(here, ["one more"])

    def scenario(system: FaultySystem) -> None:
        is_acknowledged = False
        with suppress(DreamdError, PowerCut):
            is_acknowledged = put(Generations(FolderObjects(system.root, system), PREFIX), here, 2) == 2
        image = system.image(tmp_path / "image", Names.SYNCED, Bytes.SYNCED)  # the power goes now
        objects = FolderObjects(image, Unsynced())
        generations = Generations(objects, PREFIX)
        numbers = generations.numbers()
        assert set(numbers) == {1, 2} if is_acknowledged else set(numbers) in ({1}, {1, 2})
        for number in numbers:
            bring_up(objects, tmp_path / "there", number)
            assert contents(tmp_path / "there") == (old if number == 1 else contents(here))
        last = put(generations, here, len(numbers) + 1, whole=True)
        generations.sweep(forgotten=True)
        assert len(files(image)) == 1
        bring_up(objects, tmp_path / "there", last)
        assert contents(tmp_path / "there") == contents(here)
        for folder in (image, tmp_path / "there"):
            shutil.rmtree(folder)

    assert every_fault(_FAULTS, partial(shutil.copytree, tmp_path / "first"), scenario) > share(25)
