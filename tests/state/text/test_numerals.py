"""The numbers of a text, however they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.text.languages.loader import languages
from state.text.numerals import numbers_in, numerals_in, parts_of


def forms(text: str) -> set[str]:
    digits = set[str]().union(*(found | set[str]().union(*parts_of(match[0])) for match, found in numbers_in(text)))
    return digits | {str(value) for _, _, value in numerals_in(text)}


@pytest.mark.parametrize(
    "same",
    [
        ("9:45", "09:45", "9.45", "9h45", "9 h 45", "9 Uhr 45", "9時45", "９:４５"),
        ("17:30", "5:30 pm", "5.30 p.m.", "05:30pm"),
        ("17:00", "5 pm", "17h", "17.00", "seventeen"),
        ("1,000", "1000", "1.000", "1 000", "1'000", "one thousand", "1k"),
        ("3.5", "3.50", "3,5", "03.5"),
        ("14-20", "14 to 20", "fourteen to twenty", "14/20"),
        ("45", "forty-five", "quarante-cinq", "cuarenta y cinco", "сорок пять", "四十五"),
        ("300", "three hundred", "drei hundert", "trois cents"),
    ],
)
def test_one_number_has_many_forms(same: tuple[str, ...]) -> None:
    assert [one for one in same if not forms(same[0]) & forms(one)] == []


@pytest.mark.parametrize(
    ("one", "other"), [("9:45", "9:54"), ("1,000", "10,000"), ("3.5", "35"), ("forty", "four"), ("2.3.1", "2.31")]
)
def test_other_numbers_have_none_in_common(one: str, other: str) -> None:
    assert not forms(one) & forms(other)


@pytest.mark.parametrize("language", [rows["numerals"] for rows in languages()], ids=lambda row: row[3][0])
def test_each_language_counts(language: list[list[str]]) -> None:
    values = (*range(20), *range(20, 100, 10), 100, 1_000)
    for value, names in zip(values, language, strict=True):
        for name in names:
            assert str(value) in forms(f"- {name.upper()}, -"), name


def test_a_number_of_several_words_is_one() -> None:
    assert list(numerals_in("It has forty-five pages.")) == [(7, 17, 45)]


@given(st.text("0123456789.,:/-' kpmh۳ten\u00a0", max_size=60))
def test_any_text_is_read_and_a_number_is_where_it_says(text: str) -> None:
    for match, found in numbers_in(text):
        assert match[0][0].isdecimal()
        assert all(found)
    for start, end, value in numerals_in(text):
        assert (text[start:end].strip() == text[start:end], value >= 0) == (True, True)
