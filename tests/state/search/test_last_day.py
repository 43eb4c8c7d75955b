"""The last day that a note names, in the languages that people write; what is no date is none."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.search.dates import FURTHEST, last_day_named
from tests.support.cases import cases

CASES = cases(__file__)

SAID = datetime(2026, 3, 2, 9, 12, tzinfo=UTC)


@pytest.mark.parametrize(("text", "day"), CASES["the_last_day_that_a_note_names"])
def test_the_last_day_that_a_note_names(text: str, day: str) -> None:
    assert last_day_named(text, SAID) == day


@pytest.mark.parametrize("text", CASES["what_names_no_last_day"])
def test_what_names_no_last_day(text: str) -> None:
    assert last_day_named(text, SAID) == ""


@given(st.text(max_size=200) | st.from_regex(r"(\d{1,4}[ ./-]){1,4}(March|мая|4月1日|May)? ?\d{0,4}", fullmatch=True))
def test_any_text_names_a_day_of_the_next_year_or_none(text: str) -> None:
    day = last_day_named(text, SAID)
    assert not day or SAID.date() <= datetime.fromisoformat(day).date() <= (SAID + FURTHEST + timedelta(1)).date()
