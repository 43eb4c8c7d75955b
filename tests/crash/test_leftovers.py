"""What killed writers leave behind is cleared away by later dreams, wherever it is."""

import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from daemon.workspace.stores import utc_now
from tests.support.committing import Prepared, opened, prepared
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
