"""What the store gives back is believed only as far as it is what was written."""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from state.errors import StorageError
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects
from state.stores.generations.versions import key_of
from tests.support.generation_folders import PREFIX, bring_up, contents, make_folder, put, write_rows


@pytest.fixture
def made(folder_store: Objects, tmp_path: Path) -> str:
    put(Generations(folder_store, PREFIX), make_folder(tmp_path / "here"), 1)
    return key_of(PREFIX, 1)


@pytest.mark.parametrize(
    "harm",
    [
        lambda content: content[:-1],
        lambda content: content[:0],
        lambda content: content[:5] + b"?" + content[6:],
        None,
    ],
    ids=["cut off", "empty", "changed", "missing"],
)
@pytest.mark.parametrize("which", [0, 1])
def test_an_object_that_is_not_what_was_written_is_named(
    objects: Objects, tmp_path: Path, harm: Callable[[bytes], bytes] | None, which: int
) -> None:
    here, there, generations = make_folder(tmp_path / "here"), tmp_path / "there", Generations(objects, PREFIX)
    put(generations, here, 1)
    write_rows(here, ["one more"])
    put(generations, here, 2)
    target = key_of(PREFIX, which + 1)
    content = objects.get(target)
    objects.delete([target])
    if harm is not None:
        objects.put(target, harm(content))
    with pytest.raises(StorageError, match=target):
        bring_up(objects, there, 2)
    objects.delete([target])
    objects.put(target, content)
    bring_up(objects, there, 2)
    assert contents(there) == contents(here)


def replace(objects: Objects, key: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Put another object in the place of this one, as who can write in the store may do."""
    whole = zlib.decompress(objects.get(key))
    end = 4 + int.from_bytes(whole[:4], "big")
    plain = json.loads(whole[4:end])
    change(plain)
    head = json.dumps(plain).encode()
    content = zlib.compress(len(head).to_bytes(4, "big") + head + whole[end:])
    objects.delete([key])
    objects.put(key, content)


NAMES = [
    "../out", "/etc/out", "a/../../out", "", ".", "..", "a//b", "a/", "a\0b", ".dreamd/lock", ".dreamd/state.db-wal",
    ".dreamd/state.db-journal", ".dreamd/index/vectors.db", ".dreamd/index", ".dreamd", "MEMORY.md/x", "x" * 300,
    "y/" * 3000 + "z", "memory/../MEMORY.md", ".dreamd/originals.jsonl", "MEMORY.md\n",
]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        *(lambda plain, name=name: plain["files"].append([name, 0, 0, []]) for name in NAMES),
        lambda plain: plain.update(format=6),
        lambda plain: plain.update(number=2),
        lambda plain: plain.update(place=["acme"]),
        lambda plain: plain.pop("files"),
        lambda plain: plain["files"].append(plain["files"][0]),
        lambda plain: plain["before"].append(["../../8/1/generations/1", 1, ""]),
        lambda plain: plain["before"].append([1, 1, ""]),
        lambda plain: plain["before"].append([-1, 1, ""]),
        lambda plain: plain["before"].append([0, -1, ""]),
        lambda plain: plain["before"].append([0, 1, ""]),
        lambda plain: plain["files"][0].__setitem__(1, 2**80),
        lambda plain: plain["files"][0].__setitem__(1, 2**29),
        lambda plain: plain["files"][0].__setitem__(1, 1.5),
        lambda plain: plain["files"][0].__setitem__(2, 2**80),
        lambda plain: plain["files"][0][3][0].__setitem__(0, -1),
        lambda plain: plain["files"][0][3][0].__setitem__(0, 1),
        lambda plain: plain["files"][0][3][0].__setitem__(1, 0),
        lambda plain: plain["files"].pop(),
    ],
)
def test_a_head_that_means_nothing_or_leads_elsewhere_is_refused(
    folder_store: Objects, made: str, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    replace(folder_store, made, change)
    with pytest.raises(StorageError, match=f"{PREFIX}/generations/"):
        bring_up(folder_store, tmp_path / "there", 1)
    assert not (tmp_path / "there").exists()
