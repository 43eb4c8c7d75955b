"""Folded form: a text as its words, without case, punctuation and white space, each with its place in the text.

The words are in Unicode's compatibility form. In scripts without spaces, each character is a word.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from state.text.patterns import UNSPACED, late_pattern
from state.text.words import search_form, visible

Span = tuple[int, int]
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_RUN = re.compile(r"\S+")
_WORD = late_pattern(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_LINE = 300


@dataclass(frozen=True, slots=True)
class Folded:
    """The words of a text, and where each of them is in it; the words that one run folds to may share a place."""

    words: tuple[str, ...]
    spans: tuple[Span, ...]


def fold(text: str) -> Folded:
    """Return the folded form of a text, from a cache."""
    # A dream reads the same lines many times; long texts are read several times in a row, and few fit into memory.
    return (_lines if len(text) <= _LINE else _texts)(text)


def _fold(text: str) -> Folded:
    if text.isascii():
        return Folded(
            tuple(_ASCII_WORD.findall(text.lower())), tuple(one.span() for one in _ASCII_WORD.finditer(text))
        )
    words, spans, known = list[str](), list[Span](), dict[str, list[tuple[str, int, int]]]()
    for match in _RUN.finditer(_spaced(text)):
        at, run = match.start(), match.group()
        if run not in known:
            known[run] = _words(run)
        words += [word for word, _, _ in known[run]]
        spans += [(at + start, at + end) for _, start, end in known[run]]
    return Folded(tuple(words), tuple(spans))


def _words(run: str) -> list[tuple[str, int, int]]:
    """Return the words of a run of letters, digits and marks, each with its beginning and end."""
    form = search_form(run)
    is_same = form == run.casefold() and len(form) == len(run)
    return [(one.group(), *(one.span() if is_same else (0, len(run)))) for one in _WORD.finditer(_spaced(form))]


def _spaced(text: str) -> str:
    """Return the text with a blank in place of each character that belongs to no word."""
    return text.translate({ord(sign): " " for sign in set(text) if not _is_of_word(sign)})


@lru_cache(maxsize=65_536)  # enough for the characters of all scripts
def _is_of_word(sign: str) -> bool:
    """Return whether a character is a letter, a digit or a mark, stands for one, or is invisible."""
    if not visible(sign):
        return True
    return any(unicodedata.category(one)[0] in "LNM" for one in unicodedata.normalize("NFKD", sign))


_lines, _texts = lru_cache(maxsize=1_024)(_fold), lru_cache(maxsize=4)(_fold)
