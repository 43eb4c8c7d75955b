"""ChromaDB: its failures are told, and no more than its records is in its files."""

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from state.errors import StorageError
from state.stores.vectors.chroma import BATCH, Record, VectorIndex, blank_rest, has_build, new_build, sync

pytestmark = pytest.mark.full
WIDTH = 16


def vector(number: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(number).standard_normal(WIDTH)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


def told(index: VectorIndex, first: int, end: int) -> None:
    names = [f"{number:04}" for number in range(first, end)]
    index.update(names, [Record(name, vector(int(name)), f"text {name}", {"origin": "session"}) for name in names])


@pytest.fixture
def index(tmp_path: Path) -> Iterator[VectorIndex]:
    found = VectorIndex(new_build(tmp_path))
    yield found
    found.close()


def test_a_failure_is_told_and_the_index_of_no_use_then(index: VectorIndex) -> None:
    told(index, 0, 20)
    with pytest.raises(StorageError, match="built anew"):
        index.nearest(np.ones(WIDTH + 1, dtype=np.float32), 3)
    assert index.failed


def test_an_env_file_where_the_process_runs_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("chroma_api_impl=chromadb.api.fastapi.FastAPI\nanonymized_telemetry=True\n")
    monkeypatch.chdir(tmp_path)
    index = VectorIndex(new_build(tmp_path))
    told(index, 0, 3)
    assert index.count() == 3
    index.close()
    index.close()


def test_of_changed_and_deleted_records_nothing_is_found_but_what_they_are_now(index: VectorIndex) -> None:
    told(index, 0, 300)
    changed = [f"{number:04}" for number in range(0, 300, 3)]
    index.update(
        changed, [Record(name, vector(1_000 + int(name)), "changed", {"origin": "notes"}) for name in changed[::2]]
    )
    assert index.count() == 250
    for number in range(300):
        at = 1_000 + number if number % 3 == 0 else number
        name, cosine = index.nearest(vector(at), 1)[0]
        assert (name == f"{number:04}" and cosine > 0.999) is (number % 6 != 3)


def test_a_build_is_known_by_its_stamp(tmp_path: Path) -> None:
    build = new_build(tmp_path)
    first, second = sync(build), sync(build)
    assert [has_build(tmp_path, build.name, stamp) for stamp in (first, second, "")] == [False, True, False]
    (build / "elsewhere").symlink_to("/etc/passwd")
    assert not has_build(tmp_path, build.name, second)


GARBAGE = b"the launch crew is 7731 blue; "


@pytest.mark.full
@pytest.mark.parametrize(("count", "written"), [(10, 0), (1_050, 1_000)], ids=["none written yet", "a batch written"])
def test_what_stood_in_memory_does_not_stay_in_the_files(tmp_path: Path, count: int, written: int) -> None:
    """When ChromaDB writes its graph is its own affair: before the first thousand, a file of nothing but room."""
    build = new_build(tmp_path)
    index = VectorIndex(build)
    for first in range(0, count, BATCH):
        told(index, first, min(first + BATCH, count))
    index.close()
    graph = next(build.rglob("data_level0.bin"))
    _, _, room, there, size = struct.unpack_from("<iQQQQ", (graph.parent / "header.bin").read_bytes())
    assert there == written
    assert graph.stat().st_size in (room * size, there * size)
    used = graph.read_bytes()[: there * size]
    rest = room * size - len(used)
    graph.write_bytes(used + (GARBAGE * (rest // len(GARBAGE) + 1))[:rest])
    sync(build)
    assert GARBAGE not in graph.read_bytes()
    assert graph.read_bytes() == used + bytes(rest)
    again = VectorIndex(build)
    assert again.count() == count
    assert again.nearest(vector(3), 1)[0][0] == "0003"
    again.close()


def test_files_of_another_form_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "header.bin").write_bytes(struct.pack("<iQQQQ", 2, 0, 10, 0, 4))
    (tmp_path / "data_level0.bin").write_bytes(GARBAGE)
    blank_rest(tmp_path)
    (tmp_path / "header.bin").write_bytes(b"\1\0")
    blank_rest(tmp_path)
    assert (tmp_path / "data_level0.bin").read_bytes() == GARBAGE
