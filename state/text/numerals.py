"""Numerals: the numbers of a text in the forms in which they are compared: 9:45 is 09.45, 1,000 1000, three 3."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

from state.text.languages.loader import either, numerals
from state.text.patterns import UNSPACED

# With thousands apart; a time; any other.
_NUMBER = re.compile(
    r"(?<!\d)\d{1,3}(?:[ \u00a0\u202f'’]\d{3})+(?!\d)"
    r"|\d+(?:[.,:/-]\d+|(?: ?h ?|[時时点點]| Uhr )\d\d(?!\d))*"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:([.,'’ \u00a0\u202f])\d{3})(?:\1\d{3})*")
_APART = re.compile(r"[-/ \u00a0\u202f'’]")
_AFTERNOON, _TIMES_THOUSAND = re.compile(r"\s?p\.?\s?m\b", re.IGNORECASE), re.compile(r"\s?k\b")
_BETWEEN = re.compile(r"[\s-]*(?:(?:and|und|et|y|e)\s+)?")


def numbers_in(text: str) -> Iterator[tuple[re.Match[str], frozenset[str]]]:
    """Yield each number in digits, and its forms; it equals another one if they share a form."""
    for found in _NUMBER.finditer(text):
        yield found, _forms(_ascii(found[0]), text[found.end() : found.end() + 5])


def parts_of(number: str) -> list[frozenset[str]]:
    """Return the forms of each part of a range, a date, or numbers that only look like one: 14-20, 9/10, 12 300."""
    parts = _APART.split(_ascii(number))
    return [_forms(one, "") for one in parts if one] if len(parts) > 1 else []


def numerals_in(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the numbers in words: start, end, value; "forty-five" is one."""
    found = [(one.start(), one.end(), numerals().get(one[0].lower(), 0)) for one in _words().finditer(text)]
    at = 0
    while at < len(found):
        start, end, value = found[at]
        at += 1
        while at < len(found) and _BETWEEN.fullmatch(text, end, found[at][0]) and _goes_on(value, found[at][2]):
            value = value * found[at][2] if found[at][2] >= 100 else value + found[at][2]
            end = found[at][1]
            at += 1
        yield start, end, value


def _goes_on(value: int, then: int) -> bool:
    return 1 < value < then if then >= 100 else value >= 10 and not value % 10 and 0 < then < min(value, 20)


def _ascii(number: str) -> str:
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in number)


def _forms(number: str, after: str) -> frozenset[str]:
    first, *rest = re.split(r"\D+", number)
    first = first.lstrip("0") or "0"
    found = {".".join((first, *rest))}
    if _THOUSANDS.fullmatch(number):
        found.add("".join((first, *rest)))
    if len(rest) == 1 and (not rest[0].strip("0") or number[-len(rest[0]) - 1] in ".,"):
        found.add(f"{first}.{rest[0].rstrip('0')}".rstrip("."))
    if _AFTERNOON.match(after) and len(first) < 3 and int(first) < 12:
        found |= {".".join((str(int(first) + 12), *rest))}
    if not rest and _TIMES_THOUSAND.match(after):
        found.add(f"{first}000")
    return frozenset(found)


@cache
def _words() -> re.Pattern[str]:
    unspaced = re.compile(f"[{UNSPACED}]")
    longest_first = sorted(numerals(), key=len, reverse=True)
    spaced = either(word for word in longest_first if not unspaced.match(word))
    whole = rf"(?<![^\W\d_])(?:{spaced})(?![^\W\d_])"
    return re.compile("|".join((whole, *filter(unspaced.match, longest_first))), re.IGNORECASE)
