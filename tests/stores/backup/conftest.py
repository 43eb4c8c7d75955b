"""An honest archive, and where one is imported."""

from pathlib import Path

import pytest

from daemon.upkeep.import_ import import_archive
from tests.support.archives import Importer, exported, lived
from tests.support.lived import everything


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origin")
    return exported(lived(folder / "here"), folder / "honest.db")


@pytest.fixture
def importer(tmp_path: Path) -> Importer:
    folder = tmp_path / "alone"
    folder.mkdir()
    return Importer(folder)


@pytest.fixture
def honest(archive: Path, tmp_path: Path) -> dict[str, bytes]:
    """Every byte of what comes out of the archive."""
    import_archive(archive, tmp_path / "honest")
    return everything(tmp_path / "honest")
