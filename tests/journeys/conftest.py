"""What journeys begin with: workspaces that have lived, models that follow a script."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from state.stores.disk.workspace import Workspace
from tests.support import keeping, planted
from tests.support.scripted_model import Script, ScriptedModel


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return planted.planted(tmp_path_factory.mktemp("planted") / "agent")


@pytest.fixture
def workspace(origin: Workspace, tmp_path: Path) -> Workspace:
    """A hundred planted facts, and news that wait."""
    return planted.copied(origin, tmp_path / "agent")


@pytest.fixture(scope="session")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keeping.remembering(tmp_path_factory.mktemp("remembered") / "here")


@pytest.fixture
def here(remembered: Path, tmp_path: Path) -> Path:
    """A small memory, and one note that waits."""
    return keeping.copied(remembered, tmp_path / "here")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], ScriptedModel]]:
    """Dreams ask a model that follows this script."""
    with ExitStack() as servers:

        def start(script: Script) -> ScriptedModel:
            server = servers.enter_context(ScriptedModel(script))
            for name, value in server.variables.items():
                monkeypatch.setenv(name, value)
            return server

        yield start
