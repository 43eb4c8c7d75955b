"""A fleet for each test."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from state.stores.fleet.database import migrate
from tests.daemon.fleet.workers.running import Fleet
from tests.support.postgres import Postgres

_MARK = str(UUID(int=1))


def _made(url: str) -> None:
    migrate(url, _MARK)


@pytest.fixture
def fleet(postgres: Postgres, tmp_path: Path) -> Iterator[Fleet]:
    """An empty fleet with a store in a folder."""
    url = postgres.new_database(_made)
    one = Fleet(url, tmp_path)
    yield one
    one.close()
    postgres.drop_database(url)
