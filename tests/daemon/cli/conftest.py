"""A workspace for commands, and transcripts of them."""

from pathlib import Path

import pytest

from daemon.workspace.adoption import init_workspace
from tests.support.running import Caller
from tests.support.transcript import Transcript


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return init_workspace(tmp_path / "here").root


@pytest.fixture
def told(dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch) -> Transcript:
    """Has a transcript run in the workspace."""
    return Transcript(dreamd, here, monkeypatch)
