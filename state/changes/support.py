"""Support: the numbers, dates and names of a line that none of its evidence has. It compares, and judges nothing.

Other words are not looked at: a line may say the same in words of its own, or in another language. A number counts as
said in whatever form, a name in any of its cases, and a day also if it follows from when something was said
("tomorrow", "Friday").
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property, lru_cache
from typing import NamedTuple

from state.changes.values import LETTERS, Kind, Span, Value, values_in, weekdays_in
from state.search.dates import Period, calendar_day, periods_named
from state.text.languages.loader import phrases
from state.text.numerals import numbers_in, numerals_in, parts_of
from state.text.words import fold_marks, search_form


class Said(NamedTuple):
    """What a line rests on: a text, and on which day of its owner's calendar it was said."""

    text: str
    day: date


_DAY_OF_MONTH = re.compile(r"\b([1-9]|[12]\d|3[01])(?:st|nd|rd|th|er|\.(?=\s[^\W\d_])|日)(?!\w)", re.ASCII)
# "Tuesday 15 September" is that day alone, and "Tuesdays" none.
_NO_DAY_ITSELF = re.compile(r"s\b|,? (?:the )?\d{1,2}\b(?![:h])|,? \d{4}-")
_ENDINGS = frozenset(  # without case and marks, as words are compared
    " s es e en n er em ns ed ing ung а я ы и у ю е о ои еи ом ем ам ям ами ями ах ях ого его ому ему ым им ых их ую"
    " юю ии ыи ая яя ов ев ь ью".split(" ")
)
_LEAST_SHARED = 4
_MOST_CHARACTERS = 100_000
_FIRST, _LAST = date(1000, 1, 1), date(9000, 1, 1)  # Python reckons with no days before year 1 or after 9999
_BEFORE, _AHEAD, _VAGUE = 7, 15, 92  # days


# Whoever looks at the memory looks at the same lines again and again.
@lru_cache(maxsize=2_048)
def unsupported(line: str, evidence: tuple[Said, ...], names: frozenset[str] = frozenset()) -> tuple[Span, ...]:
    """Return the numbers, dates and names of a line that nothing of this evidence has, in order.

    `names` are those of the memory (`names_in`), each a name at the beginning of a sentence, too. Of evidence
    that is too long to be read nothing is said.
    """
    if sum(len(text) for text, _ in evidence) > _MOST_CHARACTERS:
        return ()
    known = _Known(tuple(Said(text, min(max(day, _FIRST), _LAST)) for text, day in evidence))
    values = values_in(line, lambda word, behind: word in names or known.has_other_name(behind))
    return tuple(sorted(value.span for value in values if not known.has(value, line)))


def kinds_unsaid(text: str, others: Iterable[str], day: date) -> frozenset[Kind]:
    """Return the kinds of values that a text has and these others, read on a day, have not."""
    unsaid = unsupported(text, tuple(Said(other, day) for other in others))
    return frozenset(value.kind for value in values_in(text) if value.span in unsaid)


@dataclass(frozen=True)
class _Known:
    """What the evidence has; a line asks for little of it, so that each is read when it is asked for."""

    evidence: tuple[Said, ...]

    @cached_property
    def numbers(self) -> frozenset[str]:
        """Return the forms of all numbers."""
        found = set[str]()
        for text, _ in self.evidence:
            found.update(*(forms.union(*parts_of(number[0])) for number, forms in numbers_in(text)))
            found.update(str(value) for _, _, value in numerals_in(text))
        return frozenset(found)

    @cached_property
    def words(self) -> frozenset[str]:
        """Return all words, without case and marks."""
        return frozenset(fold_marks(word) for text, _ in self.evidence for word in LETTERS.findall(text))

    @cached_property
    def _behind_names(self) -> frozenset[str]:
        """Return the two words behind each word with a capital, and the name that is directly behind it."""
        found = set[str]()
        for text, _ in self.evidence:
            words = LETTERS.findall(text)
            for place in (place for place, word in enumerate(words, 1) if word[0].isupper()):
                found.add(fold_marks(" ".join(words[place : place + 2])))
                found.update(word for word in words[place : place + 1] if word.istitle())
        return frozenset(found)

    @cached_property
    def _named(self) -> list[tuple[Period, date]]:
        """Return the days and months that are named, with the day on which they were."""
        return [(period, day) for text, day in self.evidence for _, period in periods_named(text)]

    @cached_property
    def days(self) -> frozenset[date]:
        """Return the days that are named, or follow from when it was said."""
        found = {near for period, said in self._named for near in _near(period, said)}
        for text, said in self.evidence:
            months = {said.month, *((said + timedelta(days=days)).month for days in (-28, 28))}
            months.update(period.month for period, _ in self._named if period.month)
            in_month = map(int, _DAY_OF_MONTH.findall(text))
            meant = [Period(None, month, day) for day in in_month for month in months]
            meant += (period for number, _ in numbers_in(text) for period in _dates_of(number[0]))
            found.update(near for period in meant for near in _near(period, said))
            found.update(_relative(text, said))
        return frozenset(found)

    @cached_property
    def weekdays(self) -> frozenset[int]:
        """Return the weekdays that are named, and those of the days."""
        named = (day for text, _ in self.evidence for _, day in weekdays_in(text))
        return frozenset((*named, *(day.weekday() for day in self.days)))

    @cached_property
    def _vague(self) -> list[date]:
        """Return from which days on "next week" or "the end of the month" was said."""
        found = list[date]()
        for text, said in self.evidence:
            exact = [found[0].lower() for found, _ in weekdays_in(text)]
            exact += (found[0].lower() for found in phrases("tomorrow").finditer(text))
            others = (found[0].lower() for found in phrases("dates").finditer(text))
            if any(not re.search(r"\d", one) and not any(word in one for word in exact) for one in others):
                found.append(said)
        return found

    def has(self, value: Value, line: str) -> bool:
        """Return whether a value of a line is said."""
        match value.key:
            case Period():
                return self._has_period(value.key)
            case str():
                return self._has_name(value.text)
            case int():
                return value.key in self.weekdays
            case _:
                is_day = _DAY_OF_MONTH.match(line, value.span.start) is not None
                return self._has_number(value.text, value.key, is_day=is_day)

    def _has_number(self, number: str, forms: frozenset[str], *, is_day: bool) -> bool:
        """Return whether it is said, or its parts are, or it is a day or year that is."""
        parts = parts_of(number)
        if forms & self.numbers or (parts and all(part & self.numbers for part in parts)):
            return True
        if is_day and int(number) in {day.day for day in self.days}:
            return True
        if number.isdecimal() and len(number) == 4 and int(number) in {day.year for day in self.days}:
            return True
        return any(map(self._has_period, _dates_of(number)))

    def _has_period(self, period: Period) -> bool:
        """Return whether a day or month is named, or follows from when it was said."""
        if any(
            (one.month, period.day) in ((period.month, one.day), (period.month, None))
            and (period.year in (None, one.year) or (one.day is one.year is None and period.year == said.year))
            for one, said in self._named
        ):
            return True
        if period.day is None:
            ahead = {said + timedelta(days=days) for said in self._vague for days in (0, 31)}
            return period.month in {day.month for day in self.days | ahead}
        days = [day for day in self.days if (day.month, day.day) == (period.month, period.day)]
        for said in self._vague:
            ahead_of = (calendar_day(year, period) for year in (said.year, said.year + 1))
            days += (day for day in ahead_of if day and said <= day <= said + timedelta(days=_VAGUE))
        return any(period.year in (None, day.year) for day in days)

    def _has_name(self, name: str) -> bool:
        """Return whether a word is said, in whatever case or as a part of another one; or the words of an acronym."""
        if not LETTERS.match(name):  # a name in katakana, which no blank sets apart
            return any(name in search_form(text) for text, _ in self.evidence)
        word = fold_marks(name)
        if word in self.words or any(_is_form(word, other) for other in self.words):
            return True
        if not name.isupper() or not 1 < len(name) < 6:
            return False
        return any(word in "".join(one[0] for one in LETTERS.findall(text)).casefold() for text, _ in self.evidence)

    def has_other_name(self, behind: str) -> bool:
        """Return whether another word with a capital stands before the words with which this text begins."""
        words = LETTERS.findall(behind[:100])[:2]
        return bool(words) and (words[0] in self._behind_names or fold_marks(" ".join(words)) in self._behind_names)


def _near(period: Period, at: date) -> Iterator[date]:
    """Yield the day that is meant: without a year the nearest one, and the next one."""
    if period.day is not None:
        years = [period.year] if period.year else range(at.year - 1, at.year + 2)
        if days := [day for year in years if (day := calendar_day(year, period)) is not None]:
            yield min(days, key=lambda day: abs(day - at))
            yield min((day for day in days if day >= at), default=days[-1])


def _dates_of(number: str) -> list[Period]:
    """Return the days that a number such as 16.11., 11/16 or 2026-11-16 may mean."""
    parts = re.split("[./-]", number)
    if not (1 < len(parts) < 4 and all(part.isdecimal() and len(part) in (1, 2, 4) for part in parts)):
        return []
    years = [int(part) for part in parts if len(part) == 4]
    rest = [int(part) for part in parts if len(part) < 4]
    if len(rest) == 3:
        years, rest = [2000 + rest[2]], rest[:2]
    if len(rest) != 2 or len(years) > 1:
        return []
    year = years[0] if years else None
    return [Period(year, month, day) for month, day in (rest, rest[::-1]) if 0 < month < 13 and 0 < day < 32]


def _relative(text: str, today: date) -> Iterator[date]:
    """Yield the day on which a text was said, and those that "tomorrow" or "Friday" mean in it."""
    yield today
    if phrases("tomorrow").search(text):
        yield from (today + timedelta(days=1), today + timedelta(days=2))
    if phrases("yesterday").search(text):
        yield today - timedelta(days=1)
    meant = {day for found, day in weekdays_in(text) if not _NO_DAY_ITSELF.match(text, found.end())}
    around = (today + timedelta(days=days) for days in range(-_BEFORE, _AHEAD + 1))
    yield from (day for day in around if day.weekday() in meant)


def _is_form(word: str, other: str) -> bool:
    """Return whether two words are forms of one, or one is a part of the other."""
    if len(word) >= _LEAST_SHARED <= len(other) and (word in other or other in word):
        return True
    if word[:3] != other[:3]:
        return False
    shared = next(
        (at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other))
    )
    return shared >= 3 and word[shared:] in _ENDINGS and other[shared:] in _ENDINGS
