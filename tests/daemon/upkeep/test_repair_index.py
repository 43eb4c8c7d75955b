"""The vector index is made of state.db: whatever becomes of it, it is made again."""

import random
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from daemon.api.search import search
from daemon.config.settings import Config
from daemon.dream.run import Mode, dream_now
from daemon.workspace.adoption import init_workspace
from daemon.workspace.stores import open_exclusive, utc_now
from daemon.workspace.vector_index import Embedding
from state.crystals.crystal import Crystal, Origin
from state.dream import Reason
from tests.support import breaking
from tests.support.breaking import NOTED, about, repaired

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Lengths:
    """An embedder without a model: what matters here is that vectors are kept, and indexed again."""

    name = "lengths"
    width = 8

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        found = np.array([[len(text) % (n + 2) + 1 for n in range(self.width)] for text in texts], dtype=np.float32)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), dtype=np.float32)


@pytest.mark.full
def test_an_index_that_is_torn_missing_or_a_file_is_thrown_away_and_built_of_the_vectors(tmp_path: Path) -> None:
    workspace, embedding = init_workspace(tmp_path / "here"), Embedding.given(Lengths())
    with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
        store.crystals.upsert([Crystal(text, Origin.SESSION, utc_now()) for text in NOTED])
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
        with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
            index = store.index()
            assert index is not None
            assert index.count() == store.crystals.vectors.vector_count() == len(NOTED)
    with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
        store.copy_if_due(utc_now(), timedelta())
    breaking.emptied(workspace.database, random.Random(8))
    done = repaired(workspace, embedding=embedding)
    assert "state.db" in about(done), done
    with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
        assert store.crystals.vectors.vector_count() == store.crystals.count() == len(NOTED)
        index = store.index()
        assert index is not None
        assert index.count() == store.crystals.count()


@pytest.mark.full
def test_a_search_beside_no_daemon_builds_no_index_and_the_next_dream_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("stores", "vector_index"):
        monkeypatch.setattr(f"daemon.workspace.{module}.EXACT_SEARCH_UP_TO", 2)
    workspace, embedding = init_workspace(tmp_path / "here"), Embedding.given(Lengths())
    with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
        store.crystals.upsert([Crystal(text, Origin.SESSION, utc_now()) for text in NOTED])
        store.embed()
        store.index()
    (workspace.crystals / "clean.json").unlink()  # as after a kill, or a copy
    with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
        assert search(store, NOTED[0]).hits[0].crystal.text == NOTED[0]
        assert store.embed() == 0
        assert store.indexing.open_index is None
        assert any("the next dream" in notice for notice in store.notices)
    with open_exclusive(workspace, Config(), "test", embedding=embedding) as store:
        dream_now(store, Reason.MANUAL, Mode.AUTO)
        assert store.indexing.open_index is not None
