"""The vector index is made of state.db: whatever becomes of it, it is made again."""

import random
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from daemon.api.operations.search import search
from daemon.config.settings import Config
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Origin
from tests.support import breaking
from tests.support.breaking import NOTED, about, repaired

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Lengths:
    """An embedder without a model: what matters here is that vectors are kept, and indexed again."""

    name = "lengths"
    width = 8

    def embed(self, texts: Sequence[str], *, questions: bool = False) -> "NDArray[np.float32]":  # noqa: ARG002
        found = np.array([[len(text) % (n + 2) + 1 for n in range(self.width)] for text in texts], dtype=np.float32)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), dtype=np.float32)


@pytest.mark.full
def test_an_index_that_is_torn_missing_or_a_file_is_thrown_away_and_made_anew(tmp_path: Path) -> None:
    workspace, embedding = init_workspace(tmp_path / "here"), Embedding.given(Lengths())
    with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
        store.crystals.upsert([Crystal(text, Origin.SESSION, utc_now()) for text in NOTED])
        assert store.embed() == len(NOTED)
    assert repaired(workspace, embedding=embedding).mends == ()

    def torn() -> None:
        path = workspace.index / "vectors.db"
        path.write_bytes(random.Random(2).randbytes(path.stat().st_size))

    def missing() -> None:
        shutil.rmtree(workspace.index)

    def a_file_instead() -> None:
        shutil.rmtree(workspace.index)
        workspace.index.write_text("no folder")

    for spoil in (torn, missing, a_file_instead):
        spoil()
        is_found = about(repaired(workspace, embedding=embedding)) & {"vector index", "folders"}
        assert is_found or spoil is missing  # which is made again as the stores are opened
        assert repaired(workspace, embedding=embedding).mends == ()
        with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
            store.embed()
            assert store.crystals.vectors.vector_count() == len(NOTED)
            assert search(store, NOTED[0]).hits[0].crystal.text == NOTED[0]
    with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
        store.copy_if_due(utc_now(), timedelta())
    breaking.emptied(workspace.database, random.Random(8))
    done = repaired(workspace, embedding=embedding)
    assert "state.db" in about(done), done
    with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
        store.embed()
        assert store.crystals.vectors.waiting()[0] == 0
        assert store.crystals.vectors.vector_count() == store.crystals.count() == len(NOTED)
