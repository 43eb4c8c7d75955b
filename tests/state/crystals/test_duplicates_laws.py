from hypothesis import given
from hypothesis import strategies as st

from state.crystals.duplicates import says_the_same
from state.text.words import numbers

WORD = st.sampled_from(
    "ada tea coffee over before not never was is 14 15 -5 port room the a prefers likes ? ! 东京 < >".split()
)
TEXT = st.lists(WORD, max_size=7).map(" ".join) | st.text(max_size=30)


@given(TEXT)
def test_every_text_says_the_same_as_itself(text: str) -> None:
    assert says_the_same(text, text)


@given(TEXT, TEXT)
def test_saying_the_same_is_mutual(one: str, other: str) -> None:
    assert says_the_same(one, other) == says_the_same(other, one)


@given(TEXT, TEXT)
def test_who_says_the_same_names_the_same_numbers(one: str, other: str) -> None:
    if says_the_same(one, other):
        assert sorted(numbers(one)) == sorted(numbers(other))
