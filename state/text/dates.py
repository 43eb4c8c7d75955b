"""Dates that a text names: the last day on which a note with a deadline holds."""

import re
import warnings
from datetime import date, datetime, timedelta

# In these languages the names of months are read.
LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt", "pl", "ru", "sv", "tr", "uk", "ja", "ko", "zh")
FURTHEST = timedelta(days=366)

# Dates overlap with what is none: "Monday 23 March".
_DATE = re.compile(
    r"(?=(?<![\w.,:/-])("
    r"20\d\d-[01]\d-[0-3]\d|[0-3]?\d\.[01]?\d\.20\d\d"  # in figures
    r"|[0-3]?\d(?:\.|st|nd|rd|th)? (?:of |de )?[^\W\d_]{3,}(?:,? 20\d\d)?"  # 19 March
    r"|[^\W\d_]{3,}\.? [0-3]?\d(?:st|nd|rd|th)?(?:, 20\d\d)?"  # March 19
    r")(?![\w:/-]|[.,]\d))"
    r"|(?=(?<!\d)([01]?\d\s?[月월]\s?[0-3]?\d\s?[日일]))"
)
_NAME, _LETTERS = re.compile(r"[^\W\d_]"), re.compile(r"[^\W\d_]{3,}")
# Shorter names of months are other words as well, unless they are written like these.
_LONG = 5
_SHORT = frozenset(
    ("Jan Feb Mar Apr May Jun Jul Aug Sep Sept Oct Nov Dec June July Juni Juli Mars März Mai mars avril juin").split()
)
# What begins on a day does not end with it.
_BEGINS = re.compile(
    r"\b(?:from|since|starting|as of|ab|seit|depuis|dès|à partir du|desde|dal|vanaf|sinds)(?: \w+day)? $",
    re.IGNORECASE,
)


def last_day_named(text: str, said_at: datetime) -> str:
    """Return the last day that a text names (ISO 8601), within a year of when it was said; "" for none.

    A day that is past when it is said is none, nor is one on which something begins. Days without a date, such as
    "Friday", are not read: a model writes them as dates.
    """
    today = said_at.date()
    found = (match for match in _DATE.finditer(text) if not _BEGINS.search(text[: match.start()]))
    named = (_day(match[1] or match[2], said_at) for match in found)
    return max((day.isoformat() for day in named if day and today <= day <= today + FURTHEST), default="")


def _day(words: str, said_at: datetime) -> date | None:
    """Return the day that these words are, the next one where they name no year; None if they are none."""
    if not _NAME.search(words):
        return _in_figures(words)
    if (name := _LETTERS.search(words)) and len(name[0]) < _LONG and name[0] not in _SHORT:
        return None  # "4 min", "may 3 times"
    settings = {
        "RELATIVE_BASE": said_at.replace(tzinfo=None) - timedelta(days=1),  # the day itself is to come
        "PREFER_DATES_FROM": "future",
        "REQUIRE_PARTS": ["day", "month"],
        "PARSERS": ["absolute-time"],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from dateparser import parse

        found = parse(words, languages=list(LANGUAGES), settings=settings)
    return found.date() if found else None


def _in_figures(words: str) -> date | None:
    """Return the day of 2026-03-19 and 19.03.2026; None if there is no such day."""
    parts = [int(part) for part in re.split(r"[.-]", words)]
    year, month, day = parts if "-" in words else reversed(parts)
    try:
        return date(year, month, day)
    except ValueError:
        return None
