"""An owner's change of lines that is cut off anywhere is done or not; MEMORY.md is never lost, a dream goes on."""

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.dream.lines.change import LineWish, change
from daemon.dream.lines.standing import standing_lines
from daemon.workspace.stores import Store, utc_now
from graphs.review import LineAction
from state.document.document import SectionName
from state.stores.disk.workspace import Workspace, contained, init_workspace
from tests.support.committing import FURTHER, OLD_NOTES, dreamt, lines, opened
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, images, share
from tests.support.forked import Forked
from tests.support.long_variants import IS_LONG

PORT, TEA, LEDGER = OLD_NOTES
MINE = "Ada prefers cocoa in the morning"
NEW = "Ada answers in one line"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a disk keeps is simulated: the real one need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = init_workspace(contained(tmp_path_factory.mktemp("lines") / "agent"))
    with opened(workspace) as store:
        dreamt(store, *OLD_NOTES)
    return workspace


def changed(store: Store) -> None:
    known = {line.text: line.id for section in standing_lines(store, utc_now()).sections for line in section.lines}
    wishes = [
        LineWish(LineAction.WRONG, known[TEA], expected=TEA, text=MINE),
        LineWish(LineAction.DELETE, known[PORT], expected=PORT),
        LineWish(LineAction.PIN, known[LEDGER], expected=LEDGER),
        LineWish(LineAction.ADD, section=SectionName.PHENOTYPE, text=NEW),
    ]
    change(store, wishes)


def assert_old_or_new(workspace: Workspace, *, thorough: bool = True) -> bool:
    """Whether it is done; the file, the ledger and the crystals say the same, and the next dream agrees."""
    text = workspace.document.read_text(encoding="utf-8")
    assert set(lines(workspace)) in ({PORT, TEA, LEDGER}, {NEW, MINE, LEDGER})
    with opened(workspace) as store:
        done = store.lineage.last_version() == 2
        assert done or workspace.document.read_text(encoding="utf-8") == text
        standing = {line.text for line in store.lineage.current_lines()}
        assert standing == set(lines(workspace)) == ({NEW, MINE, LEDGER} if done else {PORT, TEA, LEDGER})
        assert set(store.lineage.tombstones()) == ({PORT, TEA} if done else set())
        assert (f"{LEDGER} 📌" in workspace.document.read_text(encoding="utf-8")) is done
        owners = store.crystals.connection.execute("SELECT 1 FROM supersessions WHERE cause = 'owner'").fetchall()
        assert bool(owners) is done
        assert list(workspace.root.glob(".*.displaced")) == []
        if thorough:
            dreamt(store, FURTHER)
            assert set(lines(workspace)) == standing | {FURTHER}
            assert store.ledger.unfinished() is None
            assert {run.outcome for run in store.ledger.runs(9)} <= {"committed", "failed"}
    return done


@pytest.mark.full
def test_a_loss_of_power_leaves_the_old_lines_or_the_new_ones(ready: Workspace, tmp_path: Path) -> None:
    ends = {True: 0, False: 0}

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        workspace = copied(ready, tmp_path / f"{fault.name}{fail_at}")
        system = FaultySystem(workspace.root, fail_at, fault)
        with suppress(PowerCut), opened(workspace, system) as store:
            changed(store)
        for image in images(system, tmp_path / "images"):
            # SQLite synced what it committed; the rest of the folder is what the disk kept.
            shutil.copyfile(workspace.database, image / ".dreamd" / "state.db")
            ends[assert_old_or_new(contained(image), thorough=sum(ends.values()) % 4 == 0)] += 1
        shutil.rmtree(tmp_path / "images")
        shutil.rmtree(workspace.root)
        return system

    every_fault((Fault.CRASH, Fault.TORN_CRASH), scenario)
    assert ends[True] > share(5)


@pytest.mark.full
def test_a_kill_before_any_statement_of_state_db_leaves_the_old_lines_or_the_new_ones(
    ready: Workspace, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    assert killed_at(copied(ready, tmp_path / "whole"), -1, count) == 0
    statements = int(count.read_text())
    kills = statements if IS_LONG else statements // 2
    ends = {True: 0, False: 0}
    for at in range(kills):
        workspace = copied(ready, tmp_path / f"kill {at}")
        assert killed_at(workspace, (at + 1) * statements // kills - 1, count) == -signal.SIGKILL
        ends[assert_old_or_new(workspace)] += 1
    assert all(ends.values())


def killed_at(workspace: Workspace, statement: int, count: Path) -> int:
    """How a process ended that changes lines, and is killed before this statement."""
    before = (f"{__name__}:change_and_die", [str(workspace.root), statement, str(count)])
    with Forked[bytes](["status"], before=before, cwd=workspace.root) as process:
        return process.wait()


def change_and_die(root: str, statement: int, count: str) -> None:
    """In the process that is to die; it leaves in `count` how many statements there were, if it lives."""
    done = 0

    def one_more(_: str) -> None:
        nonlocal done
        if done == statement:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1

    with opened(contained(Path(root))) as store:
        store.crystals.connection.set_trace_callback(one_more)
        changed(store)
        store.crystals.connection.set_trace_callback(None)
    Path(count).write_text(str(done))
    os._exit(0)


def copied(ready: Workspace, target: Path) -> Workspace:
    shutil.copytree(ready.root, target)
    return contained(target.resolve())
