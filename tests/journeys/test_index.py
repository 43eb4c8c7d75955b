"""ChromaDB in a daemon: it holds every crystal after whatever was noted, asked or dreamt, and nothing else."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import chromadb
import numpy as np
import pytest

from state.stores.crystals.crystals import Crystals
from state.stores.database.opening import open_database
from state.stores.disk.workspace import Workspace
from state.stores.vectors.chroma import COLLECTION
from tests.support import lived
from tests.support.serving import Home, noted, repairs

pytestmark = pytest.mark.full
_LEFT = """SELECT (SELECT count(*) FROM crystals WHERE vector IS NULL) + (SELECT count(*) FROM to_index)
    + (SELECT count(*) FROM crystals) * NOT EXISTS (SELECT 1 FROM index_state WHERE stamp <> '')"""


def is_complete(workspace: Workspace) -> Callable[[], bool]:
    return lambda: [*map(tuple, lived.rows(workspace, _LEFT))] == [(0,)]


def assert_held(workspace: Workspace, folder: Path) -> int:
    """Look with ChromaDB's own client; return how many it holds."""
    (build,) = workspace.index.iterdir()
    client = chromadb.PersistentClient(path=shutil.copytree(build, folder / build.name))
    told = client.get_collection(COLLECTION).get(include=["documents", "embeddings"])
    with closing(open_database(workspace.database)) as connection:
        crystals = Crystals(connection)
        keys = crystals.keys(told["ids"])
        assert len(keys) == crystals.count()
        assert told["documents"] == [one.text for one in crystals.get(told["ids"])]
        _, vectors = crystals.vectors.read(sorted(keys.values()))
        assert vectors is not None
        place = {key: number for number, key in enumerate(sorted(keys.values()))}
        assert np.allclose(np.asarray(told["embeddings"]), vectors[[place[keys[id_]] for id_ in told["ids"]]])
    return len(keys)


def test_it_is_complete_after_a_note_a_search_a_dream_and_a_restart(home: Home, tmp_path: Path) -> None:
    workspace = home.workspace()
    with home.serving() as daemon:
        daemon.until_kept(workspace)
        noted(workspace, repairs(60))
        assert home.dreamd("note", "Ada prefers tea", "-w", workspace.root).status == 0
        daemon.until(lambda: len(lived.rows(workspace, "SELECT * FROM crystals")) == 61)
        daemon.until(is_complete(workspace))
        # 3: the daemon has dreamt of so many notes by itself.
        assert home.dreamd("dream", workspace.root).status in (0, 3)
        assert lived.rows(workspace, "SELECT 1 FROM dreams WHERE outcome = 'committed'")
        noted(workspace, ["The ferry leaves at noon"])
        assert "ferry" in home.dreamd("search", "ferry", "-w", workspace.root).out
    # It was told to end at once.
    assert assert_held(workspace, tmp_path) >= 62
    noted(workspace, ["The harbour is closed"])
    assert "harbour" in home.dreamd("search", "harbour", "-w", workspace.root).out  # embedded by a command
    with home.serving() as daemon:
        daemon.until_kept(workspace)
        daemon.until(is_complete(workspace))
    assert assert_held(workspace, tmp_path / "again") >= 63
