"""What is looked up by how it begins, or read backwards, is what the plain search finds."""

import re

from hypothesis import given
from hypothesis import strategies as st

from state.secrets.policy import _beginnings, _nouns
from state.secrets.rules import _met, every, ours
from state.secrets.value import _BEHIND_WORDS, last_word

KEYWORDS = sorted({keyword for entry in every() for keyword in entry.keywords})
LAST = re.compile(r"([^\W_]+(?:['’][^\W_]+)?)[\s>*_]*$")
pieces = st.lists(st.sampled_from(KEYWORDS) | st.text(max_size=5), max_size=6).map("".join).map(str.lower)


@given(pieces)
def test_the_rules_that_are_tried_are_those_of_which_a_keyword_stands_in_the_text(text: str) -> None:
    for entries in (ours, every):
        plain = [entry for entry in entries() if any(keyword in text for keyword in entry.keywords)]
        assert list(_met(text, entries)) == [rule for entry in plain if (rule := entry.read(entry.written))]


@given(st.text("ab'’_>* \n\u00a0é密9.", max_size=12) | st.text(max_size=12))
def test_the_last_word_is_what_an_expression_finds(text: str) -> None:
    match = LAST.search(text)
    assert last_word(text)[0] == (match[1] if match else "")
    assert not match or last_word(text)[1] == match.start()


def test_every_blank_may_stand_behind_a_word() -> None:
    blanks = {character for character in map(chr, range(0x11_0000)) if character.isspace()}
    assert set(_BEHIND_WORDS) == blanks | set(">*_")


@given(st.data())
def test_a_noun_anywhere_in_a_text_is_found_by_its_beginning(data: st.DataObject) -> None:
    long = _nouns()[1]
    nouns = [noun for of in long.values() for noun in of]
    text = data.draw(st.lists(st.sampled_from(nouns) | st.text("abnopqrst", max_size=6), max_size=4).map("".join))
    found = any(noun in text for begin in _beginnings(text) & long.keys() for noun in long[begin])
    assert found is any(noun in text for noun in nouns)
