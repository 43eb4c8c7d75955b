"""How long it takes: 30 MB go up and come down in a moment, and a small change costs little."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects
from tests.support.generation_folders import PREFIX, contents, grow, make_folder, put, write_rows


def seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


@pytest.mark.full
def test_thirty_megabytes_go_up_and_come_down_in_a_moment(folder_store: Objects, tmp_path: Path) -> None:
    here = make_folder(tmp_path / "here", records=300)
    grow(here, 30)
    generations = Generations(folder_store, PREFIX)
    taken: dict[str, float] = {}
    taken["first"] = seconds(lambda: put(generations, here, None, 1, 1))
    first = generations.manifest(generations.keys()[-1])
    write_rows(here, ["one more"])
    with (here / "memory" / "scratch.md").open("a") as log:
        log.write("- one more\n")
    taken["second"] = seconds(lambda: put(generations, here, first, 2, 1))
    second = generations.manifest(generations.keys()[-1])
    taken["third"] = seconds(lambda: put(generations, here, second, 3, 1))
    taken["down"] = seconds(lambda: generations.bring_up(tmp_path / "there", second))
    print({name: round(value, 3) for name, value in taken.items()})
    assert contents(tmp_path / "there") == contents(here)
    # Several times what it takes on a machine that does nothing else.
    assert taken["first"] < 3
    assert taken["second"] < 1
    assert taken["down"] < 2
