"""Supersession: that a newer crystal holds in place of an older one, since when, and on whose word.

Only a named relation is one: the owner's word, an item of a session that names what it replaces, a model's operation
that names a line. No texts are compared for it. Nothing is deleted or hidden by it: a search shows the current value
first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from state.trust import Trust


class Cause(StrEnum):
    """Who said that a value is superseded."""

    DREAM = "dream"
    SESSION = "session"
    NOTE = "note"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Supersession:
    """Two crystals, by their rows in the store, of which `newer` holds.

    `at` is when it was said, `trust` whose word it is, `version` the one whose dream said so.
    """

    older: int
    newer: int
    at: datetime
    trust: Trust
    cause: Cause
    version: int | None = None


def current_values(pairs: Iterable[tuple[int, int]], said: Mapping[int, str]) -> dict[int, int]:
    """For each superseded row the one that holds now: of all that follow it, one that nothing supersedes.

    `pairs` are older and newer rows; `said` tells of each row when it was said last. Of several, and where a circle
    supersedes itself, the one that was said last holds.
    """
    after: dict[int, set[int]] = {}
    for older, newer in pairs:
        after.setdefault(older, set()).add(newer)
    following = {
        row: _following(row, after) for row in {*after, *(newer for rows in after.values() for newer in rows)}
    }
    found = {}
    for start in after:
        last = [row for row in following[start] if all(row in following[other] for other in following[row])]
        now = max(last, key=lambda row: (said[row], row))
        if now != start:
            found[start] = now
    return found


def _following(start: int, after: Mapping[int, set[int]]) -> set[int]:
    """Return the row and all that follow it."""
    reached, waiting = {start}, [start]
    while waiting:
        new = after.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached
