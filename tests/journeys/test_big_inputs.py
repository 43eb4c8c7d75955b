"""Inputs that are far too big: read in pieces, so that the memory that they take does not grow with them."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from benchmarks.big_inputs import conversation, measured, one_line
from daemon.workspace.adoption import init_workspace
from tests.support.long_variants import variants

# Of the larger one, at most so much more than of the smaller one: one piece of the reading is 16 MiB.
MOST_GROWTH = 1.25


@pytest.mark.full
@pytest.mark.parametrize("sizes", variants((32, 96), (64, 1024)))
@pytest.mark.parametrize(("name", "write"), [("session.jsonl", conversation), ("one-line.jsonl", one_line)])
def test_the_memory_that_a_transcript_takes_does_not_grow_with_it(
    tmp_path: Path, name: str, write: Callable[[BinaryIO, int], None], sizes: tuple[int, int]
) -> None:
    peaks = []
    for size in sizes:
        workspace = init_workspace(tmp_path / f"w{size}")
        path = workspace.root / name
        with path.open("wb") as file:
            write(file, size << 20)
        peak, _, status = measured("ingest", "-w", workspace.root, path)
        path.unlink()
        assert status == 0
        peaks.append(peak)
    assert peaks[1] <= MOST_GROWTH * peaks[0]
