"""What killed writers leave behind is cleared away by later dreams, wherever it is."""

import shutil
import sqlite3
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.dream.checkpoints import checkpoints
from daemon.workspace.stores import utc_now
from tests.support.committing import Prepared, dreamt, opened, prepared
from tests.support.faults import Fault, FaultySystem, PowerCut


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepared(tmp_path_factory.mktemp("ready") / "agent")


def temporary(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*.dreamd-tmp")]


@pytest.mark.full
def test_the_temporary_files_of_a_commit_that_was_killed_anywhere_are_swept(ready: Prepared, tmp_path: Path) -> None:
    left = set[str]()
    for fail_at in range(200):
        workspace = ready.copy(tmp_path / "agent")
        system = FaultySystem(workspace.root, fail_at, Fault.CRASH)
        with suppress(PowerCut), opened(workspace, system) as store:
            store.memory.commit(ready.dream)
        left |= {name.split(".")[1] for name in temporary(workspace.root)}
        with opened(workspace) as store:
            store.sweep(utc_now() + timedelta(hours=2))
        assert temporary(workspace.root) == []
        shutil.rmtree(workspace.root)
        if not system.met:
            break
    assert left >= {"MEMORY", "scratch"}


def threads(root: Path) -> set[str]:
    with closing(sqlite3.connect(root / ".dreamd" / "checkpoints" / "dreams.db")) as connection:
        return {row[0] for row in connection.execute("SELECT thread_id FROM checkpoints")}


def test_checkpoints_that_a_dream_failed_to_drop_are_dropped_by_the_next_one(ready: Prepared, tmp_path: Path) -> None:
    """As a displaced dream leaves them that goes on, or one whose disk failed at the last moment."""
    workspace = ready.copy(tmp_path / "agent")
    with opened(workspace) as store:
        store.memory.recover()
        with checkpoints(store):
            pass
    with closing(sqlite3.connect(workspace.checkpoints / "dreams.db")) as connection, connection:
        connection.execute("INSERT INTO checkpoints (thread_id, checkpoint_id) VALUES ('displaced', '1')")
        connection.execute(
            "INSERT INTO writes (thread_id, checkpoint_id, task_id, idx, channel) VALUES ('other', '1', 't', 0, 'c')"
        )
    assert threads(workspace.root) == {"displaced"}
    with opened(workspace) as store:
        dreamt(store, "The dog is called Rex")
    assert threads(workspace.root) == set()
    with closing(sqlite3.connect(workspace.checkpoints / "dreams.db")) as connection:
        assert connection.execute("SELECT * FROM writes").fetchall() == []


def test_however_many_runs_were_killed_the_next_dream_leaves_none_that_is_said_to_run(
    ready: Prepared, tmp_path: Path
) -> None:
    """A dream was killed, and two restores after it, before anybody dreamt again."""
    workspace = ready.copy(tmp_path / "agent")
    with opened(workspace) as store:
        for number in range(2):
            store.ledger.begin(f"2999010{number}T000000000000Z", "restore of version 1", utc_now())
        assert len([run for run in store.ledger.runs(10) if run.outcome == "running"]) == 3
        dreamt(store, "The cat is called Miez")
        assert [run for run in store.ledger.runs(10) if run.outcome == "running"] == []
