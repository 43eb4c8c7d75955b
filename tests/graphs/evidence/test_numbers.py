"""Which numbers a line may name: what was said, honestly rewritten, and nothing invented."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.evidence.numbers import NEAR_DAYS, invented, number_word
from state.text.words import numbers

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)  # a Thursday


def new(line: str, *said: str) -> tuple[str, ...]:
    return invented(line, [(text, AT) for text in said])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no number at all", "nothing"),
        ("port 8080", "the port is 8080"),
        ("8000 dollars", "8,000 dollars"),
        ("8,000 dollars", "8000 dollars"),
        ("8.50 Euro", "8,50 Euro"),
        ("10000 rows", "10k rows"),
        ("1500 rows", "1.5 k rows"),
        ("3 cats", "three cats"),
        ("3 Katzen", "drei Katzen"),
        ("3 只猫", "三只猫"),
        ("2 times", "it failed twice"),
        ("the 4th release", "the fourth release"),
        ("17:00", "at 5 pm"),
        ("17:30", "at 5:30 p.m."),
        ("5:30", "at 05:30"),
        ("lines 40 to 45", "lines 40-45"),
        ("2026-03-20", "March 20, 2026"),
        ("20 March 2026", "2026-03-20"),
        ("20.03.2026", "20. März 2026"),
        ("2026-05-04", "le 4 mai 2026"),
        ("2026-03-12", "it happened"),
        ("12 March 2026", "today"),
        ("2026-03-13", "tomorrow"),
        ("2026-03-11", "yesterday"),
        ("2026-03-17", "next Tuesday"),
        ("2026-03-19", "in a week"),
        ("2026-03-13", "morgen"),
        ("2026-03-13", "明天"),
    ],
)
def test_an_honest_rewriting_invents_nothing(line: str, said: str) -> None:
    assert new(line, said) == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("port 9090", "the port is 8080"),
        ("port 80", "the port is 8080"),
        ("version 1.5", "version 1.4"),
        ("13 cats", "three cats"),
        ("1 in 4", "one in five"),
        ("2026-03-21", "the date is 2026-03-20"),
        ("2027-03-20", "March 20, 2026"),
        ("2026-03-13", "it happened"),
        ("2026-05-01", "next Tuesday"),
        ("18:00", "at 5 pm"),
        ("5000", "5 and 000"),
        ("99%", "nearly all"),
    ],
)
def test_what_nobody_said_is_invented(line: str, said: str) -> None:
    assert new(line, said)


def test_as_many_things_may_be_counted_as_are_cited() -> None:
    three = ("CI failed", "CI failed again", "CI failed once more")
    assert new("CI failed 3 times", *three) == ()
    assert new("CI failed 4 times", *three) == ("4",)
    assert new("CI failed 2 times", *three[:1]) == ("2",)


def test_a_relative_day_is_near_the_day_on_which_it_was_said() -> None:
    earlier = datetime(2026, 1, 5, tzinfo=UTC)
    assert invented("2026-01-06", [("tomorrow", earlier)]) == ()
    assert invented("2026-03-13", [("tomorrow", earlier)]) == ("2026-03-13",)
    assert invented("2026-01-26", [("soon", earlier)]) == ()
    assert NEAR_DAYS == 21
    assert invented("2026-01-27", [("soon", earlier)]) == ("2026-01-27",)


def test_a_day_that_is_none_is_invented() -> None:
    assert new("2026-13-45", "tomorrow") == ("2026-13-45",)


def test_a_number_of_ten_thousand_digits_is_a_number() -> None:
    many = "9" * 10_000
    assert new(many, many) == ()
    assert new(many, "9") == (many,)
    assert new("1", f"{many} k {many}.5k") == ("1",)


@given(st.text(max_size=60))
def test_a_text_invents_nothing_of_itself(text: str) -> None:
    assert new(text, text) == ()


@given(st.text(max_size=40), st.text(max_size=40))
def test_only_numbers_of_the_line_are_named(line: str, said: str) -> None:
    assert set(new(line, said)) <= set(numbers(line))


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("three", "3"), ("drei", "3"), ("trois", "3"), ("tres", "3"), ("três", "3"), ("tre", "3"), ("три", "3"),
        ("三", "3"), ("三つ", "3"), ("once", "1"), ("set", None), ("due", None),
    ],
)  # fmt: skip
def test_words_spell_numbers_in_nine_languages(said: str, number: str | None) -> None:
    assert number_word(said) == number
