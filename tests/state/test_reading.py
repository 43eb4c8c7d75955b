"""What of MEMORY.md an agent is given: every line in it, and no row that tells it nothing."""

import json

from hypothesis import given
from hypothesis import strategies as st

from state.document.document import blank, parse, render
from state.document.sections import SKILL_GUIDE, TITLE
from state.reading import Reading, as_given, left_out

LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=80), max_size=12)
ROWS = LINES.map("\n".join)
SKILL = "- reviews a migration → Confidence: 59% | Occurrences: 3"
EMPTY = render(blank())


def test_of_a_new_memory_nothing_is_given() -> None:
    assert as_given(EMPTY).strip() == ""


def test_what_is_counted_and_when_the_dream_was_is_not_given() -> None:
    memory = EMPTY.replace("## The Bond\n\n_Nothing yet._", "## The Bond\n\n- Mira reviews.").replace(
        SKILL_GUIDE, f"{SKILL_GUIDE}\n\n{SKILL}"
    )
    assert as_given(memory).strip() == "## The Bond\n\n- Mira reviews."


def test_a_line_of_the_owners_among_what_is_counted_is_given() -> None:
    memory = f"{TITLE}\n\n## Emerging Skills\n\n{SKILL}\n- I teach it Dutch.\n"
    assert as_given(memory) == "## Emerging Skills\n\n- I teach it Dutch.\n"


@given(st.text(max_size=40) | st.recursive(st.integers() | st.text(), st.lists).map(json.dumps))
def test_what_session_starts_know_is_read_as_it_was_written_and_else_nothing(damaged: str) -> None:
    reading = Reading((3, 1), ((2, "12 Nov"),))
    assert Reading.decoded(reading.encoded()) == reading
    assert isinstance(Reading.decoded(damaged), Reading)


def test_a_text_of_the_owners_of_a_last_dream_is_given() -> None:
    memory = "# About us\n\nLast dream: a house by the sea.\n"
    assert as_given(memory) == memory


@given(ROWS, ROWS)
def test_every_line_is_given_in_its_order(above: str, within: str) -> None:
    memory = f"{above}\n\n{EMPTY.replace('_Nothing yet._', within, 1)}"
    given_ = as_given(memory)
    assert [one.text for _, one in parse(given_).lines()] == [one.text for _, one in parse(memory).lines()]
    assert as_given(given_).split() == given_.split()
    omitted = left_out(memory)
    rows = memory.split("\n")
    assert [row for row in given_.split("\n") if row.strip()] == [
        row for at, row in enumerate(rows) if row.strip() and at not in omitted
    ]
