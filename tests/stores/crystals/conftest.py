"""The crystals of an empty database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from state.stores.crystals.crystals import Crystals
from state.stores.database.opening import open_database


@pytest.fixture
def crystals(tmp_path: Path) -> Iterator[Crystals]:
    connection = open_database(tmp_path / "state.db")
    yield Crystals(connection)
    connection.close()
