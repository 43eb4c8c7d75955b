"""Item: one thing that a session keeps in mind; its score and its ids."""

import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256

from state.text.chunks import tokens

HOUR_SECONDS = 3_600.0
# Weights by priority, lowest first; also the importance of an item that was given none.
WEIGHTS = {"low": 0.25, "medium": 0.5, "high": 0.75, "critical": 1.0}
TTL_SECONDS = {
    "low": HOUR_SECONDS, "medium": 4 * HOUR_SECONDS, "high": 12 * HOUR_SECONDS, "critical": 24 * HOUR_SECONDS,
}  # fmt: skip
PLACES = 6  # decimals of a score, when computed and compared


class State(StrEnum):
    """The state of an item. Only `live` and `hidden` items are in the set and count against its limits."""

    LIVE = "live"
    HIDDEN = "hidden"  # softly forgotten: counted, not remembered, first to leave
    ARCHIVED = "archived"  # found by recall, restorable
    PURGED = "purged"  # a row without content


@dataclass(frozen=True, slots=True)
class Related:
    """A typed relation of an item to something else."""

    relation_type: str
    target_element_id: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class Item:
    """One item, as stored and as callers get it.

    `importance` is given; `importance_score` is computed at each access. `seq` counts the items of the session: it is
    the order of arrival and the last tie-break. `access_count` starts at 1.
    """

    id: str
    session_id: str
    content: str
    priority: str
    expires_at: datetime | None
    created_at: datetime
    access_count: int
    importance_score: float
    tags: tuple[str, ...]
    metadata: dict[str, str]
    agent_id: str
    source: str
    seq: int
    importance: float
    token_count: int
    step_index: int
    last_accessed_at: datetime
    content_hash: str
    state: State = State.LIVE
    state_reason: str = ""
    promoted_to_id: str | None = None
    promoted_at: datetime | None = None
    promotion_reason: str | None = None
    relations: tuple[Related, ...] = ()

    def is_expired(self, now: datetime) -> bool:
        """Return whether the item has expired at this moment."""
        return self.expires_at is not None and now >= self.expires_at


_FIRST, _LAST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))  # noqa: DTZ901


def after(moment: datetime, seconds: float) -> datetime:
    """Return the moment this many seconds later, clamped to the calendar."""
    try:
        return moment.astimezone(UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return _LAST if seconds > 0 else _FIRST


def score(accesses: int, age_seconds: float, priority: str, length: int, ttl_seconds: float | None = None) -> float:
    """Return the computed importance, in [0, 1], rounded to six decimals.

    .4·min(access/10, 1) + .3·max(0, 1 − age/ttl) + .2·weight + .1·min(characters/1000, 1). The ttl is that of the
    priority, however often the item was extended; None: the default one. A negative age (the clock was set back)
    counts as 0.
    """
    fresh = max(0.0, 1.0 - max(0.0, age_seconds) / (ttl_seconds or TTL_SECONDS[priority]))
    used, long = min(accesses / 10, 1.0), min(length / 1_000, 1.0)
    return round(0.4 * used + 0.3 * fresh + 0.2 * WEIGHTS[priority] + 0.1 * long, PLACES)


def tokens_of(text: str) -> int:
    """Estimate how many tokens a model counts, at least one, so that no item is free."""
    return max(1, tokens(text))


def hash_of(text: str) -> str:
    """Return the SHA-256 of a content in hexadecimal."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def working_id(session: str, content: str, now: datetime) -> str:
    """Return `working_memory_{session}-{first words}_{YYYYMMDD-HHMMSS}`, which may already exist."""
    beginning = _printable(content[:20]).replace("/", " ").replace("\\", " ")
    return f"working_memory_{_printable(session[:200])}-{' '.join(beginning.split())}_{_stamp(now)}"


def promoted_id(working: str, now: datetime) -> str:
    """Return `memory_promoted_{working id}_{YYYYMMDD-HHMMSS}`."""
    return f"memory_promoted_{working}_{_stamp(now)}"


def _stamp(now: datetime) -> str:
    moment = now.astimezone(UTC)
    return f"{moment.year:04}{moment:%m%d-%H%M%S}"


def _printable(text: str) -> str:
    """Return the text without control characters and lone surrogates; white space becomes blanks."""
    return "".join(" " if char.isspace() else "" if unicodedata.category(char)[0] == "C" else char for char in text)
