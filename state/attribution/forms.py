"""Forms: where a word, or another form of it, stands in a text; found without a look at each word of the text.

Two words are forms of one another when they begin alike: for four letters at least and for 0.6 of the longer one, or
for all three letters of a word that has no more, where the other one has six at most. A text of thousands of words
that begin alike would else be compared word by word.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import merge
from itertools import islice
from typing import Self

_SHORT, _PREFIX = 3, 4
_SAME_WORD = 0.6
# What is longer is encoded, or many words without spaces: another form of it says something else.
_LONGEST = 64

Places = Mapping[str, tuple[int, ...]]


class Forms:
    """The places of words by how their forms begin.

    `begins` has each word under every beginning that a form of it may ask for, `needed` under the shortest of them.
    """

    def __init__(self, begins: Places, needed: Places) -> None:
        self._begins = begins
        self._needed = needed

    @classmethod
    def of(cls, words: Iterable[tuple[int, str]]) -> Self:
        """Those of words at these places, in order."""
        begins, needed = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        for at, word in words:
            least = _least(word)
            needed[word[:least]].append(at)
            for length in range(least, len(word) + 1):
                begins[word[:length]].append(at)
            if least > _SHORT and _has_short_form(word):
                begins[word[:_SHORT]].append(at)
        return cls(*({key: tuple(places) for key, places in one.items()} for one in (begins, needed)))

    def where(self, word: str, most: int) -> list[int]:
        """The first places, so many at most, in order."""
        least = _least(word)
        found = [self._begins.get(word[:least], ())]
        found += [self._needed.get(word[:length], ()) for length in range(least + 1, len(word) + 1)]
        if least > _SHORT and _has_short_form(word):
            found.append(self._needed.get(word[:_SHORT], ()))
        found = [places for places in found if places]
        return list(islice(merge(*found), most)) if len(found) > 1 else list(found[0][:most]) if found else []


def key_of(word: str) -> str:
    """What all forms of a word have in common."""
    return word[:_SHORT] if word.isalpha() else word


def _least(word: str) -> int:
    """So many letters of it, from the first one, has each of its forms; all of them when it has no other form."""
    if not word.isalpha() or not _PREFIX <= len(word) <= _LONGEST:
        return len(word)
    return max(_PREFIX, math.ceil(_SAME_WORD * len(word)))


def _has_short_form(word: str) -> bool:
    """Whether its first three letters alone are a form of it."""
    return word.isalpha() and len(word) <= 2 * _SHORT and word[:_SHORT].isascii()
