"""A fleet's tables in a database of the test's own."""

from collections.abc import Iterator

import pytest

from tests.stores.fleet.fleet import Fleet


@pytest.fixture
def fleet(fleet_url: str) -> Iterator[Fleet]:
    fleet = Fleet(fleet_url, size=24)
    yield fleet
    fleet.close()
