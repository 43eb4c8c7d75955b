from hypothesis import given
from hypothesis import strategies as st

from state.text import words

TEXT = st.text(max_size=200)
SETS = st.frozensets(st.text(max_size=3), max_size=8)


@given(TEXT)
def test_normalising_twice_is_normalising_once(text: str) -> None:
    once = words.normalise(text)
    assert words.normalise(once) == once


@given(TEXT)
def test_a_normalised_text_has_the_same_words(text: str) -> None:
    assert words.terms(words.normalise(text)) == words.terms(text)


@given(TEXT)
def test_words_hold_letters_digits_and_marks_alone(text: str) -> None:
    for term in words.terms(text):
        assert term
        assert not any(char.isspace() or char in "-_.,!?`#" for char in term)


@given(SETS, SETS)
def test_jaccard_is_symmetric_and_bounded(a: frozenset[str], b: frozenset[str]) -> None:
    assert 0.0 <= words.jaccard(a, b) == words.jaccard(b, a) <= 1.0
    assert (words.jaccard(a, b) == 1.0) == (a == b and bool(a))


@given(st.text(alphabet="abcdeiglnrsy", min_size=1, max_size=12))
def test_folding_never_empties_a_word(word: str) -> None:
    assert words.stem(word)
