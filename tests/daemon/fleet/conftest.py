"""A fleet for each test, and a process of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.fleet.running import Fleet, Here


@pytest.fixture
def fleet(fleet_url: str, tmp_path: Path) -> Iterator[Fleet]:
    """An empty fleet with a store in a folder."""
    one = Fleet(fleet_url, tmp_path)
    yield one
    one.close()


@pytest.fixture
def door(fleet: Fleet) -> Iterator[Here]:
    """A process of it within this one."""
    with fleet.here() as one:
        yield one
