from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.search.dates import Period, periods_in
from state.search.query import asks_again, names_in, read_question
from tests.support.cases import cases

CASES = cases(__file__)

NOW = datetime(2026, 3, 12, 15, 30, tzinfo=UTC)  # a Thursday


@pytest.mark.parametrize(
    ("text", "periods"),
    [
        ("what happened on 2026-03-02?", [Period(2026, 3, 2)]),
        ("in 2026-03", [Period(2026, 3)]),
        ("the 5th of July, 2022 and 8 May", [Period(2022, 7, 5), Period(None, 5, 8)]),
        ("July 4, 2023", [Period(2023, 7, 4)]),
        ("dec 2021 or August 2020", [Period(2021, 12), Period(2020, 8)]),
        ("What did we do in May?", [Period(None, 5)]),
        ("back in 2019", [Period(2019)]),
        ("yesterday or today", [Period(2026, 3, 11), Period(2026, 3, 12)]),
        ("last month", [Period(2026, 2)]),
        ("Last year", [Period(2025)]),
        ("this week", [Period(2026, 3, day) for day in range(9, 16)]),
        ("last week", [Period(2026, 3, day) for day in range(2, 9)]),
        ("2026-13-40 is no date, but a year", [Period(2026)]),
    ],
)
def test_a_time_is_read_as_it_was_said(text: str, periods: list[Period]) -> None:
    assert list(periods_in(text, NOW)) == periods


def test_a_day_fits_best_and_the_rest_of_its_month_half() -> None:
    day = Period(2026, 3, 2)
    moments = [datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 20, tzinfo=UTC), datetime(2025, 3, 2, tzinfo=UTC)]
    assert [day.fit(moment) for moment in moments] == [1.0, 0.5, 0.0]
    assert Period(None, 5).fit(datetime(1999, 5, 1, tzinfo=UTC)) == 0.5


def test_the_names_of_speakers_are_in_neither_the_words_nor_the_topic() -> None:
    question = read_question("When did Mira's replica fail, according to Tom?", ["Mira"], NOW)
    assert question.words == ("replica", "fail", "according", "tom")
    assert question.topic == "When did replica fail, according to Tom?"
    assert question.names == {"Mira"}


def test_a_name_alone_is_what_is_asked_for() -> None:
    question = read_question("Mira?", ["Mira"], NOW)
    assert question.words == ("mira",)
    assert question.topic == "Mira?"


def test_a_pasted_page_asks_for_its_first_words_only() -> None:
    page = " ".join(f"word{number}" for number in range(5_000))
    assert len(read_question(page, [], NOW).words) == 64


@given(st.text())
def test_any_string_is_a_question(text: str) -> None:
    question = read_question(text, names_in(text), NOW)
    question.topic.encode()
    assert len(question.words) == len(set(question.words))


@pytest.mark.parametrize(("text", "again"), CASES["what_merely_asks_the_same_is_told_from_what_says_something"])
def test_what_merely_asks_the_same_is_told_from_what_says_something(text: str, *, again: bool) -> None:
    assert asks_again("what is the name of Ada's cat?", text) == again


def test_half_a_character_is_replaced_since_no_store_could_look_it_up() -> None:
    assert read_question("a\ud83d broken pipe", [], NOW).topic == "a? broken pipe"


@pytest.mark.parametrize(("text", "speaks"), CASES["a_question_that_speaks_to_the_agent_asks_for_its_replies"])
def test_a_question_that_speaks_to_the_agent_asks_for_its_replies(text: str, *, speaks: bool) -> None:
    assert read_question(text, (), NOW).asks_reply is speaks
