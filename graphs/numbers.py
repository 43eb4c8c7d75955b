"""Numbers: which numbers a line may name, those of its sources in any honest notation.

A date may change its notation, "tomorrow" may become a date, "5 pm" 17:00, "three" 3, "10k" 10000; and as many things
may be counted as are cited.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime
from functools import cache

from state.text.languages.loader import languages, table, table_of
from state.text.languages.lookup import Lookup
from state.text.languages.tables import Numerals, Times
from state.text.words import numbers, stem, terms

# How far from the day on which something was said a date may lie that was said as "next Tuesday".
NEAR_DAYS = 21

_COMPOSITE = re.compile(r"\d+(?:[-:/]\d+)+|\d{1,4}(?:\.\d{1,2}){2}|\d{1,2}\.\d{1,2}\.\d{2,4}")
_DAY = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})|(\d{1,2})\.(\d{1,2})\.(\d{4})")
_AFTERNOON = re.compile(r"\b(\d{1,2})(?:[:.]\d\d)? ?p\.?m\b", re.IGNORECASE)
_THOUSANDS = re.compile(r"\b(\d+(?:\.\d+)?) ?k\b", re.IGNORECASE)


def invented(text: str, cited: Sequence[tuple[str, datetime]]) -> tuple[str, ...]:
    """The numbers of a text that none of the cited texts, each with the time when it was said, accounts for."""
    known = {str(number) for number in range(2, len(cited) + 1)} | {"0"}
    for said, at in cited:
        known |= _known(said, at)
    days = [at.date() for said, at in cited if _tells_day(said)]
    return tuple(
        number
        for number in dict.fromkeys(numbers(text))
        if not (number in known or _rewritten(number, known) or _near(number, days))
    )


def number_word(word: str) -> str | None:
    """The number that a word, or its stem, spells, in digits: "three" is 3, and so is "march"."""
    return _values().get(word) or _stems().get(word)


@cache
def _values() -> dict[str, str]:
    """The numbers that words spell; what English says first holds: "once" is 1, though it is 11 in Spanish."""
    spelt: dict[str, str] = {}
    for language in languages():
        known, months = table_of(language, Numerals), table_of(language, Times).months
        rows = (
            (known.multiples, 1, 1),
            (known.cardinals, 1, 1),
            (known.ordinals, 1, 1),
            (months, 1, 1),
            (known.tens, 20, 10),
        )
        for groups, first, step in rows:
            for number, words in enumerate(groups):
                spelt = dict.fromkeys(words, str(first + number * step)) | spelt
    return spelt


@cache
def _stems() -> dict[str, str]:
    return {stem(word): value for word, value in reversed(_values().items())}


@cache
def _relative() -> Lookup:
    known = table(Times)
    return Lookup((*known.relative, *known.near, *known.weekdays))


def _known(text: str, at: datetime) -> set[str]:
    found = set(numbers(text))
    known = {str(at.year), str(at.month), str(at.day)} | found
    for number in found:
        known |= set(_parts(number)) | {number.replace(",", ".")}
    words = terms(text)
    spelt = _values()
    known |= {spelt[word] for word in (*words, *text) if word in spelt}
    known |= {str(int(match[1]) + 12) for match in _AFTERNOON.finditer(text) if int(match[1]) < 12}
    return known | {f"{float(match[1]) * 1000:.0f}" for match in _THOUSANDS.finditer(text)}


def _parts(number: str) -> list[str]:
    """The parts of a date, a time or a range, and a plain number without leading zeros."""
    if not number.isdigit() and not _COMPOSITE.fullmatch(number):
        return []
    return [part.lstrip("0") or "0" for part in re.split(r"\D", number)]


def _rewritten(number: str, known: set[str]) -> bool:
    parts = _parts(number)
    return bool(parts) and all(part in known for part in parts)


def _tells_day(text: str) -> bool:
    """Whether a text says a day in relation to the one on which it was said."""
    return _relative().is_in(text, terms(text))


def _near(number: str, days: Sequence[date]) -> bool:
    match = _DAY.fullmatch(number)
    if match is None:
        return False
    year, month, day = (match[1], match[2], match[3]) if match[1] else (match[6], match[5], match[4])
    try:
        named = date(int(year), int(month), int(day))
    except ValueError:
        return False
    return any(abs((named - other).days) <= NEAR_DAYS for other in days)
