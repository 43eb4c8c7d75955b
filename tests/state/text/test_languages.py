import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from state.text.languages import loader, tables
from state.text.languages.loader import languages, table, table_of
from state.text.languages.tables import Phrases

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
