"""A workspace for commands."""

from pathlib import Path

import pytest

from daemon.workspace.adoption import init_workspace


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return init_workspace(tmp_path / "here").root
