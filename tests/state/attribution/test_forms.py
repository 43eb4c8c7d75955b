"""Forms of a word: those that begin alike for long enough, wherever they stand, as a look at each word finds them."""

from itertools import takewhile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from state.attribution.forms import Crowd, are_forms, key_of
from state.attribution.passages import Entry, sentences, source_of
from state.attribution.sources import Voice, foreign
from state.attribution.wording import wording
from state.trust import Trust
from tests.state.detectors.timing import forget_texts

_LETTERS = st.text("abcé東1", max_size=4)
WORDS = st.builds(
    str.__add__, st.sampled_from(["", "abc", "abcd", "abcde", "ab" * 16, "día", "раб"]), _LETTERS
).filter(bool)


def alike(one: str, other: str) -> bool:
    """The definition, letter by letter."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    if len(long) > 64 or not (one.isalpha() and other.isalpha()):
        return False
    if len(short) == 3 and short.isascii():
        return long.startswith(short) and len(long) <= 6
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return len(list(shared)) >= max(4, 0.6 * len(long))


@given(WORDS, WORDS)
@example("use", "used")
@example("abcde", "abcdefgh")
@example("a" * 64, "a" * 65)
def test_two_words_are_forms_as_it_is_defined_and_have_one_key_then(one: str, other: str) -> None:
    if key_of(one) == key_of(other):
        assert are_forms(one, other) is are_forms(other, one) is alike(one, other)
    else:
        assert not alike(one, other)


@given(st.lists(WORDS, max_size=40), WORDS, st.integers(1, 6))
@example(["use", "uses", "used", "user", "usefully"], "use", 6)
def test_the_first_places_of_many_are_those_of_a_look_at_each(text: list[str], word: str, most: int) -> None:
    near = [(at, there) for at, there in enumerate(text) if key_of(there) == key_of(word)]
    assert Crowd(near).where(word, most) == [at for at, there in near if alike(word, there)][:most]


@given(st.lists(WORDS, max_size=60).map(" ".join), WORDS)
def test_a_source_finds_each_form_of_a_word_however_many_begin_like_it(text: str, asked: str) -> None:
    source = source_of(text, Entry(0.0, 0.3, 0.8))
    for word in wording(asked):
        there = [at for at, one in enumerate(source.words) if one.meaning and alike(word.text, one.text)]
        assert source.where(word) == there[:24]


@pytest.mark.parametrize("again", ["abouts paris", "cannots coffees"])
def test_a_text_that_is_spelt_as_a_sentence_of_another_is_read_by_its_own_words(again: str) -> None:
    """A folded word may be another one when it is folded again: a stop word, or two words."""
    whole = " ".join(word for word in again.split() for _ in range(18))
    [sentence] = sentences(source_of(whole, Entry(0.0, 0.3, 0.8)))
    twin = source_of(sentence.text, Entry(0.0, 0.3, 0.8))
    for source in (twin, sentence, twin):
        for word in sentence.words:
            there = [at for at, one in enumerate(source.words) if one.meaning and alike(word.text, one.text)]
            assert source.where(word) == there[:24]
    voices = [Voice(one, Trust.WEB) for one in (sentence.text, whole, sentence.text)]
    asked = (f"The {again} are closed on Monday", ["Paris is closed on Monday"], voices)
    remembered = foreign(*asked)
    forget_texts()
    assert foreign(*asked) == remembered
