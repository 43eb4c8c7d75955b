"""Values: the dates, numbers and names of a line, and how they changed from one wording of it to the next."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise

from state.search.dates import Period, calendar_day, periods_named
from state.text.languages.loader import commonplace, either, weekdays
from state.text.numerals import numbers_in, numerals_in
from state.text.patterns import UNSPACED
from state.text.words import fold_marks, stop_words

LETTERS = re.compile(rf"[^\W\d_{UNSPACED}]+")
# In code, a path, an address or the name of a file, each word counts.
_IDENTIFIER = re.compile(
    r"`[^`]+`|(?<![\w/])[~.]{0,2}/[\w.~-]+(?:/[\w.~-]*)*|\b\w[\w.+-]{0,60}[@_][\w.-]*\w|\b\w+(?:\.[a-z]\w+)+"
)
# Japanese writes foreign names so, and few other words of this length.
_KATAKANA = re.compile("[ァ-ヺー]{3,}")
_SENTENCE_END = re.compile(r"(?:^|[.!?:;。！？“„«\"‚\n])\W*$")
_TIME = re.compile(r"\d{1,2}:\d\d")
_MOST_SHOWN = 3

Key = Period | frozenset[str] | int | str


class Kind(StrEnum):
    """What a value is; of a line in which several kinds changed, the first one is shown."""

    TIME = "time"
    DATE = "date"
    NUMBER = "number"
    WEEKDAY = "weekday"
    NAME = "name"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A part of a text, as a slice of it."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a text. `key` is what is compared: a period, the forms of a number, a weekday, a word."""

    span: Span
    kind: Kind
    text: str
    key: Key


def values_in(text: str, begins: Callable[[str, str], bool] = lambda _word, _behind: False) -> Iterator[Value]:
    """Yield the values of a text, those of a kind in their order.

    A word with a capital is a name within a sentence; at its beginning it is one if `begins` says so, given the word
    and the text behind it.
    """
    taken = bytearray(len(text))
    for start, end, kind, key in (*_counted(text), *_named(text, begins)):
        if not any(taken[start:end]):
            taken[start:end] = b"\1" * (end - start)
            yield Value(Span(start, end), kind, text[start:end], key)


def _counted(text: str) -> Iterator[tuple[int, int, Kind, Key]]:
    """Yield dates, numbers and weekdays, what may be a part of another one behind it."""
    for found, period in periods_named(text):
        if _is_date(text, found, period):
            yield *found.span(), Kind.DATE, period
    for found, forms in numbers_in(text):
        yield *found.span(), Kind.TIME if _TIME.fullmatch(found[0]) else Kind.NUMBER, forms
    for found, day in weekdays_in(text):
        if len(found[0]) > 3 or found[0].istitle():  # "sun" and "mar" are words of their own
            yield *found.span(), Kind.WEEKDAY, day
    for start, end, value in numerals_in(text):
        if value > 1 and not _is_common(text[start:end]):
            yield start, end, Kind.NUMBER, frozenset([str(value)])


def _named(text: str, begins: Callable[[str, str], bool]) -> Iterator[tuple[int, int, Kind, Key]]:
    for found in _IDENTIFIER.finditer(text):
        for word in LETTERS.finditer(text, *found.span()):
            if len(word[0]) > 2:
                yield *word.span(), Kind.NAME, fold_marks(word[0])
    yield from ((*found.span(), Kind.NAME, found[0]) for found in _KATAKANA.finditer(text))
    for word in LETTERS.finditer(text):
        if _is_capital(word[0]):
            is_inside = not _begins_sentence(text, word.start()) or not word[0][1:].islower()
            if is_inside or begins(word[0], text[word.end() :]):
                yield *word.span(), Kind.NAME, fold_marks(word[0])


def names_in(text: str) -> frozenset[str]:
    """Return the words with a capital that begin no sentence."""
    words = (word for word in LETTERS.finditer(text) if _is_capital(word[0]))
    return frozenset(word[0] for word in words if not _begins_sentence(text, word.start()))


def weekdays_in(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yield each name of a weekday, and which one it is; Monday is 0."""
    return ((found, weekdays().get(found[0].lower(), -1)) for found in _weekdays().finditer(text))


def through_time(wordings: Sequence[str]) -> tuple[str, ...]:
    """Return for each wording, the oldest first, the values that others of them do not have; "" without any.

    They are of one kind: the one that changed most often.
    """
    read = [tuple(values_in(text)) for text in wordings]
    best = ("",) * len(read)
    for kind in Kind:
        of_kind = [{one.key: one.text for one in values if one.kind is kind} for values in read]
        shared = set.intersection(*map(set, of_kind)) if of_kind else set[Key]()
        own = ([text for key, text in each.items() if key not in shared] for each in of_kind)
        shown = tuple(", ".join(texts[:_MOST_SHOWN]) for texts in own)
        best = max(best, shown, key=_changes)
    return best


def _changes(shown: Sequence[str]) -> int:
    said = [one for one in shown if one]
    return sum(one != other for one, other in pairwise(said))


def _is_date(text: str, found: re.Match[str], period: Period) -> bool:
    """Return whether a text is a date or, within a sentence, a month; "Mai" begins a sentence as another word."""
    if period.month is None:
        return False
    return calendar_day(2000, period) is not None if period.day else not _begins_sentence(text, found.start())


def _begins_sentence(text: str, at: int) -> bool:
    return _SENTENCE_END.search(text, max(0, at - 8), at) is not None


def _is_capital(word: str) -> bool:
    return word[0].isupper() and len(word) > 1 and not _is_common(word)


def _is_common(word: str) -> bool:
    return word.casefold() in stop_words() or word.casefold() in commonplace()


@cache
def _weekdays() -> re.Pattern[str]:
    unspaced, longest_first = re.compile(f"[{UNSPACED}]"), sorted(weekdays(), key=len, reverse=True)
    spaced = either(word for word in longest_first if not unspaced.match(word))
    whole = rf"(?<!\w)(?:{spaced})(?=s?(?!\w))"
    return re.compile("|".join((whole, *filter(unspaced.match, longest_first))), re.IGNORECASE)
