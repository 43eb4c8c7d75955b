"""How the values of a line changed from one wording to the next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes.values import through_time, values_in


@pytest.mark.parametrize(
    ("wordings", "values"),
    [
        (
            [
                "frl_nightly starts at 02:15 and takes 40 minutes.",
                "frl_nightly starts at 03:10, for Baltix is late; 40 minutes.",
                "frl_nightly starts at 02:30 Hamburg time; 40 minutes.",
            ],
            ("02:15", "03:10", "02:30"),
        ),
        (["Rent is 900 €", "Rent is 1,020 € from May", "The rent is 1020 € from May"], ("900", "1,020", "1020")),
        (["Standup on Mondays", "Standup on Mondays and Wednesdays"], ("", "")),
        (["Lives with Ada in Bonn", "Lives with Ada in Köln"], ("Bonn", "Köln")),
        (["Due 3 May", "Due 3 May, certainly", "Due 9 May"], ("3 May", "3 May", "9 May")),
        (["Likes tea", "Likes coffee"], ("", "")),
        (["Port 80"], ("",)),
        ([], ()),
    ],
)
def test_the_kind_of_value_that_changed_is_told_for_each_wording(
    wordings: list[str], values: tuple[str, ...]
) -> None:
    assert through_time(wordings) == values


@given(st.text("Ab 0129:.,-/@_`三月日mondayfriday\n", max_size=80))
def test_values_are_apart_and_say_what_the_text_says(text: str) -> None:
    spans = sorted((one.span, one.text) for one in values_in(text))
    assert [text[span.start : span.end] for span, _ in spans] == [said for _, said in spans]
    ends = [place for span, _ in spans for place in (span.start, span.end)]
    assert ends == sorted(ends)
