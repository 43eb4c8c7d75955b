"""Loader of languages: reads the tables of words of one language or of all, each table once, when first asked for.

A text may be in any language, and in several: who compares texts asks for the rows of all languages together.
"""

import json
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

from state.text.languages.tables import Groups, Phrases, Words

Table = TypeVar("Table")

_FOLDER = Path(__file__).parent
_tables: dict[type, object] = {}


@cache
def languages() -> tuple[str, ...]:
    """Return the codes of all languages, English first."""
    return tuple(sorted((file.stem for file in _FOLDER.glob("*.json")), key=lambda code: (code != "en", code)))


@cache
def rows_of(file: Path) -> dict[str, Any]:
    """Return the rows of words in a file. That they are what their tables say, a test has seen."""
    rows: dict[str, Any] = json.loads(file.read_bytes())
    return rows


def table_of(language: str, kind: type[Table]) -> Table:
    """Return one table of one language; a row that the language lacks is empty."""
    file = rows_of(_FOLDER / f"{language}.json")
    rows, name = file.get(kind.__name__.lower(), {}), "spaced" if file.get("spaced", True) else "unspaced"
    return kind(**{row: _typed(rows.get(row, ()), hint, name) for row, hint in get_type_hints(kind).items()})


def table(kind: type[Table]) -> Table:
    """Return one table with the words of all languages, each word once."""
    if kind not in _tables:
        known = [table_of(language, kind) for language in languages()]
        _tables[kind] = kind(**{name: _together(list(map(attrgetter(name), known))) for name in get_type_hints(kind)})
    return cast("Table", _tables[kind])


def _typed(words: Any, hint: object, name: str) -> Words | Groups | Phrases:  # noqa: ANN401 - of JSON
    if hint == Groups:
        return tuple(map(tuple, words))
    return tuple(words) if hint == Words else Phrases(**{name: tuple(words)})


def _together(rows: list[Any]) -> Words | Groups | Phrases:
    if isinstance(rows[0], Phrases):
        return Phrases(*(_together([getattr(row, name) for row in rows]) for name in ("spaced", "unspaced")))  # type: ignore[arg-type]
    return tuple(dict.fromkeys(word for row in rows for word in row))
