"""Likeness: how much lines of MEMORY.md are about the same. It orders lines and weighs them, and replaces none."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from state.changes.change import CurrentLine
from state.search.dates import days_in
from state.text.words import content_terms


class Likeness:
    """The likeness of any two of these lines: the cosine of their words, weighed by rarity, from 0 to 1.

    Lines that name different days are not about the same. Other numbers may well be: a port or a price that changed.
    """

    def __init__(self, lines: Iterable[CurrentLine]) -> None:
        self._lines = {line.id: line for line in lines}
        self._words = {name: content_terms(line.text) for name, line in self._lines.items()}
        self._days = {name: days_in(line.text) for name, line in self._lines.items()}
        count = Counter(word for found in self._words.values() for word in found)
        self._rarity = {word: math.log((len(self._lines) + 1) / times) for word, times in count.items()}
        self._with = defaultdict[str, list[str]](list)
        for name, found in self._words.items():
            for word in found:
                self._with[word].append(name)
        rarities = {name: sum(self._rarity[word] for word in found) for name, found in self._words.items()}
        self._size = {name: math.sqrt(one) for name, one in rarities.items()}

    def older(self, line: CurrentLine) -> dict[str, float]:
        """Return by id the likeness of each older line that shares a word with this one."""
        return {name: near for name, near in self._near(line) if age(self._lines[name]) < age(line)}

    def to_newer(self, line: CurrentLine) -> float:
        """Return the likeness of the newer line that is most like this one; 0 if there is none."""
        return max((near for name, near in self._near(line) if age(self._lines[name]) > age(line)), default=0.0)

    def _near(self, line: CurrentLine) -> Iterable[tuple[str, float]]:
        shared = defaultdict[str, float](float)
        for word in self._words[line.id]:
            for other in self._with[word]:
                shared[other] += self._rarity[word]
        own = self._days[line.id]
        for other, both in shared.items():
            if other != line.id and (not own or not self._days[other] or own & self._days[other]):
                yield other, both / (self._size[line.id] * self._size[other])


def by_meaning(lines: Sequence[CurrentLine], cosines: Sequence[Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return for each line the cosine of each older one, by ids; `cosines` are those of the lines in their order."""
    return {
        line.id: {old.id: near for old, near in zip(lines, row, strict=True) if age(old) < age(line)}
        for line, row in zip(lines, cosines, strict=True)
    }


def age(line: CurrentLine) -> tuple[object, ...]:
    """Return the key by which a line is older than another."""
    return line.born_at, len(line.id), line.id
