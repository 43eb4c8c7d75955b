import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.forgetting.letters import letters_of
from state.text.chunks import CHUNK_TOKENS, OVERLAP_TOKENS, chunk, tokens
from state.text.words import terms


def test_a_text_that_fits_is_one_chunk() -> None:
    assert chunk("User's name is Douglas.") == ("User's name is Douglas.",)
    assert chunk(" \n ") == ()


def test_chunks_are_as_long_as_they_may_be_and_overlap() -> None:
    words = [f"word{number:04d}" for number in range(1_000)]
    chunks = chunk(" ".join(words))
    assert all(tokens(piece) <= CHUNK_TOKENS for piece in chunks)
    assert len(chunks) <= 1_000 * 2 / (CHUNK_TOKENS * 2 / 3 - OVERLAP_TOKENS) + 1
    for before, after in itertools.pairwise(chunks):
        shared = set(before.split()) & set(after.split())
        assert 0 < len(shared) * 2 <= OVERLAP_TOKENS


@pytest.mark.parametrize("said", ["日本語", "ภาษาไทย", "ພາສາລາວ", "བོད་སྐད", "မြန်မာစာ", "ភាសាខ្មែរ", "한국어"])
def test_each_sign_of_a_script_without_spaces_is_a_token(said: str) -> None:
    assert tokens(said) >= len(said) * 0.7  # marks may count with their letters
    assert tokens(f"{said}abcd") == tokens(said) + 1
    assert len(terms(said * 3)) > 3
    assert len(letters_of(said * 3).words()) > 3


def test_a_chunk_ends_at_a_paragraph_when_one_is_near_and_an_endless_word_is_cut() -> None:
    paragraph = "The bridge was slow today. " * 20
    assert all(piece.endswith("today.") for piece in chunk("\n\n".join([paragraph.strip()] * 8)))
    assert all(tokens(piece) <= CHUNK_TOKENS for piece in chunk("x" * 10_000))


@given(st.text(alphabet=st.sampled_from("ab. \n日本é-_😀"), max_size=6_000))
def test_no_character_is_lost(text: str) -> None:
    chunks, at = chunk(text), 0
    covered = [False] * len(text)
    for piece in chunks:
        assert piece
        assert tokens(piece) <= CHUNK_TOKENS
        start = text.find(piece, at)
        start = start if start >= 0 else text.find(piece)
        assert start >= 0
        at = start
        covered[start : start + len(piece)] = [True] * len(piece)
    assert all(done or character.isspace() for done, character in zip(covered, text, strict=True))
