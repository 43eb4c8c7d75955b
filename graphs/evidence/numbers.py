"""Numbers: which numbers a line may name, those of its sources in any honest notation, and what follows from them.

A date may change its notation, "tomorrow" may become a date, "5 pm" 17:00, "three" 3, "10k" 10000; as many things
may be counted as are cited; and two of these make a third: a sum, a difference, a date or an hour moved by so much.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cache
from itertools import combinations, groupby, islice, pairwise, product
from typing import Self

from state.text.languages.loader import languages, table, table_of
from state.text.languages.lookup import Lookup
from state.text.languages.tables import Numerals, Times
from state.text.statement import read_statement
from state.text.words import numbers, search_form, stem, terms

# How far from the day on which something was said a date may lie that was said as "next Tuesday".
NEAR_DAYS = 21
# So many numbers of the cited texts are reckoned with: of more, any sum would be one of two.
MOST_RECKONED = 16

_LONGEST, _FAR, _DAY_MINUTES = 16, 1_000, 24 * 60
_CONVERSIONS = {Fraction(one, other) for one, other in ((1, 100), (100, 1), (1, 1000), (1000, 1), (60, 1), (1, 60))}

_COMPOSITE = re.compile(r"\d+(?:[-:/]\d+)+|\d{1,4}(?:\.\d{1,2}){2}|\d{1,2}\.\d{1,2}\.\d{2,4}")
_CLOCK = re.compile(r"\d{1,2}[:.]\d\d")
_DAY = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})|(\d{1,2})\.(\d{1,2})\.(\d{4})")
_AFTERNOON = re.compile(r"\b(\d{1,2})(?:[:.]\d\d)? ?p\.?m\b", re.IGNORECASE)
_SPACE = re.compile(r"[^\w'’-]+")
_THOUSANDS = re.compile(r"\b(\d+(?:\.\d+)?) ?k\b", re.IGNORECASE)


def invented(text: str, cited: Sequence[tuple[str, datetime]]) -> tuple[str, ...]:
    """The numbers of a text that none of the cited texts, each with the time when it was said, accounts for."""
    known = {str(number) for number in range(2, len(cited) + 1)} | {"0"}
    for said, at in cited:
        known |= _known(said, at)
    days = [at.date() for said, at in cited if _tells_day(said)]
    strange = [
        number
        for number in dict.fromkeys(numbers(text))
        if not (number in known or _rewritten(number, known) or _near(number, days))
    ]
    if not strange:
        return ()
    reckoned = Reckoned.of(cited)
    here = {str(day) for _, day in named_days(text)}
    follow = reckoned.values_of(text)
    return tuple(
        one for one in strange if one not in follow and (one in here or not reckoned.follows(one, _measured(text)))
    )


@dataclass(frozen=True, slots=True)
class Reckoned:
    """What the cited texts give to reckon with.

    The plain numbers of each text, what they measure, by how much something is moved, dates and weekdays, hours in
    minutes.
    """

    numbers: tuple[frozenset[Fraction], ...]
    measured: frozenset[tuple[Fraction, str]]
    amounts: frozenset[int]
    counts: frozenset[int]
    dates: frozenset[date]
    weekdays: frozenset[int]
    minutes: frozenset[int]

    @classmethod
    def of(cls, cited: Sequence[tuple[str, datetime]]) -> Self:
        """What there is in texts, each with the time when it was said."""
        texts = [text for text, _ in cited]
        values = [word.text for text in texts for word in read_statement(text).words if word.number]
        plain = [frozenset(islice(_plain(text), MOST_RECKONED)) for text in texts]
        whole = {int(number) for some in plain for number in some if number.denominator == 1 and number <= _FAR}
        return cls(
            tuple(plain),
            frozenset().union(*map(_measured, texts)),
            frozenset().union(*map(_amounts, texts)),
            frozenset(whole),
            frozenset(day for text, at in cited for day in _dates(text, at.date())),
            frozenset(int(value[1:]) for value in values if re.fullmatch(r"d\d", value)),
            frozenset(60 * int(one[1:3]) + int(one[3:5]) for one in values if re.fullmatch(r"t\d{4}", one))
            | {60 * hour for hour in whole if hour < 24},
        )

    def follows(self, number: str, measured: Collection[tuple[Fraction, str]] = ()) -> bool:
        """Whether a number, or an hour, follows from these: of two texts, or by how much something is moved."""
        if _CLOCK.fullmatch(number):
            hour, minute = map(int, re.split(r"\D", number))
            return 60 * hour + minute in self._hours()
        wanted = _fraction(number)
        if wanted is None:
            return False
        moved = [frozenset(map(Fraction, self.amounts))]
        found = {
            result
            for some, others in combinations([*self.numbers, *moved], 2)
            for a, b in product(some, others)
            for result in (a + b, abs(a - b))
        }
        found |= {
            sum((number for some in self.numbers for number in some), Fraction(0)),
            *map(Fraction, self.amounts),
        }.union(*self.numbers)
        found |= {
            one * part for some in self.numbers for one in some for part in (2, Fraction(1, 2)) if 2 in self.amounts
        }
        converted = any(
            wanted == value and unit != other and value / one in _CONVERSIONS
            for value, unit in measured
            for one, other in self.measured
            if one
        )
        return wanted in found or converted

    def values_of(self, text: str) -> frozenset[str]:
        """The days, months, years and weekdays of a text that are of dates which follow, as a statement has them."""
        dates, named = self._moved(), named_days(text)
        found = {str(day.day) for day in dates if (day.month, day.day) in named}
        found |= {f"m{day.month}" for day in dates} | {f"d{day.isoweekday()}" for day in dates}
        return frozenset(found | {str(day.year) for day in dates})

    def _hours(self) -> frozenset[int]:
        amounts = self.amounts | self.counts
        by = {one for one in amounts if one <= 90} | {60 * one for one in amounts if one < 24}
        return frozenset((at + sign * one) % _DAY_MINUTES for at in self.minutes for one in by for sign in (1, -1))

    def _moved(self) -> frozenset[date]:
        by = {sign * one for one in self.amounts | self.counts if one <= 366 for sign in (1, -1)}
        months = {(12 * day.year + day.month - 1 + one, min(day.day, 28)) for day in self.dates for one in by}
        later = {date(at // 12, at % 12 + 1, day) for at, day in months if 12 < at < 12 * 9_999}
        next_named = {
            day + timedelta(days=ahead)
            for day in self.dates
            for ahead in range(1, 15)
            if (day + timedelta(days=ahead)).isoweekday() in self.weekdays
        }
        moved = {day + timedelta(days=one) for day in self.dates for one in by}
        return frozenset(moved | later | {day - timedelta(days=1) for day in later} | next_named)


def _fraction(number: str) -> Fraction | None:
    return Fraction(number) if len(number) < _LONGEST and number.replace(".", "", 1).isdecimal() else None


def _plain(text: str) -> Iterator[Fraction]:
    """The numbers of a text but the days of dates, and what words spell; "four hundred and twelve" is one."""
    days = {str(day) for _, day in named_days(text)}
    yield from (found for number in numbers(text) if number not in days and (found := _fraction(number)) is not None)
    spoken = [word for word in read_statement(text).words if word.text != "and"]
    for is_number, group in groupby(spoken, key=lambda word: word.number and word.text.isdecimal()):
        total = 0
        for word in group if is_number else ():
            value = int(word.text[:_LONGEST])
            total = total * value if value in {100, 1000} and 0 < total < value else total + value
        if is_number and str(total) not in days:
            yield Fraction(total)


def _measured(text: str) -> frozenset[tuple[Fraction, str]]:
    """The numbers of a text, each with the word behind it."""
    pairs = pairwise(read_statement(text).words)
    return frozenset(
        (value, word.text)
        for one, word in pairs
        if one.number and (value := _fraction(one.text)) and word.text.isalpha()
    )


def _amounts(text: str) -> set[int]:
    """By how much a text moves something: "a week" is 7, "two weeks" are 14, "half an hour" is 30."""
    folded = f" {_SPACE.sub(' ', search_form(text))} "
    found = {value for phrase, value in _spelt_amounts() if phrase in folded}
    counted = {7 * int(value) for value, unit in _measured(text) if f" {unit} " in _weeks() and value < _FAR}
    return found - {7} | counted if counted else found


@cache
def _spelt_amounts() -> tuple[tuple[str, int], ...]:
    groups = table(Numerals).amounts
    return tuple((_spaced(phrase), int(group[0])) for group in groups for phrase in group[1:])


@cache
def _weeks() -> frozenset[str]:
    return frozenset(
        f" {stem(phrase)} " for group in table(Numerals).amounts for phrase in group[1:] if group[0] == "7"
    )


def _spaced(phrase: str) -> str:
    return phrase if phrase >= "\u0e00" else f" {phrase} "


def named_days(text: str) -> set[tuple[int, int]]:
    """The months and days that a text names."""
    return {(month, day) for month, day, _ in _month_days(text)}


def _month_days(text: str) -> Iterator[tuple[int, int, int]]:
    versions = {number for number in numbers(text) if number.count(".") and not _DAY.fullmatch(number)}
    words = read_statement(text).words
    for at, word in enumerate(words):
        near = [other.text for other in words[max(0, at - 3) : at + 4] if other.number and other.text.isdecimal()]
        year = next((int(value) for value in near if len(value) == 4), 0)
        dotted = any(part.lstrip("0") == word.text[1:] for number in versions for part in number.split("."))
        if word.number and word.text[0] == "m" and not dotted:
            yield from (
                (int(word.text[1:]), int(value), year) for value in near if len(value) < 3 and 0 < int(value) < 32
            )


def _dates(text: str, at: date) -> Iterator[date]:
    """The days that a text names; that on which it was said, when it says another in relation to it."""
    if _tells_day(text):
        yield at
    for month, day, year in _month_days(text):
        with suppress(ValueError):  # there is no such day
            yield date(year or at.year, month, day)


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
