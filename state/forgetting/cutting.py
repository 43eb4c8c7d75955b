"""Cutting: removes passages from a text: whole sentences, or words with a mark in their place."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import cache

from state.text.patterns import late_pattern

Span = tuple[int, int]
Finder = Callable[[str], Sequence[Span]]

_MARK, _WORDLESS_MARK = "[forgotten]", "[…]"
_MARK_WORD = "forgotten"
_SENTENCE_END = late_pattern(r"(?<![.!?…])[.!?…]++[\"'’”)\]*_`]*+[ \t]++|[。！？｡]++[」』”）]*+[ \t]*+")
_ABBREVIATION = late_pattern(
    r"(?:^|[\s(\"'])(?:[^\W\d_]|[^\W\d_]\.[^\W\d_]|dr|mr|mrs|ms|st|nr|no|vs|etc|ca|bzw|usw|approx|cf|al|fig|inc)$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = len("approx")
# Quote marks, bullets, numbers, task boxes and heading marks before the first sentence of a line.
_LEAD = late_pattern(r"[ \t]*(?:(?:>|[-*+]|\d{1,4}[.)]|\[[ xX]\]|#{1,6})[ \t]+)*")
BREAKS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_EXACT_TURNS = 8


class Cut(StrEnum):
    """How much text is removed with a match."""

    SENTENCES = "sentences"  # the sentences (or lines) that contain it
    WORDS = "words"  # its words, replaced by a mark


def joined(found: Iterable[Span]) -> tuple[Span, ...]:
    """Return the spans in order, with overlapping ones merged."""
    merged: list[Span] = []
    for start, end in sorted(found):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def cut_all(text: str, find: Finder, cut: Cut) -> str:
    """Cut matches out of the text until none is found; "" if no word remains."""
    turn = 0
    while found := find(text):
        text = cut_out(text, widened(found, turn, len(text)), cut)
        turn += 1
    return text


def widened(found: Sequence[Span], turn: int, length: int) -> tuple[Span, ...]:
    """Return the spans to cut in this turn (0, 1, …) of a text of this length: at first the given ones.

    If a text is nested in itself many times, each turn uncovers the next copy. Later turns therefore also cut the
    surroundings, twice as much each turn, so that few turns suffice.
    """
    beside = 1 << (turn - _EXACT_TURNS) if turn > _EXACT_TURNS else 0
    return (
        joined((max(0, start - beside), min(length, end + beside)) for start, end in found)
        if beside
        else tuple(found)
    )


def cut_out(text: str, found: Sequence[Span], cut: Cut) -> str:
    """Return the text without these spans, or the sentences that contain them; "" if no word remains.

    A cut joins what was around it, which may form a new match: callers have to search again. Each cut leaves fewer
    words.
    """
    if not found:
        return text
    left = _without_words(text, found) if cut is Cut.WORDS else _without_sentences(text, found)
    return left if _has_words(left.replace(_MARK, "")) else ""


def sentences(text: str) -> tuple[Span, ...]:
    """Return the sentences of the text, each within a line, with trailing white space and without list marks."""
    found: list[Span] = []
    at = 0
    for line in text.splitlines(keepends=True):
        content = len(line.rstrip(BREAKS))
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
    mark_of = cache(_mark_of)  # a forgotten text may occur many times
    for start, stop in found:
        pieces += [text[end:start], mark_of(text[start:stop])]
        end = stop
    return "".join((*pieces, text[end:]))


def _mark_of(cut: str) -> str:
    return _WORDLESS_MARK if _MARK_WORD in "".join(filter(str.isalnum, cut)).casefold() else _MARK


def _without_sentences(text: str, found: Sequence[Span]) -> str:
    gone = _touched(sentences(text), found)
    kept: list[str] = []
    at = first = 0
    holds_words = cache(lambda line: _has_words(_LEAD.sub("", line, count=1)))
    for line in text.splitlines(keepends=True):
        end = at + len(line)
        last = bisect_left(gone, (end, 0), first)
        cuts, first = gone[first:last], last
        left = _without_spans(line, [(start - at, stop - at) for start, stop in cuts]) if cuts else line
        kept.extend([left] if not cuts or holds_words(left) else [])
        at = end
    if not gone:  # the match is part of a list mark
        return _without_words(text, found)
    left = "".join(kept)
    return left if text[-1:] in BREAKS else left.rstrip(BREAKS)


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


def _touched(units: Sequence[Span], found: Sequence[Span]) -> list[Span]:
    """Return the units that overlap one of the spans; both are sorted and free of overlaps."""
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
    broken = left.rstrip(BREAKS)
    return broken.rstrip() + left[len(broken) :]


def _ends(line: str, start: int) -> Iterable[int]:
    for match in _SENTENCE_END.finditer(line, start):
        if match.end() >= len(line):
            return
        # "3.5 is", "e.g. this" and "Dr. Smith" contain no sentence end; 。 always is one.
        before = line[max(start, match.start() - _LONGEST_ABBREVIATION - 1) : match.start()]
        goes_on = line[match.end()].islower() or _ABBREVIATION.search(before)
        if match.group()[0] not in ".…" or not goes_on:
            yield match.end()
