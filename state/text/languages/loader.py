"""Loader of languages: the rows of words in the files of this folder, read when they are first asked for.

A file is a language, a row a list of words or, for `phrases`, of regular expressions; a language that does not part
its words by spaces says `"spaced": false`. A text may be in any language, and in several: who reads one asks for the
words of all languages together.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from state.text.words import UNSPACED

FOLDER = Path(__file__).parent
_COMMONPLACE = FOLDER.with_name("commonplace.json")


@cache
def rows_of(file: Path) -> dict[str, Any]:
    """Return the rows of words in a file. That they are what their readers expect, a test has seen."""
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
    """Return the number of each month's name, in all its forms."""
    named = (enumerate(rows.get("months", ()), 1) for rows in languages())
    return {form: number for language in named for number, forms in language for form in forms}


@cache
def phrases(*rows: str) -> re.Pattern[str]:
    """Return a regular expression for any phrase of these rows; whole words where there are spaces."""
    spaced, unspaced = alternatives(*rows)
    whole = rf"(?<!\w)(?:{spaced})(?!\w)" if spaced else ""
    return re.compile("|".join(filter(None, (whole, unspaced))) or "(?!)", re.IGNORECASE)


def alternatives(*rows: str) -> tuple[str, str]:
    """Return expressions for any phrase of these rows: of languages with spaces between words, of those without."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for language in languages():
        found[language.get("spaced", True)] += [phrase for row in rows for phrase in language.get(row, ())]
    return either(found[True]), "|".join(dict.fromkeys(found[False]))


def either(options: Iterable[str]) -> str:
    """Return a regular expression for any of these, tried together where they begin with one letter."""
    begun: dict[str, list[str]] = {}
    for phrase in dict.fromkeys(options):
        plain = phrase[0].isalpha() and phrase[1:2] not in tuple("?*+{|")
        begun.setdefault(phrase[0] if plain else phrase, []).append(phrase[1:] if plain else "")
    return "|".join(f"{letter}(?:{'|'.join(rest)})" if any(rest) else letter for letter, rest in begun.items())


@cache
def inside(row: str) -> re.Pattern[str]:
    """Return an expression for the words of this row that are written without spaces, wherever they stand."""
    return re.compile("|".join(filter(re.compile(f"[{UNSPACED}]").match, sorted(words(row)))) or "(?!)")


@cache
def commonplace() -> frozenset[str]:
    """Return the words that say little by themselves: the last choice for a pointer's keywords.

    A small store knows only a few texts, and every word is rare in it; "rather" and "please" would lead to a line as
    well as "preflight" does, until the store has grown.
    """
    return frozenset(word for words in rows_of(_COMMONPLACE).values() for word in words)


@cache
def commonplace_in_english() -> frozenset[str]:
    """Return those of English, by which the weights of what tells a secret were found."""
    return frozenset(rows_of(_COMMONPLACE)["en"])
