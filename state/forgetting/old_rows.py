"""Old rows: digests of word runs, which forgotten texts left before they were recognised by letters.

Digests cannot be converted, so these rows are read as they are for one release; remove this file with the next one.
Runs of letters were kept beside them; `known` reads those like its own and so finds other spellings.

    length > 0        a run of this many words, which stands for the text anywhere
    -8                eight words of a long text, which count where it may have been cut off
    -2,000 to -4,999  the halves and the whole of a short text, which may have one extra word
"""

import hmac
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Self

from state.forgetting.cutting import BREAKS, Span
from state.forgetting.digests import digest_of_letters, marked_places, sums_of
from state.forgetting.letters import letters_of
from state.text.patterns import late_pattern
from state.text.spelling import is_telling, shorter, unescaped
from state.text.words import UNSPACED, search_form

_PART_WORDS, _MOST_RUN_WORDS = 8, 32
_FEWEST_SIGNS, _MOST_SIGNS = 96, 192
_PART, _FIRST, _LAST, _HEAD, _TAIL, _WHOLE = ".part", ".first", ".last", ".head", ".tail", ".whole"
_KINDS = {2: _HEAD, 3: _TAIL, 4: _WHOLE}
_Word = tuple[str, int, int]
_STRETCH = late_pattern(r"[^\x00-/:-@\[-`{-\x7f]+")
_WORD = late_pattern(rf"[{UNSPACED}]|[^\W_{UNSPACED}](?:(?![{UNSPACED}])(?:[^\W_]|[\u0300-\u036f]))*")


class OldRows(NamedTuple):
    """The old rows of a workspace: their digests, and the marks by kind and number of words."""

    salt: str
    digests: frozenset[str]
    marks: tuple[tuple[str, int, frozenset[int]], ...]
    totals: tuple[int, ...]

    @classmethod
    def of(cls, salt: str, rows: Iterable[tuple[str, int, int]]) -> Self:
        """Select the old rows among these."""
        digests, marks, totals = set[str](), dict[tuple[str, int], set[int]](), set[int]()
        for digest, code, mark in rows:
            if is_old(code):
                kind = "" if code > 0 else _PART if code == -_PART_WORDS else _KINDS[-code // 1_000]
                digests.add(digest)
                if kind == _WHOLE:
                    totals.add(-code % 1_000)
                else:
                    marks.setdefault((kind, code if code > 0 else -code % 1_000), set()).add(mark)
        found = tuple((kind, size, frozenset(some)) for (kind, size), some in sorted(marks.items()))
        return cls(salt, frozenset(digests), found, tuple(sorted(totals)))

    def hits(self, text: str) -> Iterator[tuple[Span, str]]:
        """Yield the span and digest of each match in the text."""
        if not self.digests:
            return
        placed = _words(text)
        words = tuple(word for word, _, _ in placed)
        sums, parts = sums_of(self.salt, words), list[int]()
        for kind, size, marks in self.marks:
            for at, _ in marked_places(sums, size, marks):
                digest = self._digest(words[at : at + size], kind)
                if digest not in self.digests:
                    continue
                if kind == _PART:
                    parts.append(at)
                elif not kind:
                    yield (placed[at][1], placed[at + size - 1][2]), digest
                else:
                    for first, end, one in self._with_one_more(words, at, size, kind):
                        yield (placed[first][1], placed[end - 1][2]), one
        yield from self._cut_off(text, placed, parts)

    def _cut_off(self, text: str, placed: Sequence[_Word], parts: Sequence[int]) -> Iterator[tuple[Span, str]]:
        """Yield the stretches of parts that begin and end where a line, or the original text, does."""
        at = 0
        while at < len(parts):
            last = at
            while last + 1 < len(parts) and parts[last + 1] == parts[last] + 1:
                last += 1
            windows = [tuple(word for word, _, _ in placed[one : one + _PART_WORDS]) for one in parts[at : last + 1]]
            begin, end = parts[at], parts[last] + _PART_WORDS
            own = {kind for kind in (_FIRST, _LAST) for one in windows if self._digest(one, kind) in self.digests}
            if (_FIRST in own or _breaks(text, placed, begin)) and (_LAST in own or _breaks(text, placed, end)):
                yield from (((placed[begin][1], placed[end - 1][2]), self._digest(one, _PART)) for one in windows)
            at = last + 1

    def _with_one_more(self, words: Sequence[str], at: int, size: int, kind: str) -> Iterator[tuple[int, int, str]]:
        for total in self.totals:
            first = at if kind == _HEAD else at + size - total - 1
            window = tuple(words[first : first + total + 1]) if first >= 0 else ()
            if len(window) == total + 1 and size in (-(-total // 2), total // 2):
                for more in range(size, total) if kind == _HEAD else range(1, total + 1 - size):
                    digest = self._digest((*window[:more], *window[more + 1 :]), _WHOLE)
                    if digest in self.digests:
                        yield first, first + total + 1, digest

    def _digest(self, words: Sequence[str], kind: str = "") -> str:
        return _digest(self.salt, words, kind)


def is_old(code: int) -> bool:
    """Return whether the code is that of an old row."""
    return code > 0 or code == -_PART_WORDS or -5_000 < code <= -2_000


def digests_of(salt: str, text: str) -> Iterator[str]:
    """Yield all digests that were kept of a text, so that they can be deleted."""
    words = tuple(word for word, _, _ in _words(unescaped(text)))
    count = min(len(words), max(_PART_WORDS, min(_MOST_RUN_WORDS, -(-3 * len(words) // 4))))
    yield from (_digest(salt, run) for run in (*_windows(words, count), *shorter(words)))
    for part in _windows(words, _PART_WORDS):
        yield from (_digest(salt, part, kind) for kind in (_PART, _FIRST, _LAST))
    folded = letters_of(text).words()
    every = "".join(folded)
    length = min(len(every), max(_FEWEST_SIGNS, min(-(-7 * len(every) // 8), _MOST_SIGNS)))
    for start in accumulate(map(len, folded[:-1]), initial=0):
        if start + length <= len(every):
            yield digest_of_letters(salt, every[start : start + length])
    if is_telling(words):
        half = -(-len(words) // 2)
        yield from (_digest(salt, *one) for one in ((words[:half], _HEAD), (words[half:], _TAIL), (words, _WHOLE)))


def _digest(salt: str, words: Sequence[str], kind: str = "") -> str:
    said = (kind, *words) if kind else words
    message = f"{len(said)}\0{' '.join(said)}".encode("utf-8", "surrogatepass")
    return hmac.digest(bytes.fromhex(salt), message, "sha256")[:16].hex()


def _windows(words: Sequence[str], count: int) -> Iterator[Sequence[str]]:
    return (words[at : at + count] for at in range(len(words) - count + 1) if count)


def _words(text: str) -> list[_Word]:
    """Return the words as they were split then; each spans everything between two ASCII separators."""
    return [
        (word, stretch.start(), stretch.end())
        for stretch in _STRETCH.finditer(text)
        for word in _WORD.findall(search_form(stretch.group()))
    ]


def _breaks(text: str, placed: Sequence[_Word], at: int) -> bool:
    """Return whether a line or the text ends between this word and the one before it."""
    if not 0 < at < len(placed):
        return True
    return any(sign in text[placed[at - 1][2] : placed[at][1]] for sign in BREAKS)
