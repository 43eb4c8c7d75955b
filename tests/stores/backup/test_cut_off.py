"""An import that ends in the middle, at any call: nothing, or a whole workspace."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from daemon.upkeep.import_ import import_archive
from state.errors import StorageError
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, share
from tests.support.lived import everything
from tests.support.long_variants import variants


class Moving(FaultySystem):
    """One that may rename a folder: what is in it moves along."""

    def _rename(self, source: Path, target: Path, call: Any, name: str) -> None:
        if not source.is_dir():
            super()._rename(source, target, call, name)
            return
        self._meet(f"{name} {target.name}", lambda: call(source, target))
        call(source, target)


@pytest.mark.parametrize("faults", variants((Fault.TORN_CRASH,), (Fault.ERROR, Fault.TORN_CRASH)))
def test_an_import_that_is_cut_off_anywhere_leaves_nothing_or_a_whole_workspace(
    archive: Path, tmp_path: Path, faults: tuple[Fault, ...]
) -> None:
    numbers = itertools.count()
    import_archive(archive, tmp_path / "honest")
    whole = everything(tmp_path / "honest")
    places = {False: 0, True: 0}

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        folder = tmp_path / f"run {next(numbers)}"
        folder.mkdir()
        system = Moving(folder, fail_at=fail_at, fault=fault)
        try:
            import_archive(archive, folder / "there", system)
        except (PowerCut, StorageError):
            assert system.met
        there = (folder / "there").exists()
        places[there] += 1
        assert list(folder.iterdir()) == ([folder / "there"] if there else [])
        if there:
            assert everything(folder / "there") == whole
        shutil.rmtree(folder)
        return system

    runs = every_fault(faults, scenario)
    assert runs > share(20)
    assert all(places.values())


def test_everything_is_synced_before_it_is_there(archive: Path, tmp_path: Path) -> None:
    folder = tmp_path / "alone"
    folder.mkdir()
    system = Moving(folder)
    import_archive(archive, folder / "there", system)
    rename = system.calls.index("rename there")
    assert "fsync" not in system.calls[rename + 2 :]
    assert system.calls[rename + 1] == "fsync"
    files = [call for call in system.calls[:rename] if call.startswith("create ")]
    folders = [call for call in system.calls[:rename] if call.startswith("mkdir ")]
    # Each file, state.db once more after it was made anew, and each folder.
    assert system.calls[:rename].count("fsync") == len(files) + 1 + len(folders)
