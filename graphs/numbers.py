"""Numbers: which numbers a line may name, those of its sources in any honest notation.

A date may change its notation, "tomorrow" may become a date, "5 pm" 17:00, "three" 3, "10k" 10000; and as many things
may be counted as are cited.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime

from state.text.words import numbers, stem, terms

# How far from the day on which something was said a date may lie that was said as "next Tuesday".
NEAR_DAYS = 21

_COMPOSITE = re.compile(r"\d+(?:[-:/]\d+)+|\d{1,4}(?:\.\d{1,2}){2}|\d{1,2}\.\d{1,2}\.\d{2,4}")
_DAY = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})|(\d{1,2})\.(\d{1,2})\.(\d{4})")
_AFTERNOON = re.compile(r"\b(\d{1,2})(?:[:.]\d\d)? ?p\.?m\b", re.IGNORECASE)
_THOUSANDS = re.compile(r"\b(\d+(?:\.\d+)?) ?k\b", re.IGNORECASE)
_RELATIVE = frozenset(
    word
    for row in (
        "today tonight tomorrow yesterday next last ago soon weekend week weeks day days month",
        "monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun",
        "heute morgen gestern übermorgen nächste nächsten nächster woche wochen tag tagen",
        "montag dienstag mittwoch donnerstag freitag samstag sonntag",
        "demain hier prochain prochaine semaine lundi mardi mercredi jeudi vendredi samedi dimanche",
        "mañana ayer hoy próximo próxima semana lunes martes miércoles jueves viernes sábado domingo",
        "завтра вчера сегодня неделя неделе",
    )
    for word in row.split()
)
_RELATIVE_UNSPACED = re.compile("今天|明天|昨天|后天|周|星期|来週|明日|昨日")
_SPELT = (
    "one two three four five six seven eight nine ten eleven twelve",
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "un deux trois quatre cinq six sept huit neuf dix onze douze",
    "uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth",
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
)
_VALUES = {word: str(number) for row in _SPELT for number, word in enumerate(row.split(), 1)} | {
    "once": "1",
    "twice": "2",
    "both": "2",
    "zweimal": "2",
    "dreimal": "3",
}
_VALUES |= {
    word: str(number)
    for row in (
        "twenty thirty forty fifty sixty seventy eighty ninety",
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    )
    for number, word in zip(range(20, 100, 10), row.split(), strict=True)
}
_STEMS = {stem(word): value for word, value in _VALUES.items()}
_HAN = {word: str(number) for number, word in enumerate("一二三四五六七八九十", 1)} | {"两": "2"}


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
    return _VALUES.get(word) or _STEMS.get(word)


def _known(text: str, at: datetime) -> set[str]:
    found = set(numbers(text))
    known = {str(at.year), str(at.month), str(at.day)} | found
    for number in found:
        known |= set(_parts(number)) | {number.replace(",", ".")}
    words = terms(text)
    known |= {_VALUES[word] for word in words if word in _VALUES} | {_HAN[one] for one in text if one in _HAN}
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
    return not _RELATIVE.isdisjoint(terms(text)) or bool(_RELATIVE_UNSPACED.search(text))


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
