"""Calibration: whatever shape a model gives its vectors, its cosines are the same on the scale of the search."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from state.stores.vectors.calibration import PAIRS, Calibration, measure
from tests.support.long_variants import examples

Vectors = NDArray[np.float32]
Shape = Callable[[Vectors, list[int]], Vectors]  # vectors, and a number of its own for each text
WIDTH = 64
# Those that are measured, and ten pairs of a question and its answer that are not.
EVERY = (*PAIRS, *((f"question {number}", f"answer {number}") for number in range(10)))


def _drawn(pairs: Sequence[tuple[str, str]]) -> dict[str, Vectors]:
    """A vector of length one for each text, near to that of the other text of its pair."""
    rng, found = np.random.default_rng(0), dict[str, Vectors]()
    for pair in pairs:
        subject = rng.standard_normal(WIDTH)
        for text in pair:
            vector = subject + rng.standard_normal(WIDTH)
            found[text] = (vector / np.linalg.norm(vector)).astype(np.float32)
    return found


DRAWN = _drawn(EVERY)
NUMBERS = {text: number for number, text in enumerate(DRAWN)}


def calibrated(shape: Shape) -> tuple[Vectors, Vectors]:
    """The cosines of every question to every answer, as a search has them, and those of answers to each other."""

    def pooled(texts: Sequence[str], *, questions: bool) -> Vectors:
        return shape(np.stack([DRAWN[text] for text in texts]), [NUMBERS[text] for text in texts])

    calibration = Calibration.read(measure(pooled))
    asked, told = (
        calibration.centred(pooled(texts, questions=questions), questions=questions)
        for texts, questions in zip(zip(*EVERY, strict=True), (True, False), strict=True)
    )
    slope, shift = calibration.scale
    return slope * (asked @ told.T) + shift, told @ told.T


PLAIN = calibrated(lambda vectors, _: vectors)


@examples(15)
@given(factor=st.floats(0.01, 100), size=st.floats(0, 20), seed=st.integers(0, 99))
def test_vectors_multiplied_and_moved_have_the_same_cosines(factor: float, size: float, seed: int) -> None:
    def moved(vectors: Vectors, _: list[int]) -> Vectors:
        direction = np.random.default_rng(seed).standard_normal(vectors.shape[1])
        return np.asarray(factor * (vectors + size * direction / np.linalg.norm(direction)), dtype=np.float32)

    for found, plain in zip(calibrated(moved), PLAIN, strict=True):
        assert found == pytest.approx(plain, abs=1e-3)


@examples(15)
@given(share=st.floats(0.05, 1))
def test_cosines_squeezed_towards_one_are_the_same(share: float) -> None:
    """Each cosine c becomes share * c + 1 - share, as where all texts look alike to a model."""

    def squeezed(vectors: Vectors, _: list[int]) -> Vectors:
        alike = np.full((len(vectors), 1), (1 - share) ** 0.5)
        return np.asarray(np.hstack([vectors * share**0.5, alike]), dtype=np.float32)

    for found, plain in zip(calibrated(squeezed), PLAIN, strict=True):
        assert found == pytest.approx(plain, abs=1e-3)


@examples(15)
@given(share=st.floats(0.5, 1))
def test_cosines_squeezed_towards_zero_are_nearly_the_same(share: float) -> None:
    """Each text has a direction of its own besides: each cosine c of two becomes about share * c."""

    def apart(vectors: Vectors, numbers: list[int]) -> Vectors:
        own = np.eye(len(DRAWN))[numbers]
        return np.asarray(np.hstack([vectors * share**0.5, own * (1 - share) ** 0.5]), dtype=np.float32)

    assert calibrated(apart)[0] == pytest.approx(PLAIN[0], abs=0.03)


def test_a_model_that_tells_no_answer_from_another_is_refused() -> None:
    with pytest.raises(ValueError, match="no nearer"):
        measure(lambda texts, questions: np.eye(len(texts), dtype=np.float32)[:: -1 if questions else 1])
