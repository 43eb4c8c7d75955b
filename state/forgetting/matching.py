"""Matching: where a text to be forgotten stands in another text, and what is left when it is taken out.

Texts are compared by their words (NFKC, casefolded, nothing invisible); of what stands between words nothing counts,
so Markdown marks, quotes, line breaks, tags and the escapes of addresses and of HTML do not hide a text, nor do the
look-alikes and the grouped digits of `state.text.spelling`. A character of a script that is written without spaces
is a word.

A long text is known again by three quarters of its words in a row, by 32 at most (`runs`); and by eight of them where
it may have been cut: what stands at the beginning or end of a line and goes on to the target's own end or beginning,
or is a whole line (`parts`). So two texts that have a phrase in common are two texts.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from typing import Self

from state.errors import UsageError
from state.forgetting.placed_words import Span, Word, placed_words
from state.text.escapes import unescaped
from state.text.patterns import late_pattern
from state.text.spelling import simplified

RUN_WORDS = 8
MOST_RUN_WORDS = 32

Ends = Callable[[int], tuple[bool, bool]]
Finder = Callable[[str], Sequence[Span]]

_MARK, _WORDLESS_MARK = "[forgotten]", "[…]"
_MARK_WORD = "forgotten"
_SENTENCE_END = late_pattern(r"(?<![.!?…])[.!?…]++[\"'’”)\]*_`]*+[ \t]++|[。！？｡]++[」』”）]*+[ \t]*+")
_ABBREVIATION = late_pattern(
    r"(?:^|[\s(\"'])(?:[^\W\d_]|[^\W\d_]\.[^\W\d_]|dr|mr|mrs|ms|st|nr|no|vs|etc|ca|bzw|usw|approx|cf|al|fig|inc)$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = len("approx")
# Quotes, bullets, numbers of lists, boxes of tasks and headings stand before the first sentence of a line.
_LEAD = late_pattern(r"[ \t]*(?:(?:>|[-*+]|\d{1,4}[.)]|\[[ xX]\]|#{1,6})[ \t]+)*")
_BREAKS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_FEW_RUNS = 16
_EXACT_TURNS = 8


class Cut(StrEnum):
    """How much text is removed with a match."""

    SENTENCES = "sentences"  # the sentences (or lines) that hold it
    WORDS = "words"  # its words; a mark is left in their place


@dataclass(frozen=True, slots=True)
class Target:
    """A text to be forgotten, as its normalised words; or one to be `kept`, in which no other one is found."""

    words: tuple[str, ...]
    kept: bool = False

    @classmethod
    def of(cls, text: str, *, kept: bool = False) -> Self:
        """The text as a target. Raises UsageError when it has no words."""
        words = tuple(word for word, _, _ in placed_words(text))
        if not words:
            raise UsageError("a text to be forgotten needs at least one word", "say which")
        return cls(words, kept)


def runs(target: Target) -> tuple[tuple[str, ...], ...]:
    """The runs of words that stand for the target wherever they stand: itself, or most of a long one."""
    words = target.words
    length = min(len(words), max(RUN_WORDS, min(MOST_RUN_WORDS, -(-3 * len(words) // 4))))
    return _windows(words, length)


def parts(target: Target) -> tuple[tuple[str, ...], ...]:
    """The runs of eight words that stand for it where it may be cut off.

    None of a short target, of which so many words stand for it anywhere.
    """
    return _windows(target.words, RUN_WORDS) if len(runs(target)[0]) > RUN_WORDS else ()


def spans(text: str, targets: Iterable[Target]) -> tuple[Span, ...]:
    """Where the targets stand in the text: (start, end) in characters, in order, none overlapping another.

    Inside of a target that is kept there is none.
    """
    sought = _sought(tuple(targets))
    if not sought.by_length:
        return ()
    found = [place for reading in readings(text) for place in _places(reading, sought)]
    kept = _runs_in(placed_words(text), sought.kept) if found and sought.kept else []
    return joined(one for one in found if not any(start <= one[0] and one[1] <= end for start, end in kept))


def readings(text: str) -> tuple[str, ...]:
    """The text as it is written, with its escapes read, and in plain letters and digits; all are as long."""
    other = unescaped(text)
    return tuple(dict.fromkeys((text, other, simplified(other))))


def cut_off(text: str, words: Sequence[Word], places: Sequence[int], ends: Ends) -> list[Span]:
    """Of a target's parts that begin with these words: where they stand so that it may have been cut there.

    `ends` says of the part at a word whether it is the target's first, and whether it is its last. Where the other
    end is the target's own, half a word may be left at the cut.
    """
    found: list[Span] = []
    at = 0
    while at < len(places):
        last = at
        while last + 1 < len(places) and places[last + 1] == places[last] + 1:
            last += 1
        begin, end = places[at], places[last] + RUN_WORDS - 1
        stretch = [ends(place) for place in places[at : last + 1]]
        first, final = any(one for one, _ in stretch), any(one for _, one in stretch)
        begins = first or _broken(text, words, begin - 1 - final, begin)
        if begins and (final or _broken(text, words, end, end + 1 + first)):
            found.append((words[begin][1], words[end][2]))
        at = last + 1
    return found


def joined(found: Iterable[Span]) -> tuple[Span, ...]:
    """The places in order, with overlapping ones joined."""
    merged: list[Span] = []
    for start, end in sorted(found):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def without(text: str, targets: Iterable[Target], cut: Cut) -> str:
    """The text without the targets: no match is left in it; "" when no word remains.

    A text without a match is returned as it is.
    """
    wanted = tuple(targets)
    return cut_all(text, lambda one: spans(one, wanted), cut)


def cut_all(text: str, find: Finder, cut: Cut) -> str:
    """The text without what is found in it, again and again until nothing is found; "" when no word remains."""
    turn = 0
    while found := find(text):
        text = cut_out(text, widened(found, turn, len(text)), cut)
        turn += 1
    return text


def widened(found: Sequence[Span], turn: int, length: int) -> tuple[Span, ...]:
    """What is to go in this turn (0, 1 …) of a text of this length: the places themselves in the first ones.

    Where a text is laid around itself many times, each turn uncovers the next; then what stands beside the places
    goes too, twice as much each turn, so that few turns are enough.
    """
    beside = 1 << (turn - _EXACT_TURNS) if turn > _EXACT_TURNS else 0
    return (
        joined((max(0, start - beside), min(length, end + beside)) for start, end in found)
        if beside
        else tuple(found)
    )


def cut_out(text: str, found: Sequence[Span], cut: Cut) -> str:
    """The text without these places, or without the sentences that hold them; "" when no word remains.

    What follows a cut moves next to what stood before it, which may be a match again: who knows what is looked for
    looks again. Each time there are fewer words.
    """
    if not found:
        return text
    left = _without_words(text, found) if cut is Cut.WORDS else _without_sentences(text, found)
    return left if placed_words(left.replace(_MARK, "")) else ""


def sentences(text: str) -> tuple[Span, ...]:
    """The sentences of the text, none across lines: with the white space behind them, without the marks of a list."""
    found: list[Span] = []
    at = 0
    for line in text.splitlines(keepends=True):
        content = len(line.rstrip(_BREAKS))
        lead = _LEAD.match(line) if content else None
        start = lead.end() if lead else 0
        for end in (*_ends(line[:content], start), content):
            if end > start:
                found.append((at + start, at + end))
            start = max(start, end)
        at += len(line)
    return tuple(found)


def _without_words(text: str, found: Sequence[Span]) -> str:
    pieces: list[str] = []
    end = 0
    mark_of = cache(_mark_of)  # what is forgotten may stand there many times
    for start, stop in found:
        pieces += [text[end:start], mark_of(text[start:stop])]
        end = stop
    return "".join((*pieces, text[end:]))


def _mark_of(cut: str) -> str:
    return _WORDLESS_MARK if any(word == _MARK_WORD for word, _, _ in placed_words(cut)) else _MARK


def _without_sentences(text: str, found: Sequence[Span]) -> str:
    gone = _touched(sentences(text), found)
    kept: list[str] = []
    at = first = 0
    holds_words = cache(lambda line: bool(placed_words(_LEAD.sub("", line, count=1))))
    for line in text.splitlines(keepends=True):
        end = at + len(line)
        last = bisect_left(gone, (end, 0), first)
        cuts, first = gone[first:last], last
        left = _without_spans(line, [(start - at, stop - at) for start, stop in cuts]) if cuts else line
        kept.extend([left] if not cuts or holds_words(left) else [])
        at = end
    if not gone:  # a word that is part of a list's mark
        return _without_words(text, found)
    left = "".join(kept)
    return left if text[-1:] in _BREAKS else left.rstrip(_BREAKS)


def _touched(units: Sequence[Span], found: Sequence[Span]) -> list[Span]:
    """The units that one of the places touches; both are in order, and neither overlaps its own."""
    touched: list[Span] = []
    at = 0
    for start, end in units:
        while at < len(found) and found[at][1] <= start:
            at += 1
        if at < len(found) and found[at][0] < end:
            touched.append((start, end))
    return touched


def _without_spans(line: str, cuts: Sequence[Span]) -> str:
    pieces: list[str] = []
    end = 0
    for start, stop in cuts:
        pieces.append(line[end:start])
        end = stop
    left = "".join((*pieces, line[end:]))
    broken = left.rstrip(_BREAKS)
    return broken.rstrip() + left[len(broken) :]


def _ends(line: str, start: int) -> Iterable[int]:
    for match in _SENTENCE_END.finditer(line, start):
        if match.end() >= len(line):
            return
        # "3.5 is", "e.g. this" and "Dr. Smith" are no ends; 。 is one, whatever follows.
        before = line[max(start, match.start() - _LONGEST_ABBREVIATION - 1) : match.start()]
        goes_on = line[match.end()].islower() or _ABBREVIATION.search(before)
        if match.group()[0] not in ".…" or not goes_on:
            yield match.end()


@dataclass(frozen=True, slots=True)
class _Sought:
    """The runs of some targets by length, their parts, and of these the first and the last ones."""

    by_length: tuple[tuple[int, frozenset[tuple[str, ...]]], ...]
    parts: frozenset[tuple[str, ...]]
    first: frozenset[tuple[str, ...]]
    last: frozenset[tuple[str, ...]]
    few: tuple[tuple[str, ...], ...]  # all of them; none when they are many
    kept: tuple[tuple[int, frozenset[tuple[str, ...]]], ...]


@lru_cache(maxsize=64)
def _sought(every_target: tuple[Target, ...]) -> _Sought:
    wanted: dict[int, set[tuple[str, ...]]] = {}
    targets = [target for target in every_target if not target.kept]
    kept: dict[int, set[tuple[str, ...]]] = {}
    for target in every_target:
        if target.kept:
            kept.setdefault(len(target.words), set()).add(target.words)
    long = [target for target in targets if parts(target)]
    for target in targets:
        for run in runs(target):
            wanted.setdefault(len(run), set()).add(run)
    every = [
        *(run for found in wanted.values() for run in found),
        *(part for target in long for part in parts(target)),
    ]
    return _Sought(
        _by_length(wanted),
        frozenset(part for target in long for part in parts(target)),
        frozenset(target.words[:RUN_WORDS] for target in long),
        frozenset(target.words[-RUN_WORDS:] for target in long),
        tuple(every) if len(every) <= _FEW_RUNS else (),
        _by_length(kept),
    )


def _by_length(runs: Mapping[int, set[tuple[str, ...]]]) -> tuple[tuple[int, frozenset[tuple[str, ...]]], ...]:
    return tuple((length, frozenset(found)) for length, found in sorted(runs.items()))


def _places(text: str, sought: _Sought) -> list[Span]:
    if not _possible(text, sought):
        return []
    words = placed_words(text)
    bare = tuple(word for word, _, _ in words)
    found = _runs_in(words, sought.by_length)
    if sought.parts:
        windows = [bare[at : at + RUN_WORDS] for at in range(len(bare) - RUN_WORDS + 1)]
        here = [at for at, window in enumerate(windows) if window in sought.parts]
        found += cut_off(text, words, here, lambda at: (windows[at] in sought.first, windows[at] in sought.last))
    return found


def _runs_in(words: Sequence[Word], runs: Iterable[tuple[int, frozenset[tuple[str, ...]]]]) -> list[Span]:
    bare = tuple(word for word, _, _ in words)
    return [
        (words[at][1], words[at + length - 1][2])
        for length, wanted in runs
        for at in range(len(bare) - length + 1)
        if bare[at : at + length] in wanted
    ]


def _possible(text: str, sought: _Sought) -> bool:
    """False only where no run can be: a cheap look before the words are counted out."""
    if not text.isascii() or not sought.few:
        return True
    lowered = text.lower()
    return any(all(word in lowered for word in run) for run in sought.few)


def _windows(words: tuple[str, ...], length: int) -> tuple[tuple[str, ...], ...]:
    return tuple(dict.fromkeys(words[at : at + length] for at in range(len(words) - length + 1)))


def _broken(text: str, words: Sequence[Word], one: int, other: int) -> bool:
    """Whether the text begins or ends, or a line does, between these two words."""
    if one < 0 or other >= len(words):
        return True
    between = text[words[one][2] : words[other][1]]
    return any(sign in between for sign in _BREAKS)
