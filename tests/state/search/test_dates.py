from datetime import UTC, datetime

import pytest

from state.search.dates import Period, periods_in

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)  # a Wednesday
# By language: a day and its year, a day, a month and its year, yesterday, last month, last year, last week.
NAMED = {
    "en": (
        "March 5, 2026",
        "on the 5th of March",
        "in August 2025",
        "yesterday",
        "last month",
        "last year",
        "last week",
    ),
    "de": (
        "am 5. März 2026",
        "am 5. März",
        "im August 2025",
        "gestern",
        "letzten Monat",
        "letztes Jahr",
        "letzte Woche",
    ),
    "fr": (
        "le 5 mars 2026",
        "le 5 mars",
        "en août 2025",
        "hier",
        "le mois dernier",
        "l'année dernière",
        "la semaine dernière",
    ),
    "es": (
        "el 5 de marzo de 2026",
        "el 5 de marzo",
        "en agosto de 2025",
        "ayer",
        "el mes pasado",
        "el año pasado",
        "la semana pasada",
    ),
    "pt": (
        "em 5 de março de 2026",
        "em 5 de março",
        "em agosto de 2025",
        "ontem",
        "no mês passado",
        "no ano passado",
        "na semana passada",
    ),
    "it": (
        "il 5 marzo 2026",
        "il 5 marzo",
        "ad agosto 2025",
        "ieri",
        "il mese scorso",
        "l'anno scorso",
        "la settimana scorsa",
    ),
    "ru": (
        "5 марта 2026",
        "5 марта",
        "в августе 2025",
        "вчера",
        "в прошлом месяце",
        "в прошлом году",
        "на прошлой неделе",
    ),
    "zh": ("2026年3月5日", "3月5号", "2025年8月", "昨天", "上个月", "去年", "上周"),
    "ja": ("2026年3月5日に", "3月5日", "2025年8月", "昨日", "先月", "去年", "先週"),
}


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
