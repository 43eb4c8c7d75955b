"""The crystals of an empty database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database


@pytest.fixture
def crystals(tmp_path: Path) -> Iterator[Crystals]:
    connection = open_database(tmp_path / "state.db")
    found = Crystals(connection, tmp_path / "vectors.db")
    yield found
    found.vectors.close()
    connection.close()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that is given is asked, however small the store is."""
    monkeypatch.setattr("state.stores.crystals.nearest.SCANNED_UP_TO", 0)
