"""Letters: a text as its folded letters and digits, with their positions, and where its words begin."""

import unicodedata
from functools import cached_property, lru_cache
from itertools import pairwise

from state.text.patterns import UNSPACED, late_pattern
from state.text.spelling import folded, folded_sign

# Thousands separators do not separate words.
_GROUPS = late_pattern(r"(?<![\d.,])\d{1,3}([.,'’_ \u00a0\u202f])\d{3}(?:\1\d{3})*(?!\d)")
_LINE = 300
_UNSPACED = late_pattern(rf"[{UNSPACED}]")


class Letters:
    """The letters and digits of a text, `signs`. The rest is computed only if there may be a match."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.signs = folded(text)

    @cached_property
    def at(self) -> list[int]:
        """Return the position of each letter in the text."""
        if self.text.isascii():
            return [place for place, sign in enumerate(self.text) if sign.isalnum()]
        return [place for place, sign in enumerate(self.text) for _ in folded_sign(sign)]

    @cached_property
    def cuts(self) -> frozenset[int]:
        """Return the letters at which words begin, and the end of the last word."""
        text, at = self.text, self.at
        groups = {
            place
            for number in _GROUPS.finditer(text)
            for place in range(number.start(), number.end())
            if text[place] == number.group(1)
        }
        if text.isascii():
            cuts = {one for one in range(1, len(at)) if at[one] - at[one - 1] > 1 and at[one] - 1 not in groups}
        else:
            cuts = {one for one in range(1, len(at)) if at[one - 1] != at[one] and self._parts(one, groups)}
        return frozenset(cuts | {0, len(at)})

    def words(self, first: int = 0, end: int | None = None) -> tuple[str, ...]:
        """Return the words between two letters."""
        end = len(self.signs) if end is None else end
        cuts = [first, *(one for one in range(first + 1, end) if one in self.cuts), end]
        return tuple(self.signs[one:other] for one, other in pairwise(cuts) if other > one)

    def _parts(self, place: int, groups: set[int]) -> bool:
        """Return whether a word begins at this letter: after a visible separator, or in a script without spaces."""
        before, here = self.at[place - 1], self.at[place]
        if here == before + 1 and "\u1161" <= self.text[here] <= "\u11ff":  # it completes a Hangul syllable
            return False
        if _UNSPACED.match(self.text[here]) or _UNSPACED.match(self.text[before]):
            return True
        return any(
            one not in groups and (self.text[one].isascii() or not _is_mark(self.text[one]))
            for one in range(before + 1, here)
        )


# A dream reads the same lines many times; long texts are read several times in a row, and few fit into memory.
_lines, _texts = lru_cache(maxsize=1_024)(Letters), lru_cache(maxsize=2)(Letters)


def letters_of(text: str) -> Letters:
    """Return the letters of a text, from a cache."""
    return (_lines if len(text) <= _LINE else _texts)(text)


@lru_cache(maxsize=65_536)
def _is_mark(sign: str) -> bool:
    """Return whether a character belongs to the letter before it, or is invisible."""
    return unicodedata.category(sign) in ("Mn", "Mc", "Me", "Cf")
