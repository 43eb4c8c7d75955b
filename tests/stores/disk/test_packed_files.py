"""Packed files are read like plain ones, in bounded memory, and say when they are damaged."""

import os
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from state.stores.disk import packed_files
from state.stores.disk.packed_files import UnpackingError, opened_unpacked

CONTENT = b"".join(b"%d: the ferry leaves at nine\n" % number for number in range(20_000))


def packed(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@given(st.lists(st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 100_000)), max_size=6))
def test_any_part_is_read_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[int, int]]
) -> None:
    frames = zstandard.compress(CONTENT[:100_000]) + zstandard.compress(CONTENT[100_000:])
    with opened_unpacked(packed(tmp_path_factory.mktemp("p") / "a.zst", frames)) as file:
        assert file.seek(0, os.SEEK_END) == len(CONTENT)
        for start, size in parts:
            file.seek(start)
            assert file.read(size) == CONTENT[start : start + size]
            assert file.readline() == CONTENT[start + size :].partition(b"\n")[0] + b"\n" * (
                start + size < len(CONTENT)
            )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (zstandard.compress(CONTENT)[:-9], "cut off"),
        (zstandard.compress(CONTENT)[:3], "cut off"),
        (zstandard.compress(CONTENT) + CONTENT, "damaged"),
        (zstandard.ZstdCompressor(write_checksum=True).compress(CONTENT)[:-1] + b"?", "damaged"),
        (CONTENT, "no zstd file"),
    ],
)
def test_a_damaged_one_says_so(tmp_path: Path, content: bytes, why: str) -> None:
    with opened_unpacked(packed(tmp_path / "a.zst", content)) as file, pytest.raises(UnpackingError) as raised:
        file.seek(0, os.SEEK_END)
    assert why in str(raised.value.strerror)


def test_a_bomb_is_stopped_and_never_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_files, "UNPACKED_BYTES", 200 * 2**20)
    path = packed(tmp_path / "a.zst", zstandard.compress(bytes(300 * 2**20)))
    tracemalloc.start()
    with opened_unpacked(path) as file, pytest.raises(UnpackingError, match="more than 200 MiB"):
        file.seek(0, os.SEEK_END)
    assert tracemalloc.get_traced_memory()[1] < 40 * 2**20
    tracemalloc.stop()
