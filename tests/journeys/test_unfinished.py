"""What a run leaves behind that did not end as it should, and what the next one makes of it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from daemon.dream.memory import WorkspaceMemory
from graphs.dream import Dreamer
from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.planted import LINES, NEWS, copied, noted, planted
from tests.support.running import Caller


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return planted(tmp_path_factory.mktemp("planted") / "agent")


@pytest.fixture
def workspace(origin: Workspace, tmp_path: Path) -> Workspace:
    return copied(origin, tmp_path / "agent")


def threads(workspace: Workspace) -> int:
    """Dreams that have checkpoints."""
    if not (workspace.checkpoints / "dreams.db").exists():
        return 0
    with closing(sqlite3.connect(workspace.checkpoints / "dreams.db")) as connection:
        return int(connection.execute("SELECT count(DISTINCT thread_id) FROM checkpoints").fetchone()[0])


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5_000])
def test_checkpoints_that_are_damaged_are_begun_anew(workspace: Workspace, dreamd: Caller, content: bytes) -> None:
    (workspace.checkpoints / "dreams.db").write_bytes(content)
    ended = dreamd("dream", workspace.root)
    assert ended.status == 0, ended.err
    assert "dreams.db was damaged" in ended.err
    lived.assert_once(workspace, [*LINES, *NEWS])
    assert threads(workspace) == 0


def test_a_defect_in_a_node_fails_the_run_and_the_next_dream_begins_anew(
    workspace: Workspace, dreamd: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defective(*_: Any) -> Any:
        raise KeyError("what nobody thought of")

    with monkeypatch.context() as patch:
        patch.setattr(Dreamer, "commit", defective)
        ended = dreamd("dream", workspace.root)
    assert ended.status == 1
    assert "a defect" in ended.err
    assert lived.outcomes(workspace)[-1] == "failed"
    assert threads(workspace) == 0
    assert sorted(lived.pending(workspace)) == sorted(NEWS)
    assert dreamd("dream", workspace.root).status == 0
    lived.assert_once(workspace, [*LINES, *NEWS])


def test_a_run_that_state_db_had_no_room_for_is_run_again(
    workspace: Workspace, dreamd: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(WorkspaceMemory, "commit", full)
        ended = dreamd("dream", workspace.root)
    assert ended.status == 1
    assert "disk is full" in ended.err
    assert lived.outcomes(workspace)[-1] == "running"
    assert dreamd("dream", workspace.root).status == 0
    lived.assert_once(workspace, [*LINES, *NEWS])
    assert threads(workspace) == 0


def test_a_run_that_a_newer_version_overtook_is_given_up(
    workspace: Workspace, dreamd: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(WorkspaceMemory, "commit", full)
        assert dreamd("dream", workspace.root).status == 1
    assert dreamd("restore", 1, "-w", workspace.root).status == 0
    assert dreamd("dream", workspace.root).status == 0
    assert "running" not in lived.outcomes(workspace)
    assert threads(workspace) == 0
    lived.assert_once(workspace, [*LINES, *NEWS])
    noted(workspace, ["And on it goes"])
    assert dreamd("dream", workspace.root).status == 0
    lived.assert_valid(workspace)


def test_of_several_runs_that_were_killed_none_is_said_to_run(
    workspace: Workspace, dreamd: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(WorkspaceMemory, "commit", full)
        assert dreamd("dream", workspace.root).status == 1
    assert lived.outcomes(workspace)[-1] == "running"
    with monkeypatch.context() as patch:
        patch.setattr("daemon.dream.restore.Store.embed", full)  # after its commit, before its end in the ledger
        assert dreamd("restore", 1, "-w", workspace.root).status == 1
    assert lived.outcomes(workspace)[-2:] == ["running", "running"]
    assert dreamd("dream", workspace.root).status == 0
    assert "running" not in lived.outcomes(workspace)
    lived.assert_once(workspace, [*LINES, *NEWS])
