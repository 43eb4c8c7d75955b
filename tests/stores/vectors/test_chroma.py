"""ChromaDB answers like an exact search, and holds each record with its text once."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from state.errors import StorageError
from state.stores.vectors.chroma import VectorIndex
from state.stores.vectors.index_folder import new_build

pytestmark = pytest.mark.full
WIDTH = 16


def records(first: int, end: int) -> tuple[list[str], NDArray[np.float32], list[str], list[dict[str, str]]]:
    drawn = np.stack([np.random.default_rng(number).standard_normal(WIDTH) for number in range(first, end)])
    names = [f"{number:04}" for number in range(first, end)]
    vectors = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return names, vectors, [f"text {name}" for name in names], [{"origin": "session"} for _ in names]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[VectorIndex]:
    found = VectorIndex(new_build(tmp_path))
    yield found
    found.close()


def test_nearest_is_what_comparing_with_every_vector_gives(index: VectorIndex) -> None:
    names, vectors, texts, metadata = records(0, 300)
    index.add(names, vectors, texts, metadata)
    for vector in records(300, 310)[1]:
        exact = sorted(((float(one @ vector), name) for name, one in zip(names, vectors, strict=True)), reverse=True)
        found = index.nearest(vector, 10)
        assert [name for name, _ in found] == [name for _, name in exact[:10]]
        assert [near for _, near in found] == pytest.approx([near for near, _ in exact[:10]], abs=1e-5)
    assert len(index.nearest(vectors[0], 1_000)) == 300
    assert index.nearest(vectors[0], 0) == []


def test_a_failure_is_told_and_the_index_of_no_use_then(index: VectorIndex) -> None:
    index.add(*records(0, 20))
    with pytest.raises(StorageError, match="built anew"):
        index.nearest(np.ones(WIDTH + 1, dtype=np.float32), 3)
    assert index.failed


def test_an_env_file_where_the_process_runs_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("chroma_api_impl=chromadb.api.fastapi.FastAPI\nanonymized_telemetry=True\n")
    monkeypatch.chdir(tmp_path)
    index = VectorIndex(new_build(tmp_path))
    index.add(*records(0, 3))
    assert index.count() == 3
    index.close()
    index.close()
