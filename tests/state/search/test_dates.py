from datetime import UTC, datetime

import pytest

from state.search.dates import Period, periods_in
from tests.support.cases import cases

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)  # a Wednesday
# By language: a day and its year, a day, a month and its year, yesterday, last month, last year, last week.
NAMED: dict[str, list[str]] = cases(__file__)["NAMED"]


@pytest.mark.parametrize("language", NAMED)
def test_periods_are_read_in_nine_languages(language: str) -> None:
    dated, day, month, yesterday, last_month, last_year, last_week = (
        periods_in(said, NOW) for said in NAMED[language]
    )
    assert dated == (Period(2026, 3, 5),)
    assert day == (Period(None, 3, 5),)
    assert month == (Period(2025, 8),)
    assert yesterday == (Period(2026, 3, 17),)
    assert last_month == (Period(2026, 2),)
    assert last_year == (Period(2025),)
    assert last_week == tuple(Period(2026, 3, day) for day in range(9, 16))


@pytest.mark.parametrize("said", ["you may march on", "it is 42", "march on, jan", "the mars rover"])
def test_verbs_and_numbers_are_no_months(said: str) -> None:
    assert periods_in(said, NOW) == ()


def test_a_month_alone_has_a_capital_where_its_language_writes_one() -> None:
    assert periods_in("in May", NOW) == (Period(None, 5),)
    assert periods_in("en abril", NOW) == periods_in("в апреле", NOW) == periods_in("四月", NOW) == (Period(None, 4),)
