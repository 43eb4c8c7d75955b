"""A workspace whose state lies in it, and its open stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.workspace.stores import Store
from state.stores.disk.workspace import Workspace, contained, init_workspace
from tests.support.committing import opened


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return init_workspace(contained(tmp_path / "agent"))


@pytest.fixture
def store(workspace: Workspace) -> Iterator[Store]:
    with opened(workspace) as store:
        yield store
