"""The embedder that remembers: the same vectors, computed once."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from daemon.workspace.vector_index import CachedEmbedder

TEXTS = st.lists(st.sampled_from("abcdefgh"), max_size=6)


class Counting:
    """One number per text, and a list of what was asked for."""

    name = "counting"
    width = 2

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], *, questions: bool = False) -> NDArray[np.float32]:  # noqa: ARG002
        self.asked += texts
        return np.array([[ord(text), 1.0] for text in texts], dtype=np.float32).reshape(len(texts), 2)


@given(st.lists(TEXTS, max_size=8), st.integers(1, 10))
def test_the_vectors_are_those_of_the_embedder_below(calls: list[list[str]], most: int) -> None:
    remembering = CachedEmbedder(Counting(), most)
    for texts in calls:
        assert remembering.embed(texts).tolist() == Counting().embed(texts).tolist()


def test_a_text_is_embedded_once() -> None:
    below = Counting()
    remembering = CachedEmbedder(below)
    remembering.embed(["a", "b", "a"])
    remembering.embed(["b", "c"])
    assert below.asked == ["a", "b", "c"]


def test_only_the_last_texts_are_remembered() -> None:
    below = Counting()
    remembering = CachedEmbedder(below, texts=2)
    remembering.embed(["a", "b", "c"])
    remembering.embed(["c"])
    remembering.embed(["a"])
    assert below.asked == ["a", "b", "c", "a"]


def test_a_remembered_vector_is_not_changed_through_an_answer() -> None:
    remembering = CachedEmbedder(Counting())
    remembering.embed(["a"])[0, 0] = 0.0
    assert remembering.embed(["a"])[0, 0] == pytest.approx(ord("a"))


def test_it_has_the_name_of_the_embedder_below() -> None:
    assert CachedEmbedder(Counting()).name == "counting"
