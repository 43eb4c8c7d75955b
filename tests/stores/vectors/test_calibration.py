"""Calibration: whatever shape a model gives its vectors, a search finds the same and says the same of it."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from state.crystals.crystal import Crystal, Origin
from state.search.ranking import Findings
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.search import Searched, search
from state.stores.database.opening import memory_database
from state.stores.vectors.calibration import PAIRS, Calibration, measure
from state.stores.vectors.embedder import Unavailable, open_embedder
from state.stores.vectors.onnx_model import OnnxModel
from tests.support.long_variants import examples

NOW = datetime(2026, 3, 12, tzinfo=UTC)
NOTES = (
    "The canary was drained on Tuesday", "Mira drained the pond behind the mill", "The cluster restarts at night",
    "Lunch is at noon in the attic", "The ferry to Lyon was sold", "An invoice for the ferry came from Lyon",
    "The replica of the cluster lost its disk", "Mira painted the attic green", "Compost goes behind the mill",
    "The harbour was measured at noon", "He sold the quartz to Mira", "Invoices are paid on Tuesday",
)  # fmt: skip
QUESTIONS = ("Who drained the pond?", "When is lunch?", "What was sold, and to whom?", "Mira's attic", "weather")
Vectors = NDArray[np.float32]
Shape = Callable[[Vectors, list[int]], Vectors]  # vectors, and a number of its own for each text


class Shaped:
    """A calibrated model: what another one, which is not, makes of texts, in another shape."""

    def __init__(self, inner: OnnxModel, known: dict[str, Vectors], shape: Shape) -> None:
        self.name, self._inner, self._known, self._shape = "shaped", inner, known, shape
        self.calibration = Calibration.read(measure(self.pooled))
        self.width = len(known[PAIRS[0][0]])

    def pooled(self, texts: Sequence[str], *, questions: bool) -> Vectors:
        for text in texts:
            if text not in self._known:
                self._known[text] = self._inner.embed([text], questions=questions)[0]
        numbers = [list(self._known).index(text) for text in texts]
        return self._shape(np.stack([self._known[text] for text in texts]), numbers)

    def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        return self.calibration.centred(self.pooled(texts, questions=questions), questions=questions)


class Searches:
    """Searches through models of other shapes, and what is found with the model as it is."""

    def __init__(self, inner: OnnxModel) -> None:
        self._inner = inner
        self._known: dict[str, Vectors] = {}
        self.plain = self.found(lambda vectors, _: vectors)

    def found(self, shape: Shape) -> list[Findings]:
        """Return what is found for each of the questions: everything, then what is likely."""
        model = Shaped(self._inner, self._known, shape)
        with closing(memory_database()) as connection:
            crystals = Crystals(connection)
            notes = [Crystal(text, Origin.SCRATCH, NOW) for text in NOTES]
            crystals.learn([replace(note, id=note.digest) for note in notes])
            crystals.vectors.embed_pending(model, len(NOTES))
            searched = Searched(crystals, model)
            both = [(True, question) for question in QUESTIONS] + [(False, question) for question in QUESTIONS]
            return [search(searched, question, NOW, everything=everything) for everything, question in both]


@pytest.fixture(scope="module")
def searches(tmp_path_factory: pytest.TempPathFactory) -> Searches:
    found = open_embedder(tmp_path_factory.mktemp("cache"))
    if not isinstance(found, OnnxModel):
        pytest.skip(found.reason if isinstance(found, Unavailable) else found.name)
    return Searches(found)


def same(one: Sequence[Findings], other: Sequence[Findings], within: float = 1e-3) -> None:
    """Assert that both find the same in the same order, leave out as many, and give about the same scores."""
    for mine, theirs in zip(one, other, strict=True):
        if within < 0.01:  # else what nearly ties may change places
            assert [hit.crystal.id for hit in mine.hits] == [hit.crystal.id for hit in theirs.hits]
        scores = {hit.crystal.id: hit.score for hit in theirs.hits}
        assert {hit.crystal.id: hit.score for hit in mine.hits} == pytest.approx(scores, abs=within)
        assert (mine.good, mine.unlikely) == (theirs.good, theirs.unlikely)


def test_the_questions_find_something_and_leave_something_out(searches: Searches) -> None:
    everything, likely = searches.plain[: len(QUESTIONS)], searches.plain[len(QUESTIONS) :]
    assert all(len(findings.hits) == 8 for findings in everything)
    assert any(findings.hits for findings in likely)
    assert any(findings.unlikely for findings in likely)


@examples(15)
@given(factor=st.floats(0.01, 100), size=st.floats(0, 20), seed=st.integers(0, 99))
def test_vectors_multiplied_and_moved_find_the_same(
    searches: Searches, factor: float, size: float, seed: int
) -> None:
    def moved(vectors: Vectors, _: list[int]) -> Vectors:
        direction = np.random.default_rng(seed).standard_normal(vectors.shape[1])
        return np.asarray(factor * (vectors + size * direction / np.linalg.norm(direction)), dtype=np.float32)

    same(searches.found(moved), searches.plain)


@examples(15)
@given(share=st.floats(0.05, 1))
def test_cosines_squeezed_towards_one_find_the_same(searches: Searches, share: float) -> None:
    """Each cosine c becomes share * c + 1 - share, as where all texts look alike to a model."""

    def squeezed(vectors: Vectors, _: list[int]) -> Vectors:
        alike = np.full((len(vectors), 1), (1 - share) ** 0.5)
        return np.asarray(np.hstack([vectors * share**0.5, alike]), dtype=np.float32)

    same(searches.found(squeezed), searches.plain)


@examples(15)
@given(share=st.floats(0.5, 1))
def test_cosines_squeezed_towards_zero_find_the_same_with_nearly_the_same_scores(
    searches: Searches, share: float
) -> None:
    """Each text has a direction of its own besides: each cosine c of two becomes about share * c."""

    def apart(vectors: Vectors, numbers: list[int]) -> Vectors:
        own = np.eye(256)[numbers]
        return np.asarray(np.hstack([vectors * share**0.5, own * (1 - share) ** 0.5]), dtype=np.float32)

    same(searches.found(apart), searches.plain, within=0.03)


def test_a_model_that_tells_no_answer_from_another_is_refused() -> None:
    with pytest.raises(ValueError, match="no nearer"):
        measure(lambda texts, questions: np.eye(len(texts), dtype=np.float32)[:: -1 if questions else 1])
