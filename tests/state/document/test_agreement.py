"""What several memories say alike: of at least two workspaces, whatever the order in which they are read."""

from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from state.document.agreement import FEWEST, SECTIONS, Statement, agreements
from state.text.words import normalise

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = (
    "Ada wants short answers", "Ada wants answers short", "ada WANTS short answers", "Ada wants long answers",
    "Ada lives in Berlin", "Ada lives in Munich", "東京に住んでいます", "", "the",
)  # fmt: skip


STATEMENTS = st.lists(
    st.builds(
        Statement,
        st.sampled_from(("/a", "/b", "/c")),
        st.sampled_from(SECTIONS),
        st.sampled_from(TEXTS),
        st.integers(0, 5).map(lambda days: BEGIN + timedelta(days=days)),
    ),
    max_size=12,
)


@given(STATEMENTS, st.randoms(use_true_random=False))
def test_an_agreement_has_a_statement_each_of_two_workspaces_and_the_order_does_not_matter(
    statements: list[Statement], chance: Random
) -> None:
    found = agreements(statements)
    for one in found:
        assert len({each.workspace for each in one.statements}) == len(one.statements) >= FEWEST
        assert set(one.statements) <= set(statements)
        assert {normalise(each.text) for each in one.statements} == {normalise(one.text)}
    shuffled = list(statements)
    chance.shuffle(shuffled)
    assert agreements(shuffled) == found


@given(STATEMENTS)
def test_what_two_workspaces_say_in_the_same_words_is_agreed(statements: list[Statement]) -> None:
    found = agreements(statements)
    workspaces: dict[str, set[str]] = {}
    for one in statements:
        workspaces.setdefault(normalise(one.text), set()).add(one.workspace)
    assert {normalise(one.text) for one in found} == {text for text, of in workspaces.items() if len(of) >= FEWEST}


def test_it_is_told_in_the_words_of_who_said_it_first() -> None:
    later = Statement("/a", SECTIONS[0], "ada wants SHORT answers", BEGIN + timedelta(days=2))
    first = Statement("/b", SECTIONS[1], "Ada wants short answers", BEGIN)
    (found,) = agreements([later, first])
    assert (found.text, found.section, found.statements) == (first.text, first.section, (first, later))
