"""The vector index of a workspace, as one process shares it."""

import stat
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from daemon.config.settings import Config
from daemon.workspace import vector_index as indexing
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import open_exclusive, open_readonly, utc_now
from daemon.workspace.vector_index import Embedding, Indexing
from state.crystals.crystal import Crystal, Origin
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database
from state.stores.vectors.chroma import is_whole
from state.stores.vectors.embedder import Unavailable
from state.stores.vectors.vector_file import NAME

VECTORS = 1_000


def _filled(crystals: Crystals, count: int) -> None:
    crystals.upsert([Crystal(f"House {number} was repaired", Origin.SCRATCH, utc_now()) for number in range(count)])
    keys = [int(row[0]) for row in crystals.connection.execute("SELECT key FROM crystals")]
    vectors = np.random.default_rng(7).standard_normal((count, 384)).astype(np.float32)
    crystals.vectors._keep(keys, "a test", vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def test_an_index_that_is_being_built_is_given_up_before_its_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "EXACT_SEARCH_UP_TO", 100)
    workspace = init_workspace(tmp_path / "agent")
    failures = list[Exception]()
    with closing(open_database(workspace.database)) as connection:
        crystals = Crystals(connection)
        _filled(crystals, VECTORS)

        first = Indexing(workspace, lambda: None, background=True, failed=failures.append)
        assert first.get(crystals)[0] is None
        builder = first._builder
        assert builder is not None
        first.close()
        assert not builder.is_alive()  # whoever has the lock next is alone in the folder
        assert not is_whole(workspace.crystals)

        second = Indexing(workspace, lambda: None, background=True, failed=failures.append)
        second.get(crystals)
        assert second._builder is not None
        second._builder.join()
        index, _ = second.get(crystals)
        assert index is not None
        assert index.count() == VECTORS
        assert is_whole(workspace.crystals)
        second.close()
    assert failures == []


def test_a_file_that_a_search_misses_is_written_in_the_background_by_whoever_may(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "agent")
    failures = list[Exception]()
    with closing(open_database(workspace.database)) as connection:
        crystals = Crystals(connection)
        _filled(crystals, VECTORS)
        nearest = crystals.vectors.nearest
        alone = Indexing(workspace, lambda: None)
        nearest.file = alone.file
        assert "the next dream" in alone.file_in_background()
        assert not nearest.is_filed()
        daemons = Indexing(workspace, lambda: None, background=True, failed=failures.append)
        nearest.file = daemons.file
        assert "in the background" in daemons.file_in_background()
        assert daemons._filer is not None
        daemons._filer.join()
        assert nearest.is_filed()
        assert daemons.is_open
        file = workspace.crystals / NAME
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert not file.is_symlink()
        daemons.drop()
        assert not file.exists()
        assert not nearest.is_filed()
        daemons.close()
    assert failures == []


def test_a_reader_uses_the_file_and_what_no_disk_takes_waits(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "agent")
    unavailable = Embedding.given(Unavailable("none here"))
    with open_exclusive(workspace, Config(), "test", embedding=unavailable) as store:
        _filled(store.crystals, VECTORS)
        store.file_vectors()
        assert store.notices == []
        with open_readonly(workspace, Config(), unavailable) as reader:
            assert reader.crystals.vectors.nearest.is_filed()
        (workspace.crystals / NAME).unlink()
        (workspace.crystals / NAME).mkdir()
        assert store.indexing.file is not None
        store.indexing.file.close()
        store.file_vectors()
        assert "the next dream tries again" in store.notices[0]
        with open_readonly(workspace, Config(), unavailable) as reader:
            assert not reader.crystals.vectors.nearest.is_filed()
        (workspace.crystals / NAME).rmdir()
        store.file_vectors()
        assert store.crystals.vectors.nearest.is_filed()
