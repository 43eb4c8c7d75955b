"""What is looked up by how it begins, or read backwards, is what the plain search finds."""

import re

from hypothesis import given
from hypothesis import strategies as st

from state.secrets.languages import Noun
from state.secrets.policy import _beginnings, _nouns
from state.secrets.rules import every
from state.secrets.told.candidates import REACH_AHEAD, REACH_BEHIND, _beside
from state.secrets.told.mentions import Mention

KEYWORDS = sorted({keyword for entry in every() for keyword in entry.keywords})
LAST = re.compile(r"([^\W_]+(?:['’][^\W_]+)?)[\s>*_]*$")
pieces = st.lists(st.sampled_from(KEYWORDS) | st.text(max_size=5), max_size=6).map("".join).map(str.lower)


@given(st.data())
def test_a_noun_anywhere_in_a_text_is_found_by_its_beginning(data: st.DataObject) -> None:
    long = _nouns()[1]
    nouns = [noun for of in long.values() for noun in of]
    text = data.draw(st.lists(st.sampled_from(nouns) | st.text("abnopqrst", max_size=6), max_size=4).map("".join))
    found = any(noun in text for begin in _beginnings(text) & long.keys() for noun in long[begin])
    assert found is any(noun in text for noun in nouns)


@given(
    st.lists(st.tuples(st.integers(0, 120), st.integers(1, 12)), max_size=8), st.integers(0, 500), st.integers(1, 9)
)
def test_the_nouns_beside_a_candidate_are_those_in_reach(gaps: list[tuple[int, int]], start: int, size: int) -> None:
    found, at, end = list[Mention](), 0, start + size
    for gap, length in gaps:
        found.append(Mention(Noun.KEY, at + gap, at + gap + length, "key"))
        at = found[-1].end
    number = sum(one.start <= start for one in found)
    behind = [one for one in found[max(0, number - 4) : number] if 0 <= start - one.end <= REACH_BEHIND]
    ahead = [one for one in found[number : number + 1] if 0 <= one.start - end <= REACH_AHEAD]
    before, after, earlier = _beside(found, number, start, end)
    assert [*earlier, *filter(None, (before,))] == behind
    assert [*filter(None, (after,))] == ahead
