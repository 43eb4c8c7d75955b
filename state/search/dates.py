"""Dates: the periods that a query names, and the last day that a note names. Moments are on the owner's clock."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from itertools import islice

from state.text.languages.loader import either, languages, months, phrases, words

_YEAR = r"(?:19|20)\d\d"
_NUMBER = "1[0-2]|0?[1-9]"
FURTHEST = timedelta(days=366)
# Before a number, a short lower-case month name may be an ordinary word: "may 3", "set 3".
_AMBIGUOUS = re.compile(r"[a-z]{3,4} ")
# Something that begins on a day does not end on it.
_BEGINS = re.compile(
    r"\b(?:from|since|starting|as of|ab|seit|depuis|dès|à partir du|desde|dal|vanaf|sinds)(?: \w+day)? $",
    re.IGNORECASE,
)
_ROWS = ("today", "yesterday", "this_week", "last_week", "this_month", "last_month", "this_year", "last_year")


@dataclass(frozen=True, slots=True)
class Period:
    """A year, month or day, as precisely as the text gives it; None matches any value."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def fit(self, moment: datetime) -> float:
        """Return 1 on the exact day, 0.5 elsewhere in the named month or year, else 0."""
        if self.year not in (None, moment.year) or self.month not in (None, moment.month):
            return 0.0
        return 1.0 if self.day == moment.day else 0.5

    def is_over(self, moment: datetime) -> bool:
        """Return whether the period ended before the day of `moment`; without a year, it means that moment's year."""
        end = (self.year or moment.year, self.month or 12, self.day or 31)
        return end < (moment.year, moment.month, moment.day)


def periods_in(text: str, now: datetime) -> tuple[Period, ...]:
    """Return the periods a text names, absolute or relative to now ("yesterday", "last month"; a week is 7 days)."""
    found = [period for _, period in periods_named(text)]
    spoken = [(there.start(), row) for row in _ROWS if (there := phrases(row).search(text))]
    relative = _relative(now) if spoken else {}
    return tuple(dict.fromkeys((*found, *(period for _, row in sorted(spoken) for period in relative[row]))))


def last_day_named(text: str, said_at: datetime) -> str:
    """Return the last day that a text names (ISO 8601), up to a year after it was said; "" if there is none.

    Days already past, and days on which something begins, do not count. Weekdays such as "Friday" are not read: a
    model writes them as dates.
    """
    today, days = said_at.date(), list[date]()
    for match, period in periods_named(text):
        is_day = period.day is not None and period.month is not None and not _AMBIGUOUS.match(match[0])
        if is_day and not _BEGINS.search(text[: match.start()]):
            years = (today.year, today.year + 1) if period.year is None else (period.year,)
            ahead = (day for year in years if (day := calendar_day(year, period)) is not None and day >= today)
            days += islice(ahead, 1)
    return max((day.isoformat() for day in days if day <= today + FURTHEST), default="")


def days_in(text: str) -> frozenset[tuple[int, int]]:
    """Return the days that a text names, each as its month and its day of the month."""
    named = (period for _, period in periods_named(text))
    return frozenset((one.month, one.day) for one in named if one.month is not None and one.day is not None)


def needs_its_day(text: str) -> bool:
    """Return whether a text says "today", "tomorrow" or "Friday", and no date: its own day tells what it means."""
    found = (one[0] for row in (*_ROWS, "dates") for one in phrases(row).finditer(text))
    return any(not re.search(r"\d", one) for one in found) and not days_in(text)  # "3 pm" is no day


def day_written(text: str) -> date | None:
    """Return the day that a text writes in full, in whatever form; None if it writes none, or may mean another."""
    if re.fullmatch(r"[12]\d{7}", text):  # 20261224
        text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    if (parts := re.match(r"\s*(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})(?!\d)", text)) is not None:
        first, second, third = map(int, parts.group(1, 3, 4))
        # A year comes first or last; a day before the month if points stand between them, else on either side.
        forms = [(first, second, third)] if first > 31 else [(third, second, first), (third, first, second)]
        forms = [one for one in forms if one[0] > 999]
        days = {calendar_day(year, Period(year, *rest)) for year, *rest in forms[: 1 if parts[2] == "." else 2]}
    else:
        named = [period for _, period in periods_named(text)]
        days = {calendar_day(one.year or 0, one) for one in named} if len(named) == 1 else set()
    days -= {None}
    return days.pop() if len(days) == 1 else None


def periods_named(text: str) -> Iterator[tuple[re.Match[str], Period]]:
    """Yield each date in the text with its period, as precisely as it is given."""
    for match in _dates().finditer(text):
        said = {group[0]: value for group, value in match.groupdict().items() if value}
        month = int(said["n"]) if "n" in said else months()[said["m"].casefold()] if "m" in said else None
        yield match, Period(int(said["y"]) if "y" in said else None, month, int(said["d"]) if "d" in said else None)


def calendar_day(year: int, period: Period) -> date | None:
    """Return the period's day in this year; None if the year has no such day."""
    try:
        return date(year, period.month or 0, period.day or 0)
    except ValueError:
        return None


def _relative(now: datetime) -> dict[str, list[Period]]:
    """Return the periods that each row of relative phrases means now."""
    monday, last_month = now - timedelta(days=now.weekday()), now.replace(day=1) - timedelta(days=1)
    return {
        "today": [_day(now)],
        "yesterday": [_day(now - timedelta(days=1))],
        "this_week": [_day(monday + timedelta(days=day)) for day in range(7)],
        "last_week": [_day(monday + timedelta(days=day)) for day in range(-7, 0)],
        "this_month": [Period(now.year, now.month)],
        "last_month": [Period(last_month.year, last_month.month)],
        "this_year": [Period(now.year)],
        "last_year": [Period(now.year - 1)],
    }


@cache
def _dates() -> re.Pattern[str]:
    names = sorted(months(), key=len, reverse=True)
    han = "|".join(name for name in names if name.endswith("月"))
    month = either(name for name in names if not name.endswith("月"))
    # A month without a day or year must be capitalised if it is also a word: "may" and "march" are verbs.
    whole = (
        form for rows in languages() for forms in rows.get("months", ()) for form in forms[:1] + _inflected(forms)
    )
    alone = {name for name in whole if not name.endswith("月")}
    alone = {name.title() for name in alone} | alone - words("capital")
    return re.compile(
        rf"\b(?:(?P<y1>{_YEAR})-(?P<n1>0[1-9]|1[0-2])(?:-(?P<d1>\d\d))?"
        rf"|(?P<d0>[0-3]?\d)\.(?P<n0>[01]?\d)\.(?P<y0>{_YEAR})"
        rf"|(?P<d2>\d{{1,2}})(?:st|nd|rd|th|er|º|\.)?(?: of| de| di)? (?P<m2>{month})\b\.?"
        rf"(?:,?(?: del?)? (?P<y2>{_YEAR}))?"
        rf"|(?P<m3>{month})\.? (?P<d3>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<y3>{_YEAR}))?"
        rf"|(?P<m4>{month})\.?,?(?: del?)? (?P<y4>{_YEAR})"
        rf"|(?-i:(?P<m5>{'|'.join(sorted(alone))}))"
        rf"|(?P<y6>{_YEAR}))\b"
        rf"|(?<!\d)(?P<y7>{_YEAR})年(?:(?P<n7>{_NUMBER})月(?:(?P<d7>\d{{1,2}})[日号號])?)?"
        rf"|(?<!\d)(?P<n8>{_NUMBER})月(?:(?P<d8>\d{{1,2}})[日号號])?|(?P<m9>{han})",
        re.IGNORECASE,
    )


def _inflected(forms: Sequence[str]) -> list[str]:
    """Return the forms of a month name that do not abbreviate it."""
    return [form for form in forms if not forms[0].startswith(form)]


def _day(moment: datetime) -> Period:
    return Period(moment.year, moment.month, moment.day)
