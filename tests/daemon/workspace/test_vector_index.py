"""The vector index of a workspace, as one process shares it."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from daemon.workspace import vector_index as indexing
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Indexing
from state.crystals.crystal import Crystal, Origin
from state.stores.crystals.crystals import Crystals
from state.stores.database.connection import open_database
from state.stores.vectors.chroma import is_whole

VECTORS = 1_000


def test_an_index_that_is_being_built_is_given_up_before_its_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "EXACT_SEARCH_UP_TO", 100)
    workspace = init_workspace(tmp_path / "agent")
    failures = list[Exception]()
    with closing(open_database(workspace.database)) as connection:
        crystals = Crystals(connection)
        crystals.upsert(
            [Crystal(f"House {number} was repaired", Origin.SCRATCH, utc_now()) for number in range(VECTORS)]
        )
        keys = [int(row[0]) for row in connection.execute("SELECT key FROM crystals")]
        vectors = np.random.default_rng(7).standard_normal((VECTORS, 384)).astype(np.float32)
        crystals.vectors._keep(keys, "a test", vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

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
