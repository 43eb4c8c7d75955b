"""A workspace whose stores are open, for what sessions do in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.workspace.stores import Store
from tests.support.working import working


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with working(tmp_path / "w") as opened:
        yield opened
