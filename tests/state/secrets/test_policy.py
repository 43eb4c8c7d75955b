"""What is let through without a rule being read holds no secret; what a rule would find is never let through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.secrets.languages import vocabulary
from state.secrets.policy import NOUNS, Redaction, is_plain
from state.secrets.redaction import redact
from tests.redteam.corpus import CORPORA, drawn
from tests.state.secrets.plain_nouns import written
from tests.support.long_variants import examples

# Of what plain texts are made, and the nouns and keywords that make one worth reading.
WORDS = st.sampled_from([*vocabulary().spelled, *vocabulary().tells, *vocabulary().leads])
PIECES = st.one_of(
    WORDS,
    WORDS.map(str.title),
    st.from_regex(r"[A-Z]?[a-z]{1,9}|[A-Z]{1,5}|\d{1,6}|\d{1,2}:\d\d", fullmatch=True),
    st.sampled_from(["kartoffel", "Correct", "horse", "mypw", "is", "to", "zebra", "abandon", "ability"]),
)
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from([" ", ", ", ". ", "-", "\n", " is "])), max_size=16).map(
    lambda pairs: "".join(piece + gap for piece, gap in pairs)
)
FILES = sorted({*CORPORA.glob("secrets_*.jsonl"), *CORPORA.glob("harmless_[abcp]*.jsonl")})


@examples(400)
@given(TEXTS)
def test_a_plain_text_holds_nothing_that_a_rule_finds(text: str) -> None:
    assert not (is_plain(text) and redact(text).found)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_plain_text_of_the_corpora_holds_nothing_that_a_rule_finds(file: object) -> None:
    texts = [text for _, _, text, _ in drawn(CORPORA / str(file), seed=1)]
    rows = [row for text in texts for row in (text, *text.splitlines())]
    assert [row for row in rows if is_plain(row) and redact(row).found] == []


@pytest.mark.parametrize(
    "text", ["the admin password is correcthorse", "mypw kartoffel", "the wi-fi is kartoffel", "pin 4711"]
)
def test_what_is_named_in_plain_words_is_no_plain_text(text: str) -> None:
    assert not is_plain(text)


def test_the_nouns_of_plain_texts_are_those_of_all_languages() -> None:
    assert NOUNS.read_text() == written(), "python -m tests.state.secrets.plain_nouns"


def test_what_stands_in_the_clear_in_a_redacted_input_is_no_secret_in_what_is_made_of_it() -> None:
    told = "The password is honeycomb. The PIN is 4711."
    redaction = Redaction()
    assert redaction.of(told, known=["We keep honeycomb in the shop.", "room 14711"]) == (
        "The password is honeycomb. The PIN is [redacted: pin]."
    )
    assert redaction.of(told, known=[redaction.of(told)]) == redaction.of(told) != told
    assert redaction.of(told, known=["honeycombs"]) == redaction.of(told)
