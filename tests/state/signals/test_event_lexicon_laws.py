from hypothesis import given
from hypothesis import strategies as st

from state.signals.event_lexicon import feelings_in
from state.signals.hormones import Feeling

PHRASE = "it works does not the bug fixed failed thanks urgent , . ? if never no errors 成功 没有 nicht \n `x`"
WORDS = st.sampled_from(PHRASE.split(" "))


@given(st.one_of(st.text(max_size=80), st.lists(WORDS, max_size=12).map(" ".join)))
def test_each_feeling_comes_once_and_in_order(text: str) -> None:
    found = feelings_in(text)
    assert list(found) == [feeling for feeling in Feeling if feeling in found]


@given(st.lists(WORDS, max_size=8).map(" ".join))
def test_another_sentence_takes_no_feeling_away(text: str) -> None:
    calm = "User prefers tabs."
    assert set(feelings_in(f"{calm}\n{text}")) == set(feelings_in(text)) | set(feelings_in(calm))
