"""The last day that a note names, in the languages that people write; what is no date is none."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.search.dates import FURTHEST, last_day_named

SAID = datetime(2026, 3, 2, 9, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("It goes live on Monday 23 March; Lotte has told the members.", "2026-03-23"),
        ("Lot 3: bids opened 29 September, 11:00. Lot 4: bids opened 2 October, 10:00.", "2026-10-02"),
        ("The certificate expires 2026-03-19, noon", "2026-03-19"),
        ("port 8417, freeze until May 5th", "2026-05-05"),
        ("March 19, 2027 is too far away to lead anybody", ""),
        ("Das Angebot gilt bis 19. März 2026.", "2026-03-19"),
        ("Abgabe 06.04.2026", "2026-04-06"),
        ("Le contrat expire le 3 avril", "2026-04-03"),
        ("El plazo acaba el 3 de abril", "2026-04-03"),
        ("締め切りは3月19日です", "2026-03-19"),
        ("сдать до 19 марта", "2026-03-19"),
        ("by 5 January at the latest", "2027-01-05"),
        ("today, 2 March, is the last day", "2026-03-02"),
    ],
)
def test_the_last_day_that_a_note_names(text: str, day: str) -> None:
    assert last_day_named(text, SAID) == day


@pytest.mark.parametrize(
    "text",
    [
        "CI takes 6 min, the cache is warm for 15 min",
        "we may 3 times, set 3 lamps, sec 12",
        "python 3.13.2 on 10.0.8.5, port 8417",
        "call 0478 55 19 02",
        "due 03/04/2026, whichever of the two that is",
        "From 1 April on releases are cut by uv; since 3 March as well; ab 4. Mai auch",
        "it went out on 2026-02-27 and on 1.2.2026",
        "31.02.2026 is no day, nor is 2026-04-31",
        "tomorrow, Friday, or next week",
        "",
    ],
)
def test_what_names_no_last_day(text: str) -> None:
    assert last_day_named(text, SAID) == ""


@given(st.text(max_size=200) | st.from_regex(r"(\d{1,4}[ ./-]){1,4}(March|мая|4月1日|May)? ?\d{0,4}", fullmatch=True))
def test_any_text_names_a_day_of_the_next_year_or_none(text: str) -> None:
    day = last_day_named(text, SAID)
    assert not day or SAID.date() <= datetime.fromisoformat(day).date() <= (SAID + FURTHEST + timedelta(1)).date()
