"""Cutting: removes passages from a text: whole sentences, or words with a mark in their place."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from state.forgetting.folded import Span
from state.text.patterns import late_pattern

Finder = Callable[[str], Sequence[Span]]

_MARK, _WORDLESS_MARK = "[forgotten]", "[…]"
_MARK_WORD = "forgotten"
_GAP = "\0"
_SENTENCE_END = late_pattern(r"(?<![.!?…])[.!?…]++[\"'’”)\]*_`]*+[ \t]++|[。！？｡]++[」』”）]*+[ \t]*+")
_ABBREVIATION = late_pattern(
    r"(?:^|[\s(\"'])(?:[^\W\d_]|[^\W\d_]\.[^\W\d_]|dr|mr|mrs|ms|st|nr|no|vs|etc|ca|bzw|usw|approx|cf|al|fig|inc)$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = len("approx")
# Quote marks, bullets, numbers, task boxes and heading marks before the first sentence of a line.
_LEAD = late_pattern(r"[ \t]*(?:(?:>|[-*+]|\d{1,4}[.)]|\[[ xX]\]|#{1,6})[ \t]+)*")
BREAKS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_MOST_TURNS = 12


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
    """Cut matches out of the text until none is found; "" if no word remains.

    A text that is nested in itself so often that a cut always uncovers the next one goes as a whole.
    """
    for _ in range(_MOST_TURNS):
        if not (found := find(text)):
            return text
        text = cut_out(text, found, cut)
    return ""


def cut_out(text: str, found: Sequence[Span], cut: Cut) -> str:
    """Return the text without these spans, or the sentences that contain them; "" if no word remains.

    A cut joins what was around it, which may form a new match: callers have to search again. Each cut leaves fewer
    words.
    """
    if not found:
        return text
    left = _replaced(text, found, _mark_of) if cut is Cut.WORDS else _without_sentences(text, found)
    return left if _has_words(left.replace(_MARK, "")) else ""


def sentences(text: str) -> list[Span]:
    """Return the sentences of the text, each within a line, with trailing white space and without list marks."""
    at, found = 0, list[Span]()
    for line in text.splitlines(keepends=True):
        content = line.rstrip(BREAKS)
        lead = _LEAD.match(content)
        start = lead.end() if lead else 0
        for end in (*_ends(content, start), len(content)):
            if end > start:
                found.append((at + start, at + end))
            start = max(start, end)
        at += len(line)
    return found


def _replaced(text: str, spans: Iterable[Span], by: Callable[[str], str]) -> str:
    pieces, at = list[str](), 0
    for start, end in spans:
        pieces += [text[at:start], by(text[start:end])]
        at = end
    return "".join((*pieces, text[at:]))


def _mark_of(cut: str) -> str:
    return _WORDLESS_MARK if _MARK_WORD in cut.casefold() else _MARK


def _without_sentences(text: str, found: Sequence[Span]) -> str:
    ends, gone = [end for _, end in found], list[Span]()
    for start, end in sentences(text):
        place = bisect_right(ends, start)
        if place < len(found) and found[place][0] < end:
            gone.append((start, end))
    if not gone:  # the match is part of a list mark
        return _replaced(text, found, _mark_of)
    kept = list[str]()
    for line in _replaced(text, gone, lambda _: _GAP).splitlines(keepends=True):
        left = line.replace(_GAP, "")
        broken = left.rstrip(BREAKS)
        left = broken.rstrip() + left[len(broken) :] if _has_words(_LEAD.sub("", left, count=1)) else ""
        kept.append(left if _GAP in line else line)
    left = "".join(kept)
    return left if text[-1:] in BREAKS else left.rstrip(BREAKS)


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


def _ends(line: str, start: int) -> Iterable[int]:
    for match in _SENTENCE_END.finditer(line, start):
        if match.end() >= len(line):
            return
        # "3.5 is", "e.g. this" and "Dr. Smith" contain no sentence end; 。 always is one.
        before = line[max(start, match.start() - _LONGEST_ABBREVIATION - 1) : match.start()]
        goes_on = line[match.end()].islower() or _ABBREVIATION.search(before)
        if match.group()[0] not in ".…" or not goes_on:
            yield match.end()
