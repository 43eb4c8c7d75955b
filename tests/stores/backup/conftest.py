"""An honest archive, and where one is imported."""

from pathlib import Path

import pytest

from tests.support.archives import Importer, exported, lived


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origin")
    return exported(lived(folder / "here"), folder / "honest.tar.gz")


@pytest.fixture
def importer(tmp_path: Path) -> Importer:
    folder = tmp_path / "alone"
    folder.mkdir()
    return Importer(folder)
