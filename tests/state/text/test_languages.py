"""The files of words: each whole language has every row, and every row can be read."""

import re

import pytest

from state.text.languages.loader import (
    FOLDER,
    alternatives,
    languages,
    months,
    numerals,
    phrases,
    rows_of,
    weekdays,
    words,
)

ROWS = set(rows_of(FOLDER / "en.json"))
_NESTED = {"months", "weekdays", "numerals"}
LANGUAGES = [file.stem for file in sorted(FOLDER.glob("*.json"))]


def test_there_are_nine_languages() -> None:
    assert LANGUAGES == ["de", "en", "es", "fr", "it", "ja", "pt", "ru", "zh"]
    assert set(months().values()) == set(range(1, 13))
    assert set(weekdays().values()) == set(range(7))
    assert set(numerals().values()) == {*range(20), *range(20, 100, 10), 100, 1_000}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_file_has_the_rows_of_english_each_word_once(language: str) -> None:
    rows = dict(rows_of(FOLDER / f"{language}.json"))
    rows.pop("spaced", None)
    assert set(rows) == ROWS
    for name, row in rows.items():
        for several in row if name in _NESTED else [row]:
            assert all(isinstance(word, str) and word.strip() for word in several), name
            assert len(set(several)) == len(several), name
        if name not in {*_NESTED, "stop"}:
            re.compile("|".join(row))


@pytest.mark.parametrize("row", sorted(ROWS - _NESTED))
def test_all_languages_together_have_the_words_of_each(row: str) -> None:
    assert words(row) == {word for rows in languages() for word in rows.get(row, ())}
    assert phrases(row).pattern
    assert alternatives(row)
