"""A commit that is cut off anywhere leaves the old version or the new one, each note once, and a way forward."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from state.document.document import stamp
from state.dream import Dream
from state.errors import StorageError
from state.stores.disk.workspace import contained
from tests.support.committing import (
    Prepared,
    assert_recovers,
    assert_recovers_and_goes_on,
    opened,
    prepared,
)
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, images, share
from tests.support.long_variants import variants


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a disk keeps is simulated: the real one need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared(tmp_path_factory.mktemp("commit") / "agent")


@pytest.mark.full
def test_a_call_that_fails_during_a_commit_leaves_the_old_version_or_the_new_one(
    ready: Prepared, tmp_path: Path
) -> None:
    ends = {True: 0, False: 0}

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        workspace = ready.copy(tmp_path / f"{fault.name}{fail_at}")
        system = FaultySystem(workspace.root, fail_at, fault)
        with opened(workspace, system) as store, suppress(StorageError):
            store.memory.commit(ready.dream)
            assert not system.met or fault is Fault.ERROR
        ends[assert_recovers_and_goes_on(workspace, ready)] += 1
        shutil.rmtree(workspace.root)
        return system

    assert every_fault((Fault.ERROR, Fault.ERROR_ONWARDS), scenario) > share(30)
    assert ends[True] > share(20)  # nearly all that is done in files is done after the commit


@pytest.mark.full
def test_a_loss_of_power_during_a_commit_leaves_the_old_version_or_the_new_one(
    ready: Prepared, tmp_path: Path
) -> None:
    worlds = 0

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        nonlocal worlds
        workspace = ready.copy(tmp_path / f"{fault.name}{fail_at}")
        system = FaultySystem(workspace.root, fail_at, fault)
        with suppress(PowerCut), opened(workspace, system) as store:
            store.memory.commit(ready.dream)
        for image in images(system, tmp_path / "images"):
            # SQLite synced what it committed; the rest of the folder is what the disk kept.
            shutil.copyfile(workspace.database, image / ".dreamd" / "state.db")
            (assert_recovers if worlds % 6 else assert_recovers_and_goes_on)(contained(image), ready)
            worlds += 1
        shutil.rmtree(tmp_path / "images")
        shutil.rmtree(workspace.root)
        return system

    every_fault((Fault.CRASH, Fault.TORN_CRASH), scenario)
    assert worlds > share(200)


POLL = """
import sys
from pathlib import Path
path, seen = Path(sys.argv[1]), set()
print("ready", flush=True)
while not Path(sys.argv[2]).exists():
    text = path.read_text(encoding="utf-8")
    rows = text.split("\\n")
    whole = rows[0] == "# Working Memory State" and text.count("\\n## ") == 7 and rows[-2] == "_whole_"
    if not whole:
        sys.exit(f"partial: {len(text)} characters")
    seen.add(rows[2])
print(len(seen))
"""


@pytest.mark.full
@pytest.mark.parametrize("versions", variants(150, 1000))
def test_a_reader_never_sees_a_part_of_a_version(ready: Prepared, tmp_path: Path, versions: int) -> None:
    workspace = ready.copy(tmp_path / "agent")
    end = tmp_path / "end"
    # So long that it is no single write of a page.
    long = "".join(f"- {number} {'filler ' * 20}\n" for number in range(800))
    with opened(workspace) as store:
        last = ready.dream
        document = last.after.replace("## Active Context\n", f"## Active Context\n\n{long}") + "_whole_\n"
        workspace.document.write_text(document, encoding="utf-8")
        reader = subprocess.Popen(
            [sys.executable, "-c", POLL, str(workspace.document), str(end)], stdout=subprocess.PIPE, text=True
        )
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        for number in range(2, versions + 2):
            at = last.at + timedelta(hours=number)
            after = document.replace(stamp(last.at, last.mood), stamp(at, "calm"))
            after = after.replace("filler", "padding" * (1 + number % 3))
            next_number = store.lineage.last_version() + 1
            last = Dream(next_number, f"D{number}", at, "dream", "manual", document, after, "calm")
            store.memory.commit(last)
            document = after
        end.touch()
        seen = reader.communicate(timeout=300)[0]
    assert reader.returncode == 0, seen
    assert int(seen) > 10
