"""Forms of a word: words that begin alike, for four letters at least and for 0.6 of the longer one.

Or for all three letters of a word that has no more, where the other one has six at most. Words with other signs than
letters, and those of more than 64, have no other form. A text may have thousands of words of one key: these are found
by their beginnings, without a look at each of them.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import merge
from itertools import islice

_SHORT, _PREFIX = 3, 4
_SAME_WORD = 0.6
# What is longer is encoded, or many words without spaces: another form of it says something else.
_LONGEST = 64
# Of the many short sentences that are remembered most words stand at one of the same few places.
_ONE_PLACE = tuple((at,) for at in range(64))


class Crowd:
    """Many words of one key and their places, by how their forms begin.

    One index has each word under every beginning that a form of it may ask for, the other one under the beginning
    that all its longer forms have.
    """

    def __init__(self, words: Iterable[tuple[int, str]]) -> None:
        begins, needed = list[tuple[str, int]](), list[tuple[str, int]]()
        for at, word in words:
            least = _least(word)
            needed.append((word[:least], at))
            begins += [(word[:length], at) for length in range(least, len(word) + 1)]
            if least > _SHORT and _has_short_form(word):
                begins.append((word[:_SHORT], at))
        self._begins, self._needed = by_key(begins), by_key(needed)

    def where(self, word: str, most: int) -> list[int]:
        """The first places of a word or of another form of it, so many at most, in order."""
        least = _least(word)
        found = [self._begins.get(word[:least], ())]
        found += [self._needed.get(word[:length], ()) for length in range(least + 1, len(word) + 1)]
        if least > _SHORT and _has_short_form(word):
            found.append(self._needed.get(word[:_SHORT], ()))
        return list(islice(merge(*found), most))


def key_of(word: str) -> str:
    """What all forms of a word have in common."""
    return word[:_SHORT] if word.isalpha() else word


def are_forms(one: str, other: str) -> bool:
    """Whether two words of one key are forms of one another."""
    if min(len(one), len(other)) <= _SHORT and _has_short_form(one) and _has_short_form(other):
        return True
    needed = max(_least(one), _least(other))
    return one[:needed] == other[:needed]


def _least(word: str) -> int:
    """So many letters of it, from the first one, has each of its forms; all of them when it has no other form."""
    if not word.isalpha() or not _PREFIX <= len(word) <= _LONGEST:
        return len(word)
    return max(_PREFIX, math.ceil(_SAME_WORD * len(word)))


def _has_short_form(word: str) -> bool:
    """Whether its first three letters alone are a form of it."""
    return word.isalpha() and _SHORT <= len(word) <= 2 * _SHORT and word[:_SHORT].isascii()


def by_key(keyed: Iterable[tuple[str, int]]) -> Mapping[str, tuple[int, ...]]:
    """The places of each key, in order."""
    places = defaultdict[str, list[int]](list)
    for key, at in keyed:
        places[key].append(at)
    return {key: _shared(ats) for key, ats in places.items()}


def _shared(places: list[int]) -> tuple[int, ...]:
    return _ONE_PLACE[places[0]] if len(places) == 1 and places[0] < len(_ONE_PLACE) else tuple(places)
