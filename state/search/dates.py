"""Dates: the periods that a query names, and whether a text states a time."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
           "november", "december")  # fmt: skip
_MONTH = "|".join(f"{name}|{name[:3]}" for name in _MONTHS)
_YEAR = r"(?:19|20)\d\d"
_DATE = re.compile(
    rf"\b(?:(?P<y1>{_YEAR})-(?P<n1>0[1-9]|1[0-2])(?:-(?P<d1>\d\d))?"
    rf"|(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m2>{_MONTH})\b\.?(?:,? (?P<y2>{_YEAR}))?"
    rf"|(?P<m3>{_MONTH})\.? (?P<d3>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<y3>{_YEAR}))?"
    rf"|(?P<m4>{_MONTH})\.?,? (?P<y4>{_YEAR})"
    # Alone, a month is written with a capital: "may" and "march" are verbs too.
    rf"|(?-i:(?P<m5>{'|'.join(name.title() for name in _MONTHS)}))"
    rf"|(?P<y6>{_YEAR}))\b",
    re.IGNORECASE,
)
_RELATIVE = re.compile(r"\b(?:(today|yesterday)|(this|last) (week|month|year))\b", re.IGNORECASE)
_ASKS_WHEN = re.compile(
    r"\W*(?:since |until |by )?(?:when|how long|(?:what|which) (?:date|day|week|month|year|time))\b", re.IGNORECASE
)
_WORD = re.compile(r"[a-z]+|\d+")
_TIME_WORDS = (
    frozenset(("yesterday", "today", "tonight", "tomorrow", "last", "next", "ago", "since", "soon", "recently"))
    | frozenset(("morning", "evening", "night", "weekend"))
    | frozenset(("day", "days", "week", "weeks", "month", "months", "year", "years"))
    | frozenset(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"))
    | (frozenset(_MONTHS) - {"may", "march"})  # which are verbs too
    | frozenset(map(str, range(1900, 2100)))
)


@dataclass(frozen=True, slots=True)
class Period:
    """A year, a month of it, or a day of that, as far as it was said; None stands for any."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def fit(self, moment: datetime) -> float:
        """1 on the very day, .5 elsewhere in the month or year that is meant, else 0."""
        if self.year not in (None, moment.year) or self.month not in (None, moment.month):
            return 0.0
        return 1.0 if self.day == moment.day else 0.5


def asks_when(question: str) -> bool:
    """Whether the question asks for a time."""
    return _ASKS_WHEN.match(question) is not None


def tells_time(text: str) -> bool:
    """Whether a text has a word that says when something was."""
    return not _TIME_WORDS.isdisjoint(_WORD.findall(text.casefold()))


def periods_in(text: str, now: datetime) -> tuple[Period, ...]:
    """What a text names, as dates or relative to now ("yesterday", "last month"; a week is its seven days)."""
    found: list[Period] = []
    for match in _DATE.finditer(text):
        said = {group[0]: value for group, value in match.groupdict().items() if value}
        month = int(said["n"]) if "n" in said else _month(said["m"]) if "m" in said else None
        found.append(Period(int(said["y"]) if "y" in said else None, month, int(said["d"]) if "d" in said else None))
    relative = dict.fromkeys(tuple(map(str.casefold, match.groups(""))) for match in _RELATIVE.finditer(text))
    for word, which, unit in relative:
        found.extend(_relative(word, which, unit, now))
    return tuple(dict.fromkeys(found))


def _month(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.casefold()[:3]))


def _relative(word: str, which: str, unit: str, now: datetime) -> list[Period]:
    if word:
        return [_day(now - timedelta(days=word == "yesterday"))]
    last = which == "last"
    match unit:
        case "year":
            return [Period(now.year - last)]
        case "month":
            month = now.replace(day=1) - timedelta(days=last)
            return [Period(month.year, month.month)]
        case _:
            monday = now - timedelta(days=now.weekday() + 7 * last)
            return [_day(monday + timedelta(days=day)) for day in range(7)]


def _day(moment: datetime) -> Period:
    return Period(moment.year, moment.month, moment.day)
