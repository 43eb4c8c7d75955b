"""Words of any script: the unit in which texts are compared.

A word is a casefolded run of letters, digits and marks. Scripts without spaces (and Hangul, whose particles are
attached to words) are cut into overlapping pairs of characters, so that a part of a sentence still matches.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import cache, lru_cache
from typing import Literal

from state.text.patterns import UNSPACED, late_pattern

# Zero-width and directional controls have category Cf; these are invisible, too, but have another.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0") | {
    chr(code) for start, end in ((0xFE00, 0xFE0F), (0xE0000, 0xE0FFF)) for code in range(start, end + 1)
}
_UNSPACED = late_pattern(rf"[{UNSPACED}]+")
# Ligatures of whole sentences: two would fill a line, and normalising makes a text of them eighteen times as long.
_ABBREVIATED = {0xFDFA: "صلعم", 0xFDFB: "جل"}
_NOT = ((late_pattern(r"\bcan['’]?not\b|\bcan['’]t\b"), "can not"), (late_pattern(r"\bwon['’]t\b"), "will not"))
_CONTRACTED_NOT = late_pattern(r"(?<=[a-z])n['’]t\b")
_POSSESSIVE = late_pattern(r"(?<=\w)['’]s\b")
_NUMBER = late_pattern(r"\d+(?:[.,:/-]\d+)*")
SENTENCE_ENDS = late_pattern(r"(?<=[.!?;。！？؟;])[\"'”’)]*\s+|(?<=[。！？])|\n+")
_THOUSANDS = late_pattern(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
# A picture, without the tone of its skin; and what makes another name of a letter, as in C++ and C#.
_SIGN = late_pattern(r"[\U0001f000-\U0001f3fa\U0001f400-\U0001faff]|(?<!\w)[A-Za-z](?:\+\+|#)(?!\w)")
_PLURAL_KEEPS = ("ss", "us", "is")
_VOWELS = frozenset("aeiouy")
MOST_MARKS = 30  # combining marks in a row that are kept: the limit of Unicode's stream-safe format


def visible(text: str) -> str:
    """Return the text without invisible characters: zero-width, directional and tag characters, variation selectors.

    A ligature of a whole sentence becomes its abbreviation.
    """
    if text.isascii():
        return text
    signs = set(text)
    hidden = {ord(char): None for char in signs if char in _INVISIBLE or unicodedata.category(char) == "Cf"}
    read = hidden | {code: short for code, short in _ABBREVIATED.items() if chr(code) in signs}
    return text.translate(read) if read else text


def stream_safe(text: str) -> str:
    """Drop combining marks after 30 in a row: normalisation sorts them in quadratic time."""
    if text.isascii():
        return text
    marks = "".join(sorted(char for char in set(text) if unicodedata.combining(char)))
    if sum(map(text.count, marks)) <= MOST_MARKS:
        return text
    return re.sub(rf"[{marks}](?<=[{marks}]{{{MOST_MARKS + 1}}})[{marks}]*", "", text)


# A dream compares the same lines many times.
@lru_cache(maxsize=2_048)
def normalise(text: str) -> str:
    """Return the form in which two lines are equal; idempotent.

    Unicode's canonical caseless form, without invisible characters and with single spaces. "10² m" and "102 m"
    differ.
    """
    return _folded(text, "NFC")


def repeat_key(text: str) -> str:
    """Return the form in which a text repeats another: as `normalise`, without the final punctuation."""
    return normalise(text).rstrip(" .!。！")


@lru_cache(maxsize=2_048)
def search_form(text: str) -> str:
    """Return the form in which words are searched and compared; idempotent.

    Like `normalise`, but in the compatibility form: wide, raised and ligated letters match plain ones.
    """
    return _folded(text, "NFKC")


def _folded(text: str, form: Literal["NFC", "NFKC"]) -> str:
    if text.isascii():
        return " ".join(text.casefold().split())
    folded = text
    for _ in range(3):  # normalising may create a capital, a mark or a filler; the second pass settles it
        before, shown = folded, unicodedata.normalize("NFD", stream_safe(visible(folded)))
        folded = visible(unicodedata.normalize(form, stream_safe(shown).casefold()))
        if folded == before:
            break
    return " ".join(folded.split())


def terms(text: str) -> tuple[str, ...]:
    """Return all words in order, with repetitions: "don't" gives do, not; "user's" user; 東京都 東京, 京都."""
    folded = search_form(text)
    for pattern, spelt_out in _NOT:
        folded = pattern.sub(spelt_out, folded)
    folded = _POSSESSIVE.sub("", _CONTRACTED_NOT.sub(" not", folded))
    between = {ord(char): " " for char in set(folded) if unicodedata.category(char)[0] not in "LNM"}
    found: list[str] = []
    for run in folded.translate(between).split():
        found.extend([run] if run.isascii() else _cut(run))
    return tuple(found)


def signs(text: str) -> tuple[str, ...]:
    """Return words that stand for the pictures and the names such as C++ in a text, by which a search finds them."""
    return tuple("sign" + "".join(f"{ord(char):x}" for char in found.casefold()) for found in _SIGN.findall(text))


@cache
def stop_words() -> frozenset[str]:
    """Return the stop words of all languages.

    Negations are content ("does not work" is not "works"), and so are words with a meaning in English that are
    function words of another language (die, war, man).
    """
    from state.text.languages.loader import words  # imported late: a short command compares no texts

    return words("stop")


@lru_cache(maxsize=2_048)
def content_terms(text: str) -> frozenset[str]:
    """Return the content words: no stop words, English plurals and -ed/-ing folded, negations kept."""
    return frozenset(stem(term) for term in terms(text) if term not in stop_words())


def fold_marks(text: str) -> str:
    """Return the text without case, accents and other marks: Müller as muller, й as и."""
    if text.isascii():
        return text.casefold()
    return "".join(char for char in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(char))


def stem(term: str) -> str:
    """Return a lower-case word without plural, -ed, -ing and final e; words of other scripts unchanged."""
    if len(term) < 4 or not (term.isascii() and term.isalpha()):
        return term
    if term.endswith("ies"):
        term = term[:-3] + "y"
    elif term.endswith("s") and not term.endswith(_PLURAL_KEEPS):
        term = term[:-1]
    term = _without_suffix(term)
    return term[:-1] if len(term) > 3 and term.endswith("e") else term


def ends_as_question(text: str) -> bool:
    """Return whether a text ends with a question mark; such a text rarely answers anything."""
    return text.rstrip(" \n\t\"'”’)]*_").endswith(("?", "？", "؟"))


def only_asks(text: str) -> bool:
    """Return whether each sentence of a text ends with a question mark."""
    said = [part for part in SENTENCE_ENDS.split(text.strip()) if part.strip()]
    return bool(said) and all(map(ends_as_question, said))


def numbers(text: str) -> tuple[str, ...]:
    """Return the numbers in order, in ASCII: 8,000 as 8000, 20th as 20; 3.5, 1.2.3, 17:30, 2026-03-20 whole."""
    digits = "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in search_form(text))
    found = (match.group() for match in _NUMBER.finditer(digits))
    return tuple(number.replace(",", "") if _THOUSANDS.fullmatch(number) else number for number in found)


def counted(number: int, noun: str, many: str = "") -> str:
    """Return a number with its noun: no notes, 1 note, 1,200 notes; `many` is an irregular plural."""
    return f"1 {noun}" if number == 1 else f"{f'{number:,}' if number else 'no'} {many or f'{noun}s'}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean …?)" with the known word that is nearest to this one; empty if none is near."""
    from difflib import get_close_matches  # late: only errors need it

    near = get_close_matches(word, list(known), 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def covers(text: str, other: str, share: float = 1.0) -> bool:
    """Return whether a text has this share of another text's content words, and all of its numbers."""
    words = content_terms(other)
    kept = len(words & content_terms(text)) >= share * len(words)
    return kept and set(numbers(other)) <= set(numbers(text))


def jaccard(a: Collection[str], b: Collection[str]) -> float:
    """Return shared words / all words, in [0, 1]; 0 if both are empty, since nothing is shared."""
    left, right = frozenset(a), frozenset(b)
    either = len(left | right)
    return len(left & right) / either if either else 0.0


def _cut(run: str) -> list[str]:
    parts: list[str] = []
    end = 0
    for match in _UNSPACED.finditer(run):
        parts.extend([run[end : match.start()]] if match.start() > end else [])
        piece = match.group()
        parts.extend([piece[i : i + 2] for i in range(len(piece) - 1)] or [piece])
        end = match.end()
    parts.extend([run[end:]] if end < len(run) else [])
    return parts


def _without_suffix(term: str) -> str:
    for suffix in ("ing", "ed"):
        rest = term.removesuffix(suffix)
        if rest == term or len(rest) < 3 or term.endswith("eed") or not _VOWELS & set(rest):
            continue
        doubled = len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz"
        return rest[:-1] if doubled else rest
    return term
