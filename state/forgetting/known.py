"""Known: finds a text to be forgotten in another text, by its letters and digits alone.

One search serves two cases: an erasure knows the text itself; afterwards only salted digests remain. Case, form,
white space, punctuation, Markdown, look-alike letters, digit grouping, joining, spacing out and camel case leave the
letters of a text unchanged, so none needs a rule of its own; escapes and base64 are decoded first. A rolling sum
finds where a run of letters may occur, and its digest decides.

    run     the letters of a text; of a long one, from each of its words on, ¾ of its words (8 to 32)
    spelt   the words of a short run, which count as these words, or all joined, or all spaced out
    part    eight words of a long text; they count where it may have been cut off, at the ends of lines
    halves  of a short text: next to one half, the other may have one extra word
    asked   the content words of a short text, any two or more of them: a question that has no others asks for it
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import chain, combinations, pairwise
from typing import NamedTuple, Self

from state.crystals.crystal import Crystal
from state.errors import UsageError
from state.forgetting.cutting import BREAKS, Cut, Span, cut_all, joined
from state.forgetting.digests import digest_of_letters, digest_of_text, mark_of_run, marked_places, sums_of
from state.forgetting.letters import Letters, letters_of
from state.text.patterns import late_pattern
from state.text.spelling import encoded, folded, is_telling, shorter, unescaped
from state.text.words import content_terms

RECOGNISED = (
    "any case, form and punctuation; look-alike letters and digits of other scripts; joined, spaced out, hyphenated"
    " and camel case; grouped digits; percent signs, HTML, base64; of a short text one word more, or less where the"
    " rest still tells; of a long one most of it. Not the same in other words or another language."
)
MASK = "[…]"
RUN_WORDS, MOST_RUN_WORDS = 8, 32
Row = tuple[str, int, int]  # digest, code, mark, as in the table `forgotten`
# The code of a row is its kind, minus the length of the run of letters.
WHOLE, SPELT, FIRST, LAST, ASKED = 0, -10_001, -10_002, -10_003, -10_004
RUN, PART, HEAD, TAIL, ALL = -1_000, -12_000, -13_000, -14_000, -15_000
_KINDS = (ALL, TAIL, HEAD, PART, RUN)
# A mark covers the longest of these numbers of letters that fits into the run. A text is scanned once per size.
_MARKED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96, 192)
# So many letters are the text wherever they occur; so many if they start and end like words.
_ALWAYS, _ANYWHERE, _DIGITS_ANYWHERE = 24, 10, 9
_FEWEST_JOINED, _FEWEST_DIGITS = 6, 4
_MOST_ASKED = 7  # content words of a text whose questions are recognised
_LONGEST_WORD = 64  # letters of the extra word
_GROUPED = late_pattern(r"\d+|\d(?:[ .-]\d)+|\d{1,3}(?:([.,'’_ \u00a0\u202f])\d{3})(?:\1\d{3})*")
_SPACED_OUT = late_pattern(r"\w(?:[^\w\n]{1,2}\w)+")
_JOINED = late_pattern(r"(?:[^\W_]|[\u0300-\u036f\u200b-\u200f\u00ad]|[-_‐‑.][ \t]*\r?\n?[ \t]*(?=\w))+")


@dataclass(frozen=True, slots=True)
class Target:
    """A text to be forgotten, as words of letters; or one to be `kept`, within which nothing is found."""

    words: tuple[str, ...]
    kept: bool = False

    @classmethod
    def of(cls, text: str, *, kept: bool = False) -> Self:
        """Return the text as a target. Raise UsageError if it has no words."""
        words = letters_of(text).words()
        if not words:
            raise UsageError("a text to be forgotten needs at least one word", "say which")
        return cls(words, kept)


@dataclass(frozen=True, slots=True)
class Known:
    """Texts to be recognised, by their digests; without a salt, by the letters themselves.

    `kept` are the letters of texts within which nothing is found. False if there is nothing to recognise.
    """

    salt: str = ""
    rows: frozenset[Row] = field(default=frozenset(), repr=False)
    kept: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def anywhere(self) -> "Known":
        """Return all but the texts known only as a whole: what also applies in notes and archived sessions."""
        return _anywhere(self)

    def found(self, text: str) -> tuple[Span, ...]:
        """Return the spans of these texts in the text, in characters, sorted and without overlaps.

        A text known as a whole is only found if it is the entire text.
        """
        if not self.rows or not text.strip():
            return ()
        index = _index(self)
        if index.whole and digest_of_text(self.salt, text) in index.digests:
            return ((0, len(text)),)
        return _found(self, text)

    def asks(self, question: str) -> bool:
        """Return whether all content words of a question, two or more, are words of one of these texts."""
        words = _content(letters_of(question).words()) if self.rows else ()
        return len(words) > 1 and _digest(self.salt, " ".join(words), ASKED) in _index(self).digests

    def hits(self, text: str) -> set[str]:
        """Return the digests by which something is found in the text, ignoring base64."""
        return {digest for _, digest in _hits(self, text)}

    def without(self, text: str) -> str:
        """Return the text without the sentences (or lines) that contain a match; "" if no word remains."""
        return cut_all(text, self.found, Cut.SENTENCES)

    def masked(self, text: str) -> str:
        """Return the text with a mark in place of each match."""
        return cut_all(text, self.found, Cut.WORDS) or (text and MASK)

    def spared(self, crystal: Crystal) -> Crystal | None:
        """Return the crystal without matches, unchanged if it has none; None if no text is left."""
        beside = (crystal.context, crystal.speaker, crystal.session)
        if not self or not any(map(self.found, (crystal.text, *beside))):
            return crystal
        text = self.without(crystal.text)
        context, speaker, session = map(self.without, beside)
        return replace(crystal, text=text, context=context, speaker=speaker, session=session) if text else None


NOTHING = Known()


def rows_of(salt: str, target: Target) -> Iterator[Row]:
    """Yield all rows that are kept of a target."""
    words = target.words
    count = min(len(words), max(RUN_WORDS, min(MOST_RUN_WORDS, -(-3 * len(words) // 4))))
    for run in (*_windows(words, count), *shorter(words)):
        yield _row(salt, RUN, "".join(run))
        if sum(map(len, run)) < _ANYWHERE:
            yield _digest(salt, " ".join(run), SPELT), SPELT, 0
    if len(content := _content(words)) <= _MOST_ASKED:
        for some in chain.from_iterable(combinations(content, size) for size in range(2, len(content) + 1)):
            yield _digest(salt, " ".join(some), ASKED), ASKED, 0
    if is_telling(words):
        half = -(-len(words) // 2)
        for kind, piece in ((HEAD, words[:half]), (TAIL, words[half:]), (ALL, words)):
            yield _row(salt, kind, "".join(piece))
    if count > RUN_WORDS:
        for part in _windows(words, RUN_WORDS):
            yield _row(salt, PART, "".join(part))
        yield _digest(salt, "".join(words[:RUN_WORDS]), FIRST), FIRST, 0
        yield _digest(salt, "".join(words[-RUN_WORDS:]), LAST), LAST, 0


@lru_cache(maxsize=64)
def known_of(targets: tuple[Target, ...]) -> Known:
    """Return the targets as unsalted `Known`, for an erasure."""
    rows = frozenset(row for target in targets if not target.kept for row in rows_of("", target))
    return Known("", rows, frozenset("".join(target.words) for target in targets if target.kept))


def spans(text: str, targets: Iterable[Target]) -> tuple[Span, ...]:
    """Return the spans of the targets in the text, except within kept texts."""
    return known_of(tuple(targets)).found(text)


def without(text: str, targets: Iterable[Target], cut: Cut) -> str:
    """Cut the targets out of the text until none is found; "" if no word remains."""
    return cut_all(text, known_of(tuple(targets)).found, cut)


def _digest(salt: str, signs: str, kind: int) -> str:
    return digest_of_letters(salt, signs if kind == RUN else f"{kind} {signs}")


def _row(salt: str, kind: int, signs: str) -> Row:
    return _digest(salt, signs, kind), kind - len(signs), mark_of_run(salt, signs[: _marked(len(signs))])


def _content(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(content_terms(" ".join(words))))


def _windows(words: Sequence[str], count: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[at : at + count]) for at in range(len(words) - count + 1))


def _marked(length: int) -> int:
    return max(size for size in _MARKED if size <= length)


class _Index(NamedTuple):
    """The rows in the form in which a text is scanned."""

    digests: frozenset[str]
    whole: bool
    marks: Mapping[int, Mapping[int, frozenset[tuple[int, int]]]]  # by size and mark: (kind, length)
    totals: tuple[int, ...]  # lengths of the short texts, in letters
    plain: tuple[str, ...]  # without a salt: one of these must occur


@lru_cache(maxsize=64)
def _index(known: Known) -> _Index:
    marks = dict[int, dict[int, frozenset[tuple[int, int]]]]()
    totals, plain = set[int](), set[str]()
    for digest, code, mark in known.rows:
        if code >= RUN or code in (SPELT, FIRST, LAST, ASKED):
            continue
        kind = next(one for one in _KINDS if code < one)
        length = kind - code
        if kind == ALL:
            totals.add(length)
            continue
        here = marks.setdefault(_marked(length), {})
        here[mark] = here.get(mark, frozenset()) | {(kind, length)}
        if not known.salt:
            plain.add(digest.rpartition(" ")[2])
    return _Index(
        frozenset(row[0] for row in known.rows),
        any(code == WHOLE for _, code, _ in known.rows),
        marks,
        tuple(sorted(totals)),
        tuple(plain),
    )


@lru_cache(maxsize=64)
def _anywhere(known: Known) -> Known:
    return replace(known, rows=frozenset(row for row in known.rows if row[1] != WHOLE))


@lru_cache(maxsize=1_024)  # a text is checked where it is read, and again where it is written
def _found(known: Known, text: str) -> tuple[Span, ...]:
    found = [span for span, _ in _hits(known, text)]
    found += [(start, end) for start, end, said in encoded(text) if known.anywhere.found(said)]
    if found and known.kept:
        stay = list(_kept(known, letters_of(text)))
        found = [one for one in found if not any(start <= one[0] and one[1] <= end for start, end in stay)]
    return joined(found)


def _kept(known: Known, read: Letters) -> Iterator[Span]:
    for signs in known.kept:
        at = read.signs.find(signs)
        while at >= 0:
            if _is_edge(read, at) and _is_edge(read, at + len(signs)):
                yield read.at[at], read.at[at + len(signs) - 1] + 1
            at = read.signs.find(signs, at + 1)


def _hits(known: Known, text: str) -> Iterator[tuple[Span, str]]:
    """Yield the span and digest of each match in the text as written, and with its escapes decoded."""
    index = _index(known)
    for reading in dict.fromkeys((text, unescaped(text))):
        if index.plain and not any(map(folded(reading).__contains__, index.plain)):
            continue
        read = letters_of(reading)
        for first, end, digest in _places(known.salt, index, read):
            yield (read.at[first], read.at[end - 1] + 1), digest


def _places(salt: str, index: _Index, read: Letters) -> Iterator[tuple[int, int, str]]:
    signs, sums = read.signs, sums_of(salt, read.signs)
    digest = cache(lambda window, kind: _digest(salt, window, kind))  # a text may occur many times
    cut = list[Span]()
    for size, marks in index.marks.items():
        for at, mark in marked_places(sums, size, marks):
            for kind, length in marks[mark]:
                end = at + length
                if end > len(signs) or (one := digest(signs[at:end], kind)) not in index.digests:
                    continue
                if kind == PART:
                    cut.append((at, end))
                elif kind == RUN and _is_one(index, read, (at, end), digest):
                    yield at, end, one
                elif kind in (HEAD, TAIL):
                    yield from _with_one_more(index, read, (at, end), digest)

    def is_known(span: Span, kind: int) -> bool:
        return digest(signs[slice(*span)], kind) in index.digests

    for begin, end, parts in _cut_off(read, sorted(cut), is_known):
        yield from ((begin, end, digest(signs[slice(*part)], PART)) for part in parts)


def _with_one_more(
    index: _Index, read: Letters, half: Span, digest: Callable[[str, int], str]
) -> Iterator[tuple[int, int, str]]:
    """Yield matches of a whole text of which one half was found, with one extra word in the other half."""
    first, end = half
    known, farthest = read.cuts, max(index.totals, default=0) + _LONGEST_WORD
    if first not in known or end not in known:
        return
    words = [one for one in range(max(0, first - farthest), end + farthest) if one in known]
    for begin, stop in pairwise(words):  # the extra word
        for total in index.totals:
            if begin >= end and (last := first + total + stop - begin) > stop and last in known:
                said, place = read.signs[first:begin] + read.signs[stop:last], (first, last)
            elif stop <= first and (start := end - total - (stop - begin)) < begin and start in known:
                said, place = read.signs[start:begin] + read.signs[stop:end], (start, end)
            else:
                continue
            if (one := digest(said, ALL)) in index.digests:
                yield *place, one


def _is_one(index: _Index, read: Letters, run: Span, digest: Callable[[str, int], str]) -> bool:
    """Return whether these letters are the text here, rather than parts of other words or numbers."""
    at, end = run
    text, signs = read.text, read.signs[at:end]
    start, stop = read.at[at], read.at[end - 1] + 1
    if (at and read.at[at - 1] == start) or (end < len(read.at) and read.at[end] == stop - 1):
        return False  # in the middle of a syllable
    before, after = text[start - 1 : start], text[stop : stop + 1]
    if (before.isdecimal() and signs[0].isdecimal()) or (after.isdecimal() and signs[-1].isdecimal()):
        return False
    is_number = signs.isdecimal() and len(signs) < _DIGITS_ANYWHERE
    if is_number and not (at in read.cuts and end in read.cuts):  # part of a name or of a grouped number
        return False
    if not is_number and not (_is_edge(read, at) and _is_edge(read, end)):
        is_joined = len(signs) >= _ANYWHERE and _JOINED.fullmatch(text, start, stop) is not None
        return is_joined or len(signs) >= _ALWAYS
    if len(signs) >= _ANYWHERE or digest(" ".join(read.words(at, end)), SPELT) in index.digests:
        return True
    forms = (_GROUPED,) if is_number else (_JOINED, _SPACED_OUT)
    fewest = _FEWEST_DIGITS if is_number else _FEWEST_JOINED
    return len(signs) >= fewest and any(form.fullmatch(text, start, stop) for form in forms)


def _is_edge(read: Letters, place: int) -> bool:
    """Return whether a word, or a camel-case part of one, begins at this letter or ends before it."""
    if place in read.cuts:
        return True
    one, other = read.text[read.at[place - 1]], read.text[read.at[place]]
    return (one.islower() and other.isupper()) or one.isdecimal() is not other.isdecimal()


def _cut_off(
    read: Letters, parts: Sequence[Span], known: Callable[[Span, int], bool]
) -> Iterator[tuple[int, int, Sequence[Span]]]:
    """Yield the stretches of parts that begin and end where a line, or the original text, does."""
    at = 0
    while at < len(parts):
        last = at
        while last + 1 < len(parts) and parts[last + 1][0] <= parts[last][1]:
            last += 1
        stretch = parts[at : last + 1]
        first, final = (any(known(part, kind) for part in stretch) for kind in (FIRST, LAST))
        # A part may begin before the line, with letters of another word that happen to be equal.
        begins = (place for place, _ in stretch if first or _breaks_before(read, place, half=final))
        ends = (place for _, place in reversed(stretch) if final or _breaks_behind(read, place, half=first))
        begin, end = next(begins, len(read.signs)), next(ends, 0)
        if within := [part for part in stretch if begin <= part[0] and part[1] <= end]:
            yield begin, end, within
        at = last + 1


def _breaks_before(read: Letters, begin: int, *, half: bool) -> bool:
    """Return whether a line begins before this letter or, with `half`, before the preceding word."""
    before = begin
    if half and begin:
        before = next(one for one in range(begin - 1, -1, -1) if one in read.cuts)
    gap = read.text[read.at[before - 1] if before else 0 : read.at[begin]]
    return before == 0 or any(sign in gap for sign in BREAKS)


def _breaks_behind(read: Letters, end: int, *, half: bool) -> bool:
    count = len(read.signs)
    behind = next(one for one in range(end, count + 1) if one in read.cuts)
    if half and behind < count:
        behind = next(one for one in range(behind + 1, count + 1) if one in read.cuts)
    gap = read.text[read.at[end - 1] : read.at[behind] if behind < count else len(read.text)]
    return behind == count or any(sign in gap for sign in BREAKS)
