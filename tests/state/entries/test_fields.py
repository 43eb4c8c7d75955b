"""Which texts of an entry are compared: as LangGraph reads the same paths."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base.embed import get_text_at_path

from state.entries.fields import LONGEST_TEXT, MOST_TEXTS, texts_of
from tests.support.long_variants import examples

names = st.sampled_from(["a", "b", "c d"])
values = st.dictionaries(
    names,
    st.recursive(
        st.text(max_size=3) | st.integers(0, 9) | st.none() | st.lists(st.text(max_size=3), max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=8,
    ),
)
steps = st.lists(
    names.map(lambda name: f".{name}") | st.sampled_from(["[0]", "[-1]", "[*]", ".*", "[x]", ".{a,b.c d}"]),
    min_size=1,
    max_size=4,
)


@examples(200)
@given(values, steps)
def test_a_path_leads_where_it_leads_in_langgraph(value: dict[str, object], steps: list[str]) -> None:
    path = "".join(steps).lstrip(".")
    # Behind {…} lists are read otherwise there: with {a}.{b} an empty list at a is a text.
    if any("{" in step for step in steps[:-1]):
        return
    assert texts_of(value, [path]) == tuple(dict.fromkeys(get_text_at_path(value, path)))[:MOST_TEXTS]


def test_the_whole_value_and_bounds() -> None:
    assert texts_of({"b": 1, "a": "é"}, ["$"]) == ('{"a": "é", "b": 1}',)
    assert texts_of({"a": [str(n) for n in range(99)]}, ["a[*]", "a"]) == tuple(map(str, range(MOST_TEXTS)))
    assert [len(text) for text in texts_of({"a": "x" * 10_000}, ["a"])] == [LONGEST_TEXT]


@pytest.mark.parametrize("path", ["[", "]", "{", "a[", "a..b", "[99999999999999999999]", "a.b.c", "{}", "x" * 1_000])
def test_no_path_does_harm(path: str) -> None:
    texts_of({"a": [1]}, [path])


@pytest.mark.parametrize("end", ["", ".b"])
def test_a_path_that_leads_to_a_million_places_is_followed_for_a_moment(end: str) -> None:
    value: dict[str, object] = {"c": "x" * 100_000}
    for _ in range(100):
        value = {"a": value}
    began = time.process_time()
    texts_of(value, [".".join(["{a,a}"] * 100) + end])
    assert time.process_time() - began < 5
