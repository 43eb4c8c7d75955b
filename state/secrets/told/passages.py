"""Passages: the words between nouns and the candidates beside them, read once for all of these."""

from bisect import bisect_left, bisect_right

from state.secrets.languages import key_of, vocabulary
from state.secrets.value import remembered
from state.text.patterns import late_pattern

WORDS = late_pattern(r"[^\W\d_]+(?:['’][^\W_]+)?")

_BLOCK, _OVERLAP = 2048, 512


class _Passage:
    """The words of text[first:last]: where each stands, and the numbers of those of each sort."""

    __slots__ = ("about", "denies", "ends", "other", "starts", "tells")

    def __init__(self, text: str, first: int, last: int) -> None:
        found = list(WORDS.finditer(text, first, last))
        self.starts, self.ends = [one.start() for one in found], [one.end() for one in found]
        spoken, words = [one[0].lower() for one in found], vocabulary()
        sorts = list(map(class_of, spoken))
        self.other = [number for number, sort in enumerate(sorts) if sort == "other"]
        self.tells = [number for number, sort in enumerate(sorts) if sort == "tells"]
        self.about = [number for number, word in enumerate(spoken) if word in words.about]
        self.denies = [number for number, word in enumerate(spoken) if word in words.denies]

    def counts(self, start: int, end: int) -> tuple[int, ...] | None:
        """Those of the words in text[start:end]; None where that cuts a word in two."""
        first, last = bisect_right(self.ends, start), bisect_right(self.ends, end)
        starts = self.starts
        if (first < len(starts) and starts[first] < start) or (last < len(starts) and starts[last] < end):
            return None
        of = [
            bisect_left(row, last) - bisect_left(row, first)
            for row in (self.other, self.tells, self.about, self.denies)
        ]
        return last - first, *of


def words_between(text: str, start: int, end: int) -> tuple[int, ...]:
    """How many words stand in text[start:end], how many that mean nothing here, that tell, are about, deny."""
    if start >= end:
        return (0,) * 5
    block = start // _BLOCK if end - start <= _OVERLAP else -1
    counts = None if block < 0 else _block(text, block).counts(start, end)
    return counts or _Passage(text, start, end).counts(start, end) or (0,) * 5


@remembered
def _block(text: str, number: int) -> _Passage:
    return _Passage(text, number * _BLOCK, (number + 1) * _BLOCK + _OVERLAP)


@remembered
def class_of(word: str) -> str:
    """What a word is in a sentence about secrets."""
    words = vocabulary()
    if word in words.tells:
        return "tells"
    if word in words.leads:
        return "leads"
    if word in words.small:
        return "small"
    if word in words.about:
        return "about"
    if key_of(word) in words.named:
        return "noun"
    return "other"
