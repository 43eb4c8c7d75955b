"""A fleet for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.fleet.gateways.running import Door, Fleet, fleet


@pytest.fixture
def home(fleet_url: str, tmp_path: Path) -> Iterator[Fleet]:
    """An empty fleet."""
    with fleet(fleet_url, tmp_path) as one:
        yield one


@pytest.fixture
def door(home: Fleet) -> Iterator[Door]:
    """A gateway of it."""
    with home.door() as one:
        yield one
