"""Ids: readable ids for session items: the session, how the text begins, when."""

import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime

_SLUG_CHARACTERS = 20
_SESSION_CHARACTERS = 200


def working_id(session: str, content: str, now: datetime, taken: Callable[[str], bool]) -> str:
    """`working_memory_{session}-{how it begins}_{YYYYMMDD-HHMMSS}`; `-2`, `-3` and so on when that is taken."""
    beginning = _printable(content[:_SLUG_CHARACTERS]).replace("/", " ").replace("\\", " ")
    slug = " ".join(beginning.split())
    name = f"working_memory_{_printable(session[:_SESSION_CHARACTERS])}-{slug}_{_stamp(now)}"
    return name if not taken(name) else f"{name}-{_free(lambda number: not taken(f'{name}-{number}'))}"


def promoted_id(working: str, now: datetime) -> str:
    """`memory_promoted_{working id}_{YYYYMMDD-HHMMSS}`."""
    return f"memory_promoted_{working}_{_stamp(now)}"


def _free(free: Callable[[int], bool]) -> int:
    """The first free number from 2 on, when those that are taken have no gap; a free one in any case.

    Asked a few times only: a thousand items of one second that begin alike are common.
    """
    below, above = 1, 2
    while not free(above):
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if free(middle) else (middle, above)
    return above


def _stamp(now: datetime) -> str:
    moment = now.astimezone(UTC)
    return f"{moment.year:04}{moment:%m%d-%H%M%S}"


def _printable(text: str) -> str:
    """Without control characters, half characters and whatever else shows nothing; line ends become blanks."""
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    if char.isspace():
        return " "
    return "" if unicodedata.category(char)[0] == "C" else char
