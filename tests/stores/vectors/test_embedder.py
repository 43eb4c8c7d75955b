"""The model is the one that is pinned, computes what it should, and survives a torn cache."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from state.stores.vectors.bert import Bert
from state.stores.vectors.calibration import ENGLISH, FAR, NEAR, Calibration
from state.stores.vectors.embedder import Embedder, Sources, Unavailable, installed_sources, open_embedder
from state.stores.vectors.weights import PACKAGE

SENTENCE = "This is an example sentence"
MODEL = installed_sources().package

pytestmark = pytest.mark.skipif(MODEL is None, reason=f"{PACKAGE} is not installed")


@pytest.fixture(scope="module")
def model() -> Path:
    assert MODEL is not None
    return MODEL


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    yield folder
    shutil.rmtree(folder)  # 90 MB


@pytest.fixture(scope="module")
def embedder(cache: Path) -> Embedder:
    return opened(open_embedder(cache))


def opened(embedder: Embedder | Unavailable) -> Embedder:
    assert not isinstance(embedder, Unavailable), embedder
    return embedder


def refusal(embedder: Embedder | Unavailable) -> str:
    assert isinstance(embedder, Unavailable)
    assert "\n" not in embedder.reason
    return embedder.reason


def test_an_example_sentence_has_the_published_vector(embedder: Embedder) -> None:
    (vector,) = embedder.embed([SENTENCE])
    assert vector[:4] == pytest.approx([0.0677, 0.0635, 0.0487, 0.0793], abs=6e-5)
    assert vector.shape == (embedder.width,) == (384,)
    assert embedder.name == "all-MiniLM-L6-v2@53aa51172d14"


FULL = pytest.mark.full


@pytest.mark.full
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: os.truncate(path, path.stat().st_size // 2), id="half-written", marks=FULL),
        pytest.param(lambda path: os.truncate(path, 0), id="emptied", marks=FULL),
        pytest.param(lambda path: flip(path, 40_000_000), id="one-byte-flipped-and-the-time-set-back"),
        pytest.param(lambda path: path.unlink(), id="removed"),
        pytest.param(lambda path: (path.parent / "digests.json").write_text('{"all-Mi'), id="notes-torn", marks=FULL),
        pytest.param(
            lambda path: (path.parent / "digests.json").write_text("[]"), id="notes-of-another-kind", marks=FULL
        ),
    ],
)
def test_a_torn_cache_is_made_again(cache: Path, embedder: Embedder, damage: Callable[[Path], object]) -> None:
    (graph,) = cache.glob("*.onnx")
    whole = hashlib.sha256(graph.read_bytes()).digest()
    damage(graph)
    assert np.array_equal(opened(open_embedder(cache)).embed([SENTENCE]), embedder.embed([SENTENCE]))
    assert hashlib.sha256(graph.read_bytes()).digest() == whole
    assert sorted(path.suffix for path in cache.iterdir()) == [".json", ".onnx"]


def test_weights_that_changed_after_they_were_verified_are_refused(cache: Path, model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    shutil.copytree(model, copy)
    sources = Sources(copy)
    opened(open_embedder(cache, sources))
    flip(copy / "model.safetensors", 50_000_000)
    reason = refusal(open_embedder(cache, sources))
    assert str(copy / "model.safetensors") in reason
    assert "SHA-256" in reason


def test_without_a_model_the_reason_says_what_to_run(tmp_path: Path) -> None:
    reason = refusal(open_embedder(tmp_path, Sources(None, (tmp_path / "neither",))))
    assert "'dreamd models install'" in reason


def flip(path: Path, place: int) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 0x40]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def own(folder: Path, cache: Path, model: Path) -> Path:
    """The model in the form in which sentence-transformers exports one."""
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model.onnx").symlink_to(next(cache.glob("*.onnx")))
    (folder / "tokenizer.json").symlink_to(model / "tokenizer.json")
    return folder


def test_a_folder_of_the_users_own_is_taken_and_has_a_name_of_its_own(
    embedder: Embedder, cache: Path, model: Path, tmp_path: Path
) -> None:
    mine = opened(open_embedder(tmp_path / "cache", model=own(tmp_path / "multilingual", cache, model)))
    assert mine.name.startswith("multilingual@")
    assert mine.name != embedder.name
    assert mine.width == embedder.width
    assert isinstance(mine, Bert)
    plain = Calibration().centred(mine.pooled([SENTENCE], questions=False), questions=False)
    assert plain == pytest.approx(embedder.embed([SENTENCE]), abs=1e-6)
    again = opened(open_embedder(tmp_path / "cache", model=tmp_path / "multilingual"))
    assert again.calibration.scale == mine.calibration.scale != embedder.calibration.scale == (1.0, 0.0)
    assert np.array_equal(again.embed([SENTENCE]), mine.embed([SENTENCE]))


def test_the_scale_is_that_of_minilm(embedder: Embedder) -> None:
    asked, told = (embedder.embed(texts) for texts in zip(*ENGLISH, strict=True))
    cosines = asked @ told.T
    assert np.diag(cosines).mean() == pytest.approx(NEAR, abs=1e-3)
    assert cosines[~np.eye(len(ENGLISH), dtype=bool)].mean() == pytest.approx(FAR, abs=1e-3)


def test_a_folder_that_is_no_model_says_so_and_no_other_model_takes_its_place(
    cache: Path, model: Path, tmp_path: Path
) -> None:
    assert "tokenizer.json" in refusal(open_embedder(cache, model=tmp_path))
    folder = own(tmp_path / "cls", cache, model)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert "by mean" in refusal(open_embedder(cache, model=folder))
