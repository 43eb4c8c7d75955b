"""The vector index is made of state.db: whatever becomes of it, it is made again."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from daemon.adoption import init_workspace
from daemon.compose import clock, owned
from daemon.config import Config
from daemon.indexing import Embedding
from daemon.repairing import Repair
from state.crystal import Crystal, Origin
from tests.daemon import breaking
from tests.daemon.breaking import NOTED, repaired

if TYPE_CHECKING:
    from numpy.typing import NDArray


def about(done: Repair) -> set[str]:
    return {mend.about for mend in done.mends}


class Lengths:
    """An embedder without a model: what matters here is that vectors are kept, and indexed again."""

    name = "lengths"
    width = 8

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        found = np.array([[len(text) % (n + 2) + 1 for n in range(self.width)] for text in texts], dtype=np.float32)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), dtype=np.float32)


def test_an_index_that_is_torn_missing_or_a_file_is_thrown_away_and_built_of_the_vectors(tmp_path: Path) -> None:
    workspace, embedding = init_workspace(tmp_path / "here"), Embedding.given(Lengths())
    with owned(workspace, Config(), "test", embedding=embedding) as store:
        store.remember([Crystal(text, Origin.SESSION, clock()) for text in NOTED])
        assert store.embed() == len(NOTED)
    assert repaired(workspace, embedding=embedding).mends == ()

    def torn() -> None:
        (build,) = workspace.crystals.glob("index-*")
        breaking.noisy(build / "chroma.sqlite3", random.Random(2))

    def missing() -> None:
        shutil.rmtree(workspace.crystals)

    def a_file_instead() -> None:
        shutil.rmtree(workspace.crystals)
        workspace.crystals.write_text("no folder")

    for spoil in (torn, missing, a_file_instead):
        spoil()
        assert about(repaired(workspace, embedding=embedding)) & {"vector index", "folders"}
        assert repaired(workspace, embedding=embedding).mends == ()
        with owned(workspace, Config(), "test", embedding=embedding) as store:
            index = store.index()
            assert index is not None
            assert index.count() == store.crystals.vectors.vector_count() == len(NOTED)
    breaking.zeroed(workspace.database, random.Random(8))
    done = repaired(workspace, embedding=embedding)
    assert {"state.db", "vector index"} <= about(done), done
    with owned(workspace, Config(), "test", embedding=embedding) as store:
        assert store.crystals.vectors.vector_count() == store.crystals.count()
        index = store.index()
        assert index is not None
        assert index.count() == store.crystals.count()
