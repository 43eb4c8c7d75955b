"""A workspace that has lived, built once a module, and a copy of it to break."""

from pathlib import Path

import pytest

from state.stores.disk.workspace import Workspace
from tests.support.breaking import copied, lived


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return lived(tmp_path_factory.mktemp("origin") / "here")


@pytest.fixture
def here(origin: Workspace, tmp_path: Path) -> Workspace:
    return copied(origin, tmp_path / "here")
