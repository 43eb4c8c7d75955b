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
from state.stores.generations import local_copy
from state.stores.generations.generations import Generations
from state.stores.generations.manifests import manifest_key
from state.stores.generations.objects import Objects
from tests.support.generation_folders import NOW, PREFIX, contents, files, make_folder


@pytest.fixture
def put(folder_store: Objects, tmp_path: Path) -> tuple[str, Manifest]:
    return Generations(folder_store, PREFIX).put(make_folder(tmp_path / "here"), None, 1, 1, NOW)


def replaced(objects: Objects, key: str, content: bytes) -> None:
    objects.delete([key])
    objects.put_new(key, content)


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
@pytest.mark.parametrize("kind", ["generations", "packs"])
def test_an_object_that_is_not_what_was_written_is_named(
    objects: Objects, tmp_path: Path, harm: Callable[[bytes], bytes] | None, kind: str
) -> None:
    here, there = make_folder(tmp_path / "here"), tmp_path / "there"
    generations = Generations(objects, PREFIX)
    key, manifest = generations.put(here, None, 1, 1, NOW)
    generations.bring_up(there, manifest)
    local_copy.opened(there)
    (there / "MEMORY.md").write_text("written meanwhile")
    target = key if kind == "generations" else manifest.packs[0].key
    content = objects.get(target)
    objects.delete([target])
    if harm is not None:
        objects.put_new(target, harm(content))
    for place in (there, tmp_path / "fresh"):
        with pytest.raises(StorageError, match=target):
            generations.bring_up(place, generations.manifest(key))
        if kind == "packs":
            assert local_copy.held(place) is None
    replaced(objects, target, content)
    generations.bring_up(there, generations.manifest(key))
    assert contents(there) == contents(here)


def hostile(objects: Objects, key: str, change: Callable[[dict[str, Any]], object]) -> str:
    """A manifest that somebody wrote with a key of its own."""
    plain = json.loads(zlib.decompress(objects.get(key)))
    change(plain)
    content = zlib.compress(json.dumps(plain).encode())
    other = manifest_key(PREFIX, 1, 1, content)
    objects.put_new(other, content)
    return other


@pytest.mark.parametrize(
    "name",
    ["../out", "/etc/out", "a/../../out", "", ".", "..", "a//b", "a/", "a\0b", ".dreamd/lock",
     ".dreamd/generation.json", ".dreamd/state.db-wal", ".dreamd/state.db-journal", ".dreamd/index/vectors.db",
     ".dreamd/index", ".dreamd", ".dreamd/incoming/0", "MEMORY.md/x", "x" * 300, "y/" * 3000 + "z"],
)  # fmt: skip
def test_no_name_leads_out_of_the_folder_or_to_what_is_the_machines(
    folder_store: Objects, put: tuple[str, Manifest], tmp_path: Path, name: str
) -> None:
    def change(plain: dict[str, Any]) -> None:
        plain["files"].append([name, 0, plain["files"][0][2]])

    key = hostile(folder_store, put[0], change)
    with pytest.raises(StorageError, match=key):
        Generations(folder_store, PREFIX).manifest(key)


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.update(format=2),
        lambda plain: plain.update(number=2),
        lambda plain: plain.update(fence=7),
        lambda plain: plain.update(at="yesterday"),
        lambda plain: plain.pop("files"),
        lambda plain: plain["files"].append(plain["files"][0]),
        lambda plain: plain["packs"][0].__setitem__(0, "8/1/packs/000000000001-1-" + "0" * 32),
        lambda plain: plain["packs"][0].__setitem__(0, f"{PREFIX}/packs/../../1/packs/000000000001-1-" + "0" * 32),
        lambda plain: plain["packs"][0].__setitem__(1, 5),
        lambda plain: plain["files"][0][2][0].__setitem__(0, 9),
        lambda plain: plain["files"][0][2][0].__setitem__(0, -1),
        lambda plain: plain["files"][0][2][0].__setitem__(1, -1),
        lambda plain: plain["files"][0][2][0].__setitem__(2, 0),
        lambda plain: plain["files"][0][2][0].__setitem__(2, 1.5),
        lambda plain: plain["files"][0][2][0].__setitem__(3, "../x"),
        lambda plain: plain["files"][0].__setitem__(1, 2**80),
        lambda plain: plain["files"][0].__setitem__(2, None),
    ],
)
def test_a_manifest_that_means_nothing_is_refused(
    folder_store: Objects, put: tuple[str, Manifest], change: Callable[[dict[str, Any]], object]
) -> None:
    key = hostile(folder_store, put[0], change)
    with pytest.raises(StorageError, match=key):
        Generations(folder_store, PREFIX).manifest(key)


def test_a_key_of_another_workspace_is_none_of_this_one(folder_store: Objects, put: tuple[str, Manifest]) -> None:
    with pytest.raises(StorageError, match=put[0]):
        Generations(folder_store, "8/1").manifest(put[0])


def test_no_link_in_the_folder_is_followed(folder_store: Objects, put: tuple[str, Manifest], tmp_path: Path) -> None:
    outside = make_folder(tmp_path / "outside")
    (outside / "crystals").mkdir()
    before = contents(outside)
    for name in (".dreamd", "memory", "MEMORY.md", ".dreamd/incoming", ".dreamd/index", ".dreamd/history"):
        there = tmp_path / name.replace("/", "-")
        there.mkdir()
        if name.startswith(".dreamd/"):
            (there / ".dreamd").mkdir()
        (there / name).symlink_to(outside / name if (outside / name).exists() else outside)
        Generations(folder_store, PREFIX).bring_up(there, put[1])
        assert contents(there) == contents(tmp_path / "here")
        assert not any(path.is_symlink() for path in there.rglob("*"))
        assert contents(outside) == before
        shutil.rmtree(there)
    assert files(outside)
