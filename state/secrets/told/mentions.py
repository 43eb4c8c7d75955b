"""Mentions: each noun of the vocabulary in a text, in names of settings and in sentences; classes of other words."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from state.secrets.languages import Noun, key_of, vocabulary
from state.secrets.value import remembered
from state.text.patterns import late_pattern

WORDS = late_pattern(r"[^\W\d_]+(?:['’][^\W_]+)?")

# A noun of at most this length only counts if no other letters adjoin it.
_SHORT = 5
_IDEOGRAPHS = (("\u3005", "\u30ff"), ("\u3400", "\u9fff"), ("\uac00", "\ud7a3"))
_LEFT, _RIGHT = late_pattern(r"[A-Za-z0-9+/]*$"), late_pattern(r"[A-Za-z0-9+/]*")
_KATAKANA = late_pattern(r"[\u30a0-\u30ff]")


@dataclass(frozen=True, slots=True)
class Mention:
    """A noun at text[start:end]."""

    noun: Noun
    start: int
    end: int
    key: str


# A noun as an expression: with a blank, a hyphen, an underscore or nothing between its words.
_SPELLED = str.maketrans({" ": "[ _-]?", "-": "[ _-]?", "+": r"\+", ".": r"\."})


@functools.cache
def _pattern(*, plain: bool) -> Any:  # noqa: ANN401 - google-re2 has no types
    """Return a pattern of all nouns; `plain`: only of ASCII ones, which compile in a third of the time."""
    import re2

    options = re2.Options()
    options.longest_match = True
    options.case_sensitive = False
    options.log_errors = False
    words = (word for word in vocabulary().spelled if word.isascii() or not plain)
    return re2.compile("|".join(sorted(words)).translate(_SPELLED).encode(), options)


def mentions(text: str) -> Iterator[Mention]:
    """Yield every mention in the text, in order, without overlaps."""
    plain = text.isascii()
    content = text.encode("utf-8", "replace")  # drops lone surrogates
    nouns, at, start_of = vocabulary().nouns, 0, 0
    for match in _pattern(plain=plain).finditer(content):
        first, last = match.span()
        if plain:
            start, end = first, last
        else:
            start = start_of + len(content[at:first].decode("utf-8", "replace"))
            end = start + len(content[first:last].decode("utf-8", "replace"))
            at, start_of = last, end
        key = key_of(text[start:end])
        noun = nouns.get(key)
        if noun and _stands_alone(text, start, end, key):
            yield Mention(noun, start, end, key)


def _stands_alone(text: str, start: int, end: int, key: str) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    if _is_ideograph(key[0]):
        kana = _KATAKANA.fullmatch(key[0]) and _KATAKANA.match(before)
        return not (kana or (_KATAKANA.match(key[-1]) and _KATAKANA.match(after)))
    if len(key) > _SHORT:
        return True
    left, right = _LEFT.search(text, max(0, start - 24), start), _RIGHT.match(text, end, end + 24)
    if left and right and len(left[0]) + len(right[0]) >= 24 and any(map(str.isdigit, left[0] + right[0])):
        return False  # a coincidence within base64
    return not (_goes_on(before, text[start]) or _goes_on(text[end - 1], after))


def _goes_on(before: str, after: str) -> bool:
    """Return whether a word continues between two characters."""
    if not (before.isalpha() and after.isalpha()) or _is_ideograph(before) or _is_ideograph(after):
        return False
    return not (before.islower() and after.isupper())


def _is_ideograph(character: str) -> bool:
    return any(first <= character <= last for first, last in _IDEOGRAPHS)


def words_between(text: str, start: int, end: int) -> tuple[int, int, int, int]:
    """Return counts of the words in text[start:end]: all, of no known class, that tell, that are about a secret."""
    words = [word.lower() for word in WORDS.findall(text[start:end])]
    classes, about = list(map(class_of, words)), vocabulary().about
    return len(words), classes.count("other"), classes.count("tells"), sum(word in about for word in words)


@remembered
def class_of(word: str) -> str:
    """Return the role of a word in a sentence about secrets."""
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
