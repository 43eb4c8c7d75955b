"""Common words: words that say little by themselves: the last choice for a pointer's keywords.

A small store knows only a few texts, and every word is rare in it; "rather" and "please" would lead to a line as
well as "preflight" does, until the store has grown.
"""

from functools import cache
from pathlib import Path

from state.text.languages.rows import word_rows

_FILE = Path(__file__).with_name("commonplace.toml")


@cache
def commonplace() -> frozenset[str]:
    """Those of all languages."""
    return frozenset(word for words in _rows().values() for word in words)


@cache
def commonplace_in_english() -> frozenset[str]:
    """Those of English, by which the weights of what tells a secret were found."""
    return frozenset(_rows()["en"])


@cache
def _rows() -> dict[str, list[str]]:
    return word_rows(_FILE.name, _FILE.read_text(encoding="utf-8"))
