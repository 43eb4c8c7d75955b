"""Inputs that are far too big: read in pieces, so that the memory that they take does not grow with them."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from benchmarks.big_inputs import conversation, measured, one_line
from daemon.ingest.formats.reading import readings
from daemon.workspace.adoption import init_workspace
from state.errors import StorageError
from state.stores.disk.workspace import Workspace
from tests.support.long_variants import variants

# Of the larger one, at most so much more than of the smaller one: one piece of the reading is 16 MiB.
MOST_GROWTH = 1.25
_MIB = 1 << 20


def made(folder: Path, name: str, write: Callable[[BinaryIO, int], None], size: int) -> tuple[Workspace, Path]:
    workspace = init_workspace(folder / f"w{size}")
    path = workspace.root / name
    with path.open("wb") as file:
        write(file, size)
    return workspace, path


@pytest.mark.full
@pytest.mark.parametrize("sizes", variants((32, 96), (64, 1024)))
@pytest.mark.parametrize(("name", "write"), [("session.jsonl", conversation), ("one-line.jsonl", one_line)])
def test_the_memory_that_a_transcript_takes_does_not_grow_with_it(
    tmp_path: Path, name: str, write: Callable[[BinaryIO, int], None], sizes: tuple[int, int]
) -> None:
    peaks = []
    for size in sizes:
        workspace, path = made(tmp_path, name, write, size * _MIB)
        peak, _, status = measured("ingest", "-w", workspace.root, path)
        path.unlink()
        assert status == 0
        peaks.append(peak)
    assert peaks[1] <= MOST_GROWTH * peaks[0]


def test_a_line_without_an_end_is_named_and_what_follows_it_is_read(tmp_path: Path) -> None:
    _, path = made(tmp_path, "talk.jsonl", one_line, 20 * _MIB)
    with path.open("ab") as file:
        file.write(b'\n{"role": "user", "content": "I prefer tea"}\n')
    found = list(readings(path))
    assert [turn.text for reading in found for turn in reading.turns] == ["I prefer tea"]
    (problem,) = [problem for reading in found for problem in reading.problems]
    assert problem.line == 1
    assert "longer than" in problem.what


def test_a_file_that_shrinks_or_grows_while_it_is_read_ends(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    line = b'{"role": "user", "content": "I prefer tea"}\n'
    path.write_bytes(line * 2_000_000)
    found = readings(path)
    first = next(found)
    assert not first.complete
    os.truncate(path, len(line))
    rest = [turn for reading in found for turn in reading.turns]
    assert [turn.text for turn in rest] == ["I prefer tea"]
    growing = readings(path)
    next(growing)
    with path.open("ab") as file:
        file.write(line)
    assert len(next(readings(path)).turns) == 2


def test_a_fifo_that_takes_the_place_of_a_transcript_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "talk.md"
    os.mkfifo(path)
    monkeypatch.setattr(Path, "is_file", lambda _: True)  # as it looked a moment ago
    assert stat.S_ISFIFO(path.stat().st_mode)
    with pytest.raises(StorageError, match="no regular file"):
        next(readings(path))
