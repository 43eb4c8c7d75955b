"""What a run leaves behind that did not end as it should, and what the next one makes of it."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from daemon.dream.memory import WorkspaceMemory
from graphs.dream import Dreamer
from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.planted import LINES, NEWS, noted
from tests.support.running import Caller


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


def full(*_: Any) -> Any:
    raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize("then", ["goes on", "a version overtakes it", "a restore is cut off too"])
def test_a_run_that_state_db_had_no_room_for_is_run_again_or_given_up(
    workspace: Workspace, dreamd: Caller, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(WorkspaceMemory, "commit", full)
        ended = dreamd("dream", workspace.root)
    assert (ended.status, "disk is full" in ended.err) == (1, True)
    assert lived.outcomes(workspace)[-1] == "running"
    if then != "goes on":
        with monkeypatch.context() as patch:
            if then == "a restore is cut off too":  # after its commit, before its end in the ledger
                patch.setattr("daemon.dream.restore.Store.embed", full)
            assert dreamd("restore", 1, "-w", workspace.root).status == (then != "a version overtakes it")
    assert dreamd("dream", workspace.root).status == 0
    lived.assert_once(workspace, [*LINES, *NEWS])
    assert "running" not in lived.outcomes(workspace)
    assert threads(workspace) == 0
    noted(workspace, ["And on it goes"])
    assert dreamd("dream", workspace.root).status == 0
    lived.assert_valid(workspace)
