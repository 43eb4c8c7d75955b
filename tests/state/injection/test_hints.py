"""Hints are never wrong: what a pattern matches has one of its hints."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hints import hints as hints_to_store
from state.injection.decoding import folded
from state.injection.features import signs
from state.injection.hints import STORED, Hints, Pieces, read_off
from state.injection.patterns import spoken_patterns, written_patterns
from tests.support.poison import HONEST, POISONED
from tests.support.poison_corpus import POISONED as BY_KIND

TABLES: list[tuple[re.Pattern[str], Hints]] = [
    *((one.pattern, one.hints) for one in (*written_patterns(), *spoken_patterns())),
    *((one.pattern, one.hints) for one in signs()),
]


# Patterns in miniature: literals, alternatives, options, repetition, groups.
PATTERNS = st.recursive(
    st.sampled_from(
        ["abc", "bcd", "ab", "x", "[ab]", "x?", "y*", r"\b", ".{0,3}", "(?:ab|abd|x)", "(?>cd)", "(?=a)"]
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["?", "*", "+", "{2,3}", "{0,2}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.text("abcdxy ", max_size=30))
def test_whatever_a_pattern_matches_has_one_of_its_hints(pattern: str, text: str) -> None:
    assert re.search(pattern, text) is None or Pieces(text).may_match(read_off(pattern))


def test_no_text_of_the_corpora_loses_a_match() -> None:
    texts = [one.text for one in POISONED] + [one.text for one in HONEST]
    texts += [text for texts in BY_KIND.values() for text in texts]
    for read in map(folded, texts):
        pieces = Pieces(read)
        assert [one.pattern for one, hints in TABLES if one.search(read) and not pieces.may_match(hints)] == []


def test_most_patterns_have_hints() -> None:
    assert sum(bool(hints) for _, hints in TABLES) >= 0.9 * len(TABLES)


@pytest.mark.parametrize(
    ("pattern", "hints"),
    [
        (r"\b(?:ignore|disregard)\b.{0,9}rules?", {"rule"}),
        (r"(?:yes|no)+", {"yes", "no"}),
        (r"(?:yes|x?)z", set()),
        (r"a*b?c{0,2}(?=abcd)", set()),
        (r"(?>inner)[ab]", {"inner"}),
    ],
)
def test_hints_are_read_off_a_pattern(pattern: str, hints: set[str]) -> None:
    assert read_off(pattern) == hints


def test_the_stored_hints_are_those_of_the_tables() -> None:
    assert json.loads(STORED.read_text("utf-8")) == hints_to_store(), "python -m benchmarks.hints writes them anew"
