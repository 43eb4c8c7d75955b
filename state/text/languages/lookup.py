"""Lookup: whether a text has one of some words, which may be of languages that write without spaces."""

import re
from collections.abc import Collection, Iterable

from state.text.words import UNSPACED


class Lookup:
    """Words to look for: among the words of a text, and inside of it those that are written without spaces."""

    def __init__(self, words: Iterable[str]) -> None:
        unspaced = re.compile(f"[{UNSPACED}]")
        known = frozenset(words)
        inside = sorted(filter(unspaced.match, known))
        self._whole = known - set(inside)
        self._inside = re.compile("|".join(map(re.escape, inside)) or "(?!)")

    def is_in(self, text: str, spoken: Collection[str]) -> bool:
        """Whether one is among the words of this text, or inside of it."""
        return not self._whole.isdisjoint(spoken) or (not text.isascii() and bool(self._inside.search(text)))
