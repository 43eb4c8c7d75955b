"""A database with the tables of a fleet in it: made once a server, each test's is a copy."""

from collections.abc import Iterator

import pytest

from state.stores.fleet.database import migrate
from tests.support.postgres import Postgres

MARK = "6f0d3a52-2a53-4f6a-9d0b-3d1f3a3cb0aa"


def made(url: str) -> None:
    """Make them in this database."""
    migrate(url, MARK)


@pytest.fixture
def fleet_url(postgres: Postgres) -> Iterator[str]:
    """The address of a database of this test's own in which there is an empty fleet."""
    url = postgres.new_database(made)
    yield url
    postgres.drop_database(url)
