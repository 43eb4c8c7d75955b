"""Importance: the assigned importance of an item in any scale, and the score computed from its use."""

import re
from datetime import datetime

from state.errors import UsageError
from state.sessions.item import Item, Priority
from state.sessions.moments import seconds_between
from state.sessions.policies.settings import Lifetimes, Share, checked_value, shown

HOUR_SECONDS = 3_600.0
BASE_TTL_SECONDS: Lifetimes = {
    "low": HOUR_SECONDS,
    "medium": 4 * HOUR_SECONDS,
    "high": 12 * HOUR_SECONDS,
    "critical": 24 * HOUR_SECONDS,
}
# Scores are told and compared to so many places.
PLACES = 6

# From so much on an item that leaves becomes a crystal all the same; `bounded` protects the same importance.
RESCUE_IMPORTANCE = 0.7
RESCUE_ACCESSES = 5

_FULL_ACCESSES = 10
_FULL_CHARACTERS = 1_000
_OF_TEN = re.compile(r"(10(\.0+)?|[0-9](\.[0-9]+)?)/10")
_STARS = {"★": 0.3, "★★": 0.6, "★★★": 0.9}


class ScaleError(UsageError, ValueError):
    """An importance in a scale that nobody uses; pydantic tells a ValueError as the field's."""


def score(item: Item, now: datetime, ttl_seconds: float | None = None) -> float:
    """The computed importance, in [0, 1], to six decimals.

    .4·min(access/10, 1) + .3·max(0, 1 − age/ttl) + .2·weight + .1·min(characters/1000, 1). The time to live is the
    one that the priority gives, however often it was extended; None: the published one.
    """
    ttl = BASE_TTL_SECONDS[item.priority.value] if ttl_seconds is None else ttl_seconds
    fresh = max(0.0, 1.0 - seconds_between(item.created_at, now) / ttl)
    length = min(len(item.content) / _FULL_CHARACTERS, 1.0)
    return _score(item.access_count, fresh, item.priority, length)


def accesses_for(wanted: float, priority: Priority) -> int | None:
    """How few accesses let an item of this priority have so high a score, if it is new and long; None: none do."""
    return next((n for n in range(_FULL_ACCESSES + 1) if _score(n, 1.0, priority, 1.0) >= wanted), None)


def _score(accesses: int, fresh: float, priority: Priority, length: float) -> float:
    used = min(accesses / _FULL_ACCESSES, 1.0)
    return round(0.4 * used + 0.3 * fresh + 0.2 * priority.weight + 0.1 * length, PLACES)


def assigned(priority: Priority, importance: float | str | None) -> float:
    """The importance of a new item: as given, in whatever scale, else what its priority says. Raises UsageError."""
    return (
        priority.weight if importance is None else float(checked_value("importance", Share, from_scale(importance)))
    )


def from_scale(importance: object) -> object:
    """A text in one of the other scales as a number from 0 to 1; anything else as it is.

    HTM's of 0 to 10 ("7/10"), and Katra's one, two or three stars. Raises ValueError.
    """
    if not isinstance(importance, str):
        return importance
    if importance in _STARS:
        return _STARS[importance]
    if _OF_TEN.fullmatch(importance):
        return float(importance.removesuffix("/10")) / 10
    raise ScaleError(f"importance: {shown(importance)} is neither a number from 0 to 1, nor such as '7/10' or '★★'")


def deserves_rescue(item: Item) -> bool:
    """Whether an item that leaves by itself is worth a dream's look: it mattered to its writer, or was used."""
    return item.importance >= RESCUE_IMPORTANCE or item.access_count >= RESCUE_ACCESSES
