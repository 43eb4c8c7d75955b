"""The room for records that are still to come holds nothing of what the process had in its memory."""

import struct
from pathlib import Path

import pytest

from state.stores.vectors.chroma import VectorIndex
from state.stores.vectors.index_folder import blank_rest, new_build, sync
from tests.stores.vectors.test_chroma import records

GARBAGE = b"the launch crew is 7731 blue; "


@pytest.mark.full
@pytest.mark.parametrize(("count", "written"), [(10, 0), (1_050, 1_000)], ids=["none written yet", "a batch written"])
def test_what_stood_in_memory_does_not_stay_in_the_files(tmp_path: Path, count: int, written: int) -> None:
    """When ChromaDB writes its graph is its own affair: before the first thousand, a file of nothing but room."""
    build = new_build(tmp_path)
    index = VectorIndex(build)
    index.add(*records(0, count))
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
    assert blank_rest(build) == 0
    again = VectorIndex(build)
    assert again.count() == count
    assert again.nearest(records(3, 4)[1][0], 1)[0][0] == "0003"
    again.close()


def test_files_of_another_form_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "header.bin").write_bytes(struct.pack("<iQQQQ", 2, 0, 10, 0, 4))
    (tmp_path / "data_level0.bin").write_bytes(GARBAGE)
    assert blank_rest(tmp_path) == 0
    (tmp_path / "header.bin").write_bytes(b"\1\0")
    assert blank_rest(tmp_path) == 0
    assert (tmp_path / "data_level0.bin").read_bytes() == GARBAGE
