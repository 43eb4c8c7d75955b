"""Common words: words that say little by themselves: the last choice for a pointer's keywords.

A small store knows only a few texts, and every word is rare in it; "rather" and "please" would lead to a line as
well as "preflight" does, until the store has grown.
"""

from functools import cache
from pathlib import Path

from state.text.languages.loader import rows_of

_FILE = Path(__file__).with_name("commonplace.json")


@cache
def commonplace() -> frozenset[str]:
    """Return those of all languages."""
    return frozenset(word for words in rows_of(_FILE).values() for word in words)


@cache
def commonplace_in_english() -> frozenset[str]:
    """Return those of English, by which the weights of what tells a secret were found."""
    return frozenset(rows_of(_FILE)["en"])
