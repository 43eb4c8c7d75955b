from hypothesis import given
from hypothesis import strategies as st

from state.crystals.contradiction import contradicts

PHRASE = (
    "user likes does not never tabs spaces over is deadline March 20 25 the a in Berlin 不 是 喜欢 . : nicht n't 8080"
)
WORDS = st.sampled_from(PHRASE.split())
TEXT = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=10).map(" ".join))


@given(TEXT)
def test_nothing_contradicts_itself(text: str) -> None:
    assert not contradicts(text, text)
    assert not contradicts(text, text.upper() + "  ")


@given(TEXT, TEXT)
def test_contradiction_is_symmetric(one: str, other: str) -> None:
    assert contradicts(one, other) == contradicts(other, one)
