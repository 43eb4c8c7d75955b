"""The writing of blocks is cut off anywhere: nothing of a person's is lost, and the next time it is done."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.dream.memory import WorkspaceMemory
from daemon.workspace.block_wishes import block_statuses
from daemon.workspace.blocks import unwish, wish, write_blocks
from daemon.workspace.stores import Store
from state.document.fence import fenced
from state.errors import DreamdError
from state.stores.disk.workspace import Workspace
from tests.support.committing import NEW_NOTES, OLD_NOTES, Prepared, lines, opened, prepared
from tests.support.faults import Fault, FaultySystem, PowerCut, every_fault, share

PORT, TEA, LEDGER = OLD_NOTES
COCOA, TYPED = TEA.replace("tea", "cocoa"), "Call the dentist on Friday"
RULES = b"# Rules\r\n\r\nuse make"
FAULTS = (Fault.ERROR, Fault.ERROR_ONWARDS, Fault.CRASH, Fault.TORN_CRASH)
FEW = (Fault.ERROR, Fault.TORN_CRASH)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a disk keeps is simulated: the real one need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared(tmp_path_factory.mktemp("blocks") / "agent")


@pytest.fixture
def workspace(ready: Prepared, tmp_path: Path) -> Workspace:
    return ready.copy(tmp_path / "agent")


def edited(store: Store, file: Path) -> None:
    """A block that dreamd has just written, and then a person edits: one line corrected, one removed, one typed."""
    file.write_bytes(RULES)
    wish(store, file, "claude-code")
    text = file.read_bytes()
    for old, new in ((TEA, COCOA), (f"- {LEDGER}\r\n", ""), (f"- {PORT}\r\n", f"- {PORT}\r\n- {TYPED}\r\n")):
        assert text.count(old.encode()) == 1
        text = text.replace(old.encode(), new.encode())
    file.write_bytes(text)


def assert_taken_in(workspace: Workspace, file: Path) -> None:
    """Each edit stands in MEMORY.md and in the block, once; the rows around it are what they were."""
    found = fenced(file.read_bytes())
    assert found is not None
    assert found.outside == RULES + b"\r\n\r\n" + b"\r\n"
    for standing in (lines(workspace), found.inside.split("\n")):
        said = [one.removeprefix("- ") for one in standing]
        assert [said.count(one) for one in (COCOA, TYPED, PORT, TEA, LEDGER)] == [1, 1, 1, 0, 0]
    assert [one.problem for one in block_statuses(workspace)] == [""]
    assert list(workspace.root.glob(".*.displaced")) == []


def assert_nothing_lost(workspace: Workspace, file: Path) -> None:
    """What an agent reads right after the crash: the person's rows, and what was typed, here or there."""
    content = file.read_bytes()
    assert content.startswith(RULES)
    assert fenced(content) is not None
    for typed in (COCOA, TYPED):
        assert typed.encode() in content + workspace.document.read_bytes()


@pytest.mark.full
def test_it_is_done_the_next_time(workspace: Workspace) -> None:
    file, original = workspace.root / "CLAUDE.md", workspace.document.read_bytes()

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        workspace.document.write_bytes(original)
        for left in workspace.root.glob(".*.displaced"):
            left.unlink()
        with opened(workspace) as store:
            edited(store, file)
        system = FaultySystem(workspace.root, fail_at, fault)
        with opened(workspace, system) as store, suppress(DreamdError, PowerCut):
            write_blocks(store)
        assert_nothing_lost(workspace, file)
        with opened(workspace) as store:
            write_blocks(store)
            write_blocks(store)
        assert_taken_in(workspace, file)
        return system

    assert every_fault(FAULTS, scenario) > share(60)


@pytest.mark.full
def test_a_save_while_it_is_cut_off_is_kept(workspace: Workspace) -> None:
    file, original = workspace.root / "CLAUDE.md", workspace.document.read_bytes()

    class Interrupted(FaultySystem):
        """A save in the instant before the file is swapped."""

        def exchange(self, one: Path, other: Path, /) -> None:
            if other == file and TYPED.encode() not in file.read_bytes():
                file.write_bytes(
                    file.read_bytes().replace(b"use make", b"use just").replace(PORT.encode(), TYPED.encode())
                )
            super().exchange(one, other)

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        workspace.document.write_bytes(original)
        file.write_bytes(RULES)
        with opened(workspace) as store:
            wish(store, file, "claude-code")
            workspace.document.write_bytes(original.replace(TEA.encode(), COCOA.encode()))
        system = Interrupted(workspace.root, fail_at, fault)
        with opened(workspace, system) as store, suppress(DreamdError, PowerCut):
            write_blocks(store)
        was_saved = any(call == f"exchange {file.name}" for call in system.calls)
        with opened(workspace) as store:
            write_blocks(store)
            write_blocks(store)
        found = fenced(file.read_bytes())
        assert found is not None
        assert (b"use just" in found.before, TYPED in lines(workspace)) == (was_saved, was_saved)
        assert COCOA in lines(workspace)
        assert f"- {COCOA}\n" in found.inside
        assert list(workspace.root.glob(".*.displaced")) == []
        return system

    assert every_fault(FEW, scenario) > share(30)


@pytest.mark.full
def test_a_version_without_its_block_is_written_by_the_next_who_opens(ready: Prepared, workspace: Workspace) -> None:
    file = workspace.root / "CLAUDE.md"
    with opened(workspace) as store:
        wish(store, file, "claude-code")
        store.memory.commit(ready.dream)  # and the process is killed
    assert NEW_NOTES[1].encode() not in file.read_bytes()
    with opened(workspace):
        pass
    assert NEW_NOTES[1].encode() in file.read_bytes()


def test_a_commit_stands_whatever_becomes_of_its_block(ready: Prepared, workspace: Workspace) -> None:
    file = workspace.root / "notes" / "CLAUDE.md"
    file.parent.mkdir()
    with opened(workspace) as store:
        wish(store, file, "claude-code")
        file.unlink()
        file.mkdir()
        WorkspaceMemory(store).commit(ready.dream)
        assert store.memory.is_committed(ready.dream.id)
        assert any("a block was not written" in notice for notice in store.notices)
    assert [bool(one.problem) for one in block_statuses(workspace)] == [True]


@pytest.mark.full
def test_a_wish_and_its_end_may_be_cut_off_too(workspace: Workspace) -> None:
    file = workspace.root / "CLAUDE.md"

    def wishing(fail_at: int, fault: Fault) -> FaultySystem:
        file.write_bytes(RULES)
        system = FaultySystem(workspace.root, fail_at, fault)
        with opened(workspace, system) as store, suppress(DreamdError, PowerCut):
            wish(store, file, "claude-code")
        assert file.read_bytes().startswith(RULES)
        with opened(workspace) as store:
            wish(store, file, "claude-code")
            assert unwish(store, file) == ""
        assert file.read_bytes() == RULES
        return system

    def ending(fail_at: int, fault: Fault) -> FaultySystem:
        file.write_bytes(RULES)
        with opened(workspace) as store:
            wish(store, file, "claude-code")
        system = FaultySystem(workspace.root, fail_at, fault)
        with opened(workspace, system) as store, suppress(DreamdError, PowerCut):
            unwish(store, file)
        assert file.read_bytes().startswith(RULES)
        with opened(workspace) as store, suppress(DreamdError):
            unwish(store, file)
        assert file.read_bytes() == RULES
        assert block_statuses(workspace) == ()
        return system

    assert every_fault(FEW, wishing) > share(20)
    assert every_fault(FEW, ending) > share(20)
