"""Forms of a word: those that begin alike for long enough, wherever they stand, as a look at each word finds them."""

from itertools import takewhile

from hypothesis import example, given
from hypothesis import strategies as st

from state.attribution.forms import Forms

_LETTERS = st.text("abcé東1", max_size=4)
WORDS = st.builds(
    str.__add__, st.sampled_from(["", "abc", "abcd", "abcde", "ab" * 16, "día", "раб"]), _LETTERS
).filter(bool)


def are_forms(one: str, other: str) -> bool:
    """The same of two words, without an index."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    if len(long) > 64 or not (one.isalpha() and other.isalpha()):
        return False
    if len(short) == 3 and short.isascii():
        return long.startswith(short) and len(long) <= 6
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return len(list(alike)) >= max(4, 0.6 * len(long))


@given(st.lists(WORDS, max_size=40), WORDS, st.integers(1, 6))
@example(["use", "uses", "used", "user", "usefully"], "use", 6)
@example(["abcde"], "abcdefgh", 1)
@example(["a" * 64, "a" * 65], "a" * 64 + "b", 2)
def test_the_first_places_are_those_of_a_look_at_each_word(text: list[str], word: str, most: int) -> None:
    found = Forms.of(enumerate(text)).where(word, most)
    assert found == [at for at, there in enumerate(text) if are_forms(word, there)][:most]


@given(st.lists(WORDS, max_size=20))
def test_a_word_is_a_form_of_another_as_that_one_is_of_it(text: list[str]) -> None:
    forms = [set(Forms.of(enumerate(text)).where(word, len(text))) for word in text]
    assert all(at in forms[other] for at, others in enumerate(forms) for other in others)
