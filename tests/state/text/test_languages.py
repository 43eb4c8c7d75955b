import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.text import common_words
from state.text.languages import loader, tables
from state.text.languages.loader import languages, table, table_of
from state.text.languages.tables import Contrasts, Phrases, either

TABLES = [kind for kind in vars(tables).values() if isinstance(kind, type) and kind.__module__ == tables.__name__]
TABLES.remove(Phrases)
WHOLE = ["en", "de", "es", "fr", "it", "ja", "pt", "ru", "zh"]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("language", WHOLE)
def test_the_nine_languages_have_every_table(language: str, kind: type[Any]) -> None:
    assert isinstance(table_of(language, kind), kind)


@pytest.mark.parametrize("kind", TABLES)
def test_all_languages_together_have_the_words_of_each(kind: type[Any]) -> None:
    every = table(kind)
    for language in languages():
        for name, hint in get_type_hints(kind).items():
            mine, all_of_them = getattr(table_of(language, kind), name), getattr(every, name)
            if hint is Phrases:
                assert {*mine.spaced} <= {*all_of_them.spaced}
                assert {*mine.unspaced} <= {*all_of_them.unspaced}
                re.compile("|".join((*mine.spaced, *mine.unspaced)))  # which nobody asks for when a file is read
            else:
                assert {*mine} <= {*all_of_them}


@pytest.mark.parametrize("language", languages())
def test_a_file_has_the_rows_of_the_tables_and_no_others(language: str) -> None:
    file = dict(loader.rows_of(Path(loader.__file__).with_name(f"{language}.json")))
    is_whole = language in WHOLE
    assert is_whole is not file.pop("partial", False)
    file.pop("spaced", True)
    for kind in TABLES:
        rows, hints = file.pop(kind.__name__.lower(), {}), get_type_hints(kind)
        optional = {field.name for field in fields(kind) if field.default_factory is not MISSING}
        assert set(rows) <= set(hints)
        assert not is_whole or set(rows) | optional == set(hints)
        for name, row in rows.items():
            for words in row if hints[name] == tables.Groups else [row]:
                assert all(isinstance(word, str) and word.strip() for word in words), name
                assert len(set(words)) == len(words), name
    assert file == {}


def test_english_comes_first_and_a_partial_language_has_what_it_has() -> None:
    assert languages()[0] == "en"
    assert "maand" in table_of("nl", Contrasts).moments
    assert table_of("nl", Contrasts).copulas == ()


def test_words_are_whole_where_there_are_spaces() -> None:
    phrases = Phrases(("no longer",), ("不再",))
    assert re.search(phrases.pattern, "it is no longer so")
    assert not re.search(phrases.pattern, "a casino longer than that")
    assert re.search(phrases.pattern, "我不再喝茶")
    assert not re.search(Phrases().pattern, "anything")


@pytest.mark.parametrize("language", languages())
def test_a_phrase_has_its_alternatives_in_brackets(language: str) -> None:
    said = [getattr(table_of(language, kind), name) for kind in TABLES for name in get_type_hints(kind)]
    phrases = [one for row in said if isinstance(row, Phrases) for one in (*row.spaced, *row.unspaced)]
    assert [one for one in phrases if one[0].isalpha() and has_open_alternatives(one)] == []


def has_open_alternatives(phrase: str) -> bool:
    """Whether a | stands outside of all brackets."""
    depth, previous = 0, ""
    for char in phrase:
        depth += (char in "([") - (char in ")]") if previous != "\\" else 0
        if char == "|" and not depth:
            return True
        previous = char
    return False


@given(st.lists(st.text("abc", min_size=1, max_size=4), min_size=1), st.text("abc ", max_size=12))
def test_phrases_that_begin_alike_are_found_as_if_they_did_not(phrases: list[str], text: str) -> None:
    together, apart = either(tuple(phrases)), "|".join(phrases)
    assert bool(re.search(rf"\b(?:{together})\b", text)) is bool(re.search(rf"\b(?:{apart})\b", text))


def test_every_language_has_commonplace_words() -> None:
    rows = loader.rows_of(Path(common_words.__file__).with_name("commonplace.json"))
    assert set(rows) == set(WHOLE)
    assert all(len(words) == len(set(words)) for words in rows.values())
    assert {"rather", "vielleicht", "quelqu'un", "问题"} <= common_words.commonplace()
    assert common_words.commonplace_in_english() == set(rows["en"])
