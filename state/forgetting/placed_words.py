"""Placed words: a text as normalised words, each with its place, for finding and cutting.

Folded (NFKC, casefolded, nothing invisible). A character of a script that is written without spaces is a word.
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from state.text.patterns import late_pattern
from state.text.remembered import remembered
from state.text.words import MOST_MARKS, UNSPACED, visible

Word = tuple[str, int, int]
Span = tuple[int, int]

# ASCII signs and white space part words; what lies between them may need Unicode's rules.
_STRETCH = late_pattern(r"[^\x00-/:-@\[-`{-\x7f]+")
_UNSPACED = late_pattern(rf"[{UNSPACED}]")


def placed_words(text: str) -> tuple[Word, ...]:
    """The words of the text in order, normalised, each with the place (start, end) that it has in the text."""
    found: list[Word] = []
    for stretch in _STRETCH.finditer(text):
        piece, at = stretch.group(), stretch.start()
        if piece.isascii():
            found.append((piece.lower(), at, stretch.end()))
        else:
            found.extend((word, at + start, at + end) for word, start, end in _unicode_words(piece))
    return tuple(found)


@remembered(300_000)
def _unicode_words(stretch: str) -> tuple[Word, ...]:
    """The words of text without ASCII signs: maximal runs of letters and digits with their marks, folded."""
    found: list[Word] = []
    run: list[str] = []  # the letters of a word that may go on
    begun = stop = 0
    for letter, start, end in _letters(stretch):
        spaced = _is_spaced(letter)
        if run and not spaced:
            found.append(("".join(run), begun, stop))
            run.clear()
        if spaced:
            begun, stop = begun if run else start, end
            run.append(letter)
        elif spaced is not None:
            found.append((letter, start, end))
    found += [("".join(run), begun, stop)] if run else []
    return tuple((unicodedata.normalize("NFKC", word), start, end) for word, start, end in found)


def _letters(stretch: str) -> list[Word]:
    """The characters as they are read, composed and folded, each with the place of what it was made of."""
    letters: list[Word] = []
    for start, end in _clusters(stretch):
        for letter in _folded(stretch[start:end]):
            if letters and _may_go_on(letter) and (more := _composed(letters[-1][0], letter)):
                letters[-1] = (more, letters[-1][1], end)
            else:
                letters.append((letter, start, end))
    return letters


def _clusters(stretch: str) -> Iterator[Span]:
    """Each character with the marks, and what is not seen, behind it."""
    behind = {char for char in set(stretch) if _is_mark(char) or unicodedata.category(char) == "Cf"}
    start = 0
    for end, char in enumerate(stretch[1:], 1):
        if char not in behind:
            yield start, end
            start = end
    yield start, len(stretch)


@lru_cache(maxsize=65_536)  # of the characters of all scripts
def _folded(cluster: str) -> tuple[str, ...]:
    """The letters of a cluster; what it begins with and may go on with the letter before is apart."""
    cluster = visible(cluster)[: MOST_MARKS + 1]
    for _ in range(2):
        cluster = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", visible(cluster)).casefold())
    letters: list[str] = []
    for char in visible(cluster):
        more = _composed(letters[-1], char) if letters and not _may_go_on(letters[-1]) else ""
        letters[-1:] = [more] if more else [*letters[-1:], char]
    return tuple(letters)


def _composed(before: str, char: str) -> str:
    """A letter with a mark, or with a Hangul letter that completes its syllable; "" for two letters."""
    if not (_is_mark(char) or _goes_on(before, char)):
        return ""
    # As far as `normalise` reads marks.
    return unicodedata.normalize("NFKC", before + (char if len(before) <= MOST_MARKS else ""))


@lru_cache(maxsize=65_536)
def _is_spaced(letter: str) -> bool | None:
    """Whether words of its script have spaces between them; None for what is no letter or digit."""
    if unicodedata.category(letter[0])[0] not in "LN":
        return None
    return not _UNSPACED.match(letter)


@lru_cache(maxsize=65_536)
def _may_go_on(letter: str) -> bool:
    return _is_mark(letter[0]) or "\u1161" <= letter[0] <= "\u11ff"


def _is_mark(char: str) -> bool:
    return unicodedata.category(char)[0] == "M"


def _goes_on(before: str, char: str) -> bool:
    """Whether a Hangul letter completes the syllable that was begun."""
    return "\u1161" <= char <= "\u11ff" and len(unicodedata.normalize("NFC", before + char)) == len(before)
