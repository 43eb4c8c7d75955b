"""Loader of languages: reads the tables of words of one language or of all, each table once, when first asked for.

A text may be in any language, and in several: who compares texts asks for the rows of all languages together.
"""

import re
from dataclasses import MISSING, fields
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

from state.errors import ConfigError
from state.text.languages.tables import Groups, Phrases, Words

Table = TypeVar("Table")

_FOLDER = Path(__file__).parent
_HEADING = re.compile(r"^\[(\w+)\]$", re.MULTILINE)
_tables: dict[type, object] = {}


@cache
def languages() -> tuple[str, ...]:
    """The codes of all languages, English first."""
    return tuple(sorted((file.stem for file in _FOLDER.glob("*.toml")), key=lambda code: (code != "en", code)))


@cache
def _parts(language: str) -> dict[str, str]:
    """The text of each table of a language: who asks for one does not wait for the others."""
    around = _HEADING.split((_FOLDER / f"{language}.toml").read_text(encoding="utf-8"))
    return dict(zip(["", *around[1::2]], around[::2], strict=True))


@cache
def _about(language: str) -> dict[str, Any]:
    """What a file says of its language."""
    return _read(f"{language}.toml", _parts(language)[""])


def table_of(language: str, kind: type[Table]) -> Table:
    """One table of one language. Raises ConfigError that names the file and the row which is wrong."""
    file, name, parts = f"{language}.toml", kind.__name__.lower(), _parts(language)
    # That the phrases of these files are regular expressions, a test has seen.
    return _built(file, _about(language), _read(f"{file} [{name}]", parts.get(name, "")), kind)


def table(kind: type[Table]) -> Table:
    """One table with the words of all languages, each word once."""
    if kind not in _tables:
        known = [table_of(language, kind) for language in languages()]
        _tables[kind] = kind(**{name: _together(list(map(attrgetter(name), known))) for name in get_type_hints(kind)})
    return cast("Table", _tables[kind])


def _built(file: str, about: dict[str, Any], text: dict[str, Any], kind: type[Table]) -> Table:
    name, rows, hints = kind.__name__.lower(), dict(text), get_type_hints(kind)
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in rows and about.get("partial"):
            rows[field.name] = []
        elif field.name not in rows and field.default is field.default_factory is MISSING:
            raise ConfigError(f"{file}: [{name}] has no row {field.name!r}", "every language has one, if only []")
    if unknown := sorted(set(rows) - set(hints)):
        raise ConfigError(f"{file}: {unknown[0]!r} is no row of [{name}]", f"these are: {', '.join(hints)}")
    spaced = about.get("spaced", True)
    return kind(**{row: _typed(f"{file}: {row}", value, hints[row], spaced=spaced) for row, value in rows.items()})


def _read(place: str, text: str) -> dict[str, Any]:
    import tomllib  # only who asks for words waits for it

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{place} is no TOML: {error}", "correct the line, counted from its heading") from error


def _typed(place: str, value: object, hint: object, *, spaced: bool) -> Words | Groups | Phrases:
    if hint == Groups:
        if not isinstance(value, list):
            raise ConfigError(f"{place} is no list of lists", 'a row is: name = [["word", "other word"], ["third"]]')
        return tuple(_words(place, group) for group in value)
    words = _words(place, value)
    if hint == Words:
        return words
    return Phrases(spaced=words) if spaced else Phrases(unspaced=words)


def _words(place: str, value: object) -> Words:
    if not isinstance(value, list) or not all(isinstance(word, str) and word.strip() for word in value):
        raise ConfigError(f"{place} is no list of words", 'a row is: name = ["word", "other word"]')
    if twice := next((word for word in value if value.count(word) > 1), None):
        raise ConfigError(f"{place} has {twice!r} twice", "leave one of them out")
    return tuple(value)


def _together(rows: list[Any]) -> Words | Groups | Phrases:
    if isinstance(rows[0], Phrases):
        return Phrases(_together([row.spaced for row in rows]), _together([row.unspaced for row in rows]))  # type: ignore[arg-type]
    return tuple(dict.fromkeys(word for row in rows for word in row))
