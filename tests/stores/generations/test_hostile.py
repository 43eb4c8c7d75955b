"""What the store gives back is believed only as far as it is what was written."""

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from state.errors import StorageError
from state.fleet.generation import Manifest
from state.stores.generations.generations import Generations
from state.stores.generations.manifests import manifest_key
from state.stores.generations.objects import Objects
from tests.support.generation_folders import PREFIX, contents, files, grow, make_folder, put


@pytest.fixture
def made(folder_store: Objects, tmp_path: Path) -> Manifest:
    return put(Generations(folder_store, PREFIX), make_folder(tmp_path / "here"), None, 1)


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
@pytest.mark.parametrize("kind", ["generations", "parts"])
def test_an_object_that_is_not_what_was_written_is_named(
    objects: Objects, tmp_path: Path, harm: Callable[[bytes], bytes] | None, kind: str
) -> None:
    here, there = make_folder(tmp_path / "here"), tmp_path / "there"
    grow(here, 9)
    key = put(Generations(objects, PREFIX), here, None, 1).key
    target = next(one.key for one in objects.list(f"{PREFIX}/{kind}"))
    content = objects.get(target)
    objects.delete([target])
    if harm is not None:
        objects.put_new(target, harm(content))
    with pytest.raises(StorageError, match=target):
        Generations(objects, PREFIX).bring_up(there, Generations(objects, PREFIX).manifest(key))
    objects.delete([target])
    objects.put_new(target, content)
    Generations(objects, PREFIX).bring_up(there, Generations(objects, PREFIX).manifest(key))
    assert contents(there) == contents(here)


def hostile(objects: Objects, key: str, change: Callable[[dict[str, Any]], object]) -> str:
    """An object that somebody wrote with a key of its own."""
    whole = zlib.decompress(objects.get(key))
    end = 4 + int.from_bytes(whole[:4], "big")
    plain = json.loads(whole[4:end])
    change(plain)
    head = json.dumps(plain).encode()
    content = zlib.compress(len(head).to_bytes(4, "big") + head + whole[end:])
    other = manifest_key(PREFIX, 1, content)
    objects.put_new(other, content)
    return other


@pytest.mark.parametrize(
    "name",
    ["../out", "/etc/out", "a/../../out", "", ".", "..", "a//b", "a/", "a\0b", ".dreamd/lock",
     ".dreamd/state.db-wal", ".dreamd/state.db-journal", ".dreamd/index/vectors.db",
     ".dreamd/index", ".dreamd", "MEMORY.md/x", "x" * 300, "y/" * 3000 + "z"],
)  # fmt: skip
def test_no_name_leads_out_of_the_folder_or_to_what_is_the_machines(
    folder_store: Objects, made: Manifest, tmp_path: Path, name: str
) -> None:
    def change(plain: dict[str, Any]) -> None:
        plain["files"].append([name, *plain["files"][0][1:]])

    key = hostile(folder_store, made.key, change)
    with pytest.raises(StorageError, match=key):
        Generations(folder_store, PREFIX).manifest(key)


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.update(format=4),
        lambda plain: plain.update(number=2),
        lambda plain: plain.update(at="yesterday"),
        lambda plain: plain.pop("files"),
        lambda plain: plain["files"].append(plain["files"][0]),
        lambda plain: plain["parts"].append(["8/1/parts/000000000001-" + "0" * 32, 1]),
        lambda plain: plain["parts"].append([f"{PREFIX}/parts/../../1/parts/000000000001-" + "0" * 32, 1]),
        lambda plain: plain["parts"].append([f"{PREFIX}/parts/000000000001-" + "0" * 32, -1]),
        lambda plain: plain["blocks"][0].__setitem__(1, 2**80),
        lambda plain: plain["blocks"][0][2][0].__setitem__(0, -1),
        lambda plain: plain["blocks"][0][2][0].__setitem__(1, 0),
        lambda plain: plain["blocks"].pop(),
        lambda plain: plain["files"][0].__setitem__(1, 1.5),
        lambda plain: plain["files"][0].__setitem__(2, 2**80),
        lambda plain: plain["files"][0].__setitem__(3, "../x"),
        lambda plain: plain["files"][0].__setitem__(3, "0" * 32),
    ],
)
def test_a_manifest_that_means_nothing_is_refused(
    folder_store: Objects, made: Manifest, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    key = hostile(folder_store, made.key, change)
    with pytest.raises(StorageError, match=key):
        Generations(folder_store, PREFIX).bring_up(
            tmp_path / "there", Generations(folder_store, PREFIX).manifest(key)
        )


def test_what_an_older_dreamd_put_is_told_as_such(folder_store: Objects) -> None:
    content = zlib.compress(b'{"format":1,"number":1}')
    key = manifest_key(PREFIX, 1, content).replace("-", "-1-")
    folder_store.put_new(key, content)
    with pytest.raises(StorageError, match="by an older dreamd; export the workspace"):
        Generations(folder_store, PREFIX).manifest(key)


def test_a_key_of_another_workspace_is_none_of_this_one(folder_store: Objects, made: Manifest) -> None:
    with pytest.raises(StorageError, match=made.key):
        Generations(folder_store, "8/1").manifest(made.key)


def test_no_link_in_the_folder_is_followed(folder_store: Objects, made: Manifest, tmp_path: Path) -> None:
    outside = make_folder(tmp_path / "outside")
    before = contents(outside)
    for name in (".dreamd", "memory", "MEMORY.md", ".dreamd/index", ".dreamd/history"):
        there = tmp_path / name.replace("/", "-")
        there.mkdir()
        if name.startswith(".dreamd/"):
            (there / ".dreamd").mkdir()
        (there / name).symlink_to(outside / name if (outside / name).exists() else outside)
        Generations(folder_store, PREFIX).bring_up(there, made)
        assert contents(there) == contents(tmp_path / "here")
        assert not any(path.is_symlink() for path in there.rglob("*"))
        assert contents(outside) == before
        shutil.rmtree(there)
    assert files(outside)
