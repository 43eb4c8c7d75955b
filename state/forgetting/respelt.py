"""Respelt: recognises forgotten texts in other spellings, and with one word more or less.

    letters   all of it without what stands between its letters and digits, seven eighths of a long text
    heads     the first half of a short text, tails the last one: where one stands, the other may have one word more
    wholes    how many words those texts have

A text with one word less is kept as a run of its own. The marks find candidates, the digests decide.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

from state.forgetting.digests import digest_of_part, digest_of_run, mark_of_run, marked_places, sums_of
from state.forgetting.placed_words import Span, Word
from state.text.patterns import late_pattern
from state.text.spelling import is_telling, letters, shorter, ungrouped

RECOGNISED = (
    "any case, form and punctuation; look-alike letters and digits of other scripts; joined, spaced out, hyphenated"
    " and camel case; grouped digits; percent signs, HTML, base64; of a short text one word more, or less where the"
    " rest still tells; of a long one most of it. Not the same in other words or another language."
)
Row = tuple[str, int, int]  # digest, kind and length, mark: as `forgotten` keeps it

_LETTERS, _HEAD, _TAIL, _WHOLE = ".letters", ".head", ".tail", ".whole"
# In the column `length` these are below zero, a thousand for each kind.
_KINDS = (_LETTERS, _HEAD, _TAIL, _WHOLE)
_KIND = 1_000
_FEWEST_LETTERS, _FEWEST_DIGITS = 6, 4
_WINDOW, _MOST_WINDOW = 96, 192
# A mark is of so many letters: a text has as many sums as there are numbers here, whatever is buried.
_MARKED = (4, 6, 8, 12, 16, 24, 32, 48, 96, 192)
# So many letters stand for a text wherever they stand; so many also in the midst of other letters where no space
# parts them, and wherever they begin and end as words do. Fewer are all joined, or all spaced out.
_ALWAYS, _ANYWHERE = 24, 10
_DIGITS_ANYWHERE = 9
_GROUPED = late_pattern(r"\d+|\d(?:[ .-]\d)+|\d{1,3}(?:([.,'’_ \u00a0\u202f])\d{3})(?:\1\d{3})*")
_SPACED_OUT = late_pattern(r"\w(?:[^\w\n]{1,2}\w)+")
_JOINED = late_pattern(r"(?:[^\W_]|[\u0300-\u036f\u200b-\u200f\u00ad]|[-_‐‑.][ \t]*\r?\n?[ \t]*(?=\w))+")


@dataclass(frozen=True, slots=True)
class Marked:
    """The marks of so many letters or words, and how long the texts are that begin with them."""

    size: int
    marks: frozenset[int]
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Respelt:
    """The forgotten texts of one workspace, as hashes of their other spellings."""

    letters: tuple[Marked, ...] = ()
    heads: tuple[Marked, ...] = ()
    tails: tuple[Marked, ...] = ()
    wholes: frozenset[int] = frozenset()
    digests: frozenset[str] = field(default=frozenset(), repr=False)

    def found(self, salt: str, text: str, words: Sequence[Word]) -> Iterator[tuple[Span, str]]:
        """Where something stands in the text, whose escapes are read and whose words these are; and its digest."""
        if self.letters:
            yield from _by_letters(self, salt, text)
        if self.wholes:
            yield from _with_one_more(self, salt, words)


NONE = Respelt()


def rows(salt: str, words: tuple[str, ...]) -> Iterator[Row]:
    """What is kept of a text for its other spellings; runs of words have their number as length."""
    for window in _windows(words):
        size = _marked(len(window))
        yield (
            digest_of_part(salt, (window,), _LETTERS),
            _code(_LETTERS, len(window)),
            mark_of_run(salt, window[:size]),
        )
    for run in (*shorter(words), *((one,) if (one := ungrouped(words)) != words else ())):
        yield digest_of_run(salt, run), len(run), mark_of_run(salt, run)
    if is_telling(words):
        half = -(-len(words) // 2)
        for kind, run in ((_HEAD, words[:half]), (_TAIL, words[half:])):
            yield digest_of_part(salt, run, kind), _code(kind, len(run)), mark_of_run(salt, run)
        yield digest_of_part(salt, words, _WHOLE), _code(_WHOLE, len(words)), 0


def is_respelt(length: int) -> bool:
    """Whether a row of this length is of another spelling, and none of a run, a part or a whole text."""
    return length <= -_KIND


def respelt(kept: Iterable[Row]) -> Respelt:
    """The rows as a value."""
    marks: dict[str, dict[int, set[int]]] = {kind: {} for kind in _KINDS}
    lengths: dict[str, dict[int, set[int]]] = {kind: {} for kind in _KINDS}
    digests = set[str]()
    for digest, code, mark in kept:
        kind, length = _KINDS[-code // _KIND - 1], -code % _KIND
        size = _marked(length) if kind is _LETTERS else length
        marks[kind].setdefault(size, set()).add(mark)
        lengths[kind].setdefault(size, set()).add(length)
        digests.add(digest)

    def marked(kind: str) -> tuple[Marked, ...]:
        found = sorted(marks[kind].items())
        return tuple(Marked(size, frozenset(some), tuple(sorted(lengths[kind][size]))) for size, some in found)

    return Respelt(marked(_LETTERS), marked(_HEAD), marked(_TAIL), frozenset(lengths[_WHOLE]), frozenset(digests))


def _code(kind: str, length: int) -> int:
    return -_KIND * (_KINDS.index(kind) + 1) - length


def _marked(length: int) -> int:
    return max(size for size in _MARKED if size <= length)


def _windows(words: Sequence[str]) -> Iterator[str]:
    """The letters of a text, or of a long one most of them, from each of its words on."""
    folded = [letters(word)[0] for word in words]
    every = "".join(folded)
    if len(every) < (_FEWEST_DIGITS if every.isdecimal() else _FEWEST_LETTERS):
        return
    length = min(len(every), max(_WINDOW, min(-(-7 * len(every) // 8), _MOST_WINDOW)))
    for start in dict.fromkeys(accumulate(map(len, folded[:-1]), initial=0)):
        if start + length <= len(every):
            yield every[start : start + length]


def _by_letters(known: Respelt, salt: str, text: str) -> Iterator[tuple[Span, str]]:
    signs, places = letters(text)
    sums = sums_of(salt, signs)
    digest_of = cache(lambda window: digest_of_part(salt, (window,), _LETTERS))  # one text may stand there many times
    for marked in known.letters:
        for at in marked_places(sums, marked.size, marked.marks):
            for length in marked.lengths:
                window = signs[at : at + length]
                if len(window) == length and (digest := digest_of(window)) in known.digests:
                    span = (places[at], places[at + length - 1] + 1)
                    if _is_one(text, span, window):
                        yield span, digest


def _with_one_more(known: Respelt, salt: str, words: Sequence[Word]) -> Iterator[tuple[Span, str]]:
    bare = tuple(word for word, _, _ in words)
    sums = sums_of(salt, bare)
    digest_of = cache(lambda whole: digest_of_part(salt, whole, _WHOLE))
    for marked, is_head in (*((one, True) for one in known.heads), *((one, False) for one in known.tails)):
        # Half of the words, rounded up, are the head.
        totals = (2 * marked.size, 2 * marked.size - 1) if is_head else (2 * marked.size, 2 * marked.size + 1)
        for at in marked_places(sums, marked.size, marked.marks):
            for total in known.wholes.intersection(totals):
                first = at if is_head else at + marked.size - total - 1
                window = bare[first : first + total + 1] if first >= 0 else ()
                if len(window) < total + 1:
                    continue
                further = range(marked.size, total) if is_head else range(1, total + 1 - marked.size)
                for more in further:
                    digest = digest_of((*window[:more], *window[more + 1 :]))
                    if digest in known.digests:
                        yield (words[first][1], words[first + total][2]), digest


def _is_one(text: str, span: Span, window: str) -> bool:
    """Whether these letters are one text here, and no part of other words or numbers that happens to have them."""
    start, end = span
    before, after = text[start - 1 : start], text[end : end + 1]
    if (before.isdecimal() and window[0].isdecimal()) or (after.isdecimal() and window[-1].isdecimal()):
        return False
    if window.isdecimal() and len(window) < _DIGITS_ANYWHERE:
        return not before.isalpha() and not after.isalpha() and _GROUPED.fullmatch(text, start, end) is not None
    stands_alone = _is_edge(before, text[start]) and _is_edge(text[end - 1], after)
    if len(window) >= _ANYWHERE:
        return stands_alone or len(window) >= _ALWAYS or _JOINED.fullmatch(text, start, end) is not None
    return stands_alone and any(form.fullmatch(text, start, end) for form in (_JOINED, _SPACED_OUT))


def _is_edge(one: str, other: str) -> bool:
    """Whether a word, or a part of one in camel case, ends and begins between these two signs."""
    if not (one.isalnum() and other.isalnum()):
        return True
    return (one.islower() and other.isupper()) or one.isdecimal() is not other.isdecimal()
