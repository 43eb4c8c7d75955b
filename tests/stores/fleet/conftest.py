"""A fleet's tables in a database of the test's own."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from state.stores.fleet.database import FleetDatabase, migrate
from tests.stores.fleet.fleet import Fleet
from tests.support.postgres import Postgres

_MARK = str(UUID(int=1))


def made(url: str) -> None:
    migrate(url, _MARK)


@pytest.fixture
def fleet_url(postgres: Postgres) -> Iterator[str]:
    url = postgres.new_database(made)
    yield url
    postgres.drop_database(url)


@pytest.fixture
def fleet(fleet_url: str) -> Iterator[Fleet]:
    database = FleetDatabase(fleet_url, size=24)
    yield Fleet(database)
    database.close()
