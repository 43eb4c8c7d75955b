"""A fleet for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.fleet.workers.running import Fleet


@pytest.fixture
def fleet(fleet_url: str, tmp_path: Path) -> Iterator[Fleet]:
    """An empty fleet with a store in a folder."""
    one = Fleet(fleet_url, tmp_path)
    yield one
    one.close()
