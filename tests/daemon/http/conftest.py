"""One server for the tests that change nothing of its settings."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import Running, running


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server over a house without workspaces."""
    with running(OwnHouse()) as server:
        yield server


@pytest.fixture
def name(served: Running, tmp_path: Path) -> str:
    """A new workspace of that house."""
    return served.house.make(tmp_path / "memory")
