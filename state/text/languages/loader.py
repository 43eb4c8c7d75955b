"""Loader of languages: the rows of words in the files of this folder, read at first use.

A file is a language, a row a list of words or, for `phrases`, of regular expressions. A language that does not
separate words by spaces has `"spaced": false`. A text may be in any language or in several, so callers get the words
of all languages together.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from state.text.patterns import UNSPACED

FOLDER = Path(__file__).parent
_COMMONPLACE = FOLDER.with_name("commonplace.json")


@cache
def rows_of(file: Path) -> dict[str, Any]:
    """Return the rows of words in a file. A test verifies that the files have the expected shape."""
    rows: dict[str, Any] = json.loads(file.read_bytes())
    return rows


@cache
def languages() -> tuple[dict[str, Any], ...]:
    """Return the rows of each language, English first."""
    files = sorted(FOLDER.glob("*.json"), key=lambda file: (file.stem != "en", file.stem))
    return tuple(map(rows_of, files))


@cache
def words(row: str) -> frozenset[str]:
    """Return the words of this row in all languages."""
    return frozenset(word for rows in languages() for word in rows.get(row, ()))


@cache
def months() -> dict[str, int]:
    """Return the month number of each form of a month's name."""
    named = (enumerate(rows.get("months", ()), 1) for rows in languages())
    return {form: number for language in named for number, forms in language for form in forms}


@cache
def weekdays() -> dict[str, int]:
    """Return the weekday of each form of its name; Monday is 0."""
    named = (enumerate(rows.get("weekdays", ())) for rows in languages())
    return {form: number for language in named for number, forms in language for form in forms}


@cache
def numerals() -> dict[str, int]:
    """Return the number of each numeral: 0 to 20, the tens, hundred, thousand."""
    values = (*range(20), *range(20, 100, 10), 100, 1_000)
    named = (zip(values, rows.get("numerals", ()), strict=False) for rows in languages())
    return {form: number for language in named for number, forms in language for form in forms}


@cache
def phrases(*rows: str) -> re.Pattern[str]:
    """Return a pattern for any phrase of these rows, as whole words in languages with spaces."""
    spaced, unspaced = alternatives(*rows)
    whole = rf"(?<!\w)(?:{spaced})(?!\w)" if spaced else ""
    return re.compile("|".join(filter(None, (whole, unspaced))) or "(?!)", re.IGNORECASE)


def alternatives(*rows: str) -> tuple[str, str]:
    """Return expressions for the phrases of these rows: (languages with spaces, languages without)."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for language in languages():
        found[language.get("spaced", True)] += [phrase for row in rows for phrase in language.get(row, ())]
    return either(found[True]), "|".join(dict.fromkeys(found[False]))


def either(options: Iterable[str]) -> str:
    """Return a regular expression for any of these, grouped by their first letter for speed."""
    begun: dict[str, list[str]] = {}
    for phrase in dict.fromkeys(options):
        plain = phrase[0].isalpha() and phrase[1:2] not in tuple("?*+{|")
        begun.setdefault(phrase[0] if plain else phrase, []).append(phrase[1:] if plain else "")
    return "|".join(f"{letter}(?:{'|'.join(rest)})" if any(rest) else letter for letter, rest in begun.items())


@cache
def inside(row: str) -> re.Pattern[str]:
    """Return a pattern for the words of this row in scripts without spaces, at any position."""
    return re.compile("|".join(filter(re.compile(f"[{UNSPACED}]").match, sorted(words(row)))) or "(?!)")


@cache
def commonplace() -> frozenset[str]:
    """Return words that say little by themselves: the last choice for a pointer's keywords.

    In a small store every word is rare: "rather" and "please" would lead to a line as well as "preflight", until the
    store has grown.
    """
    return frozenset(word for words in rows_of(_COMMONPLACE).values() for word in words)


@cache
def commonplace_in_english() -> frozenset[str]:
    """Return the English ones, with which the weights of the secret detector were fitted."""
    return frozenset(rows_of(_COMMONPLACE)["en"])
