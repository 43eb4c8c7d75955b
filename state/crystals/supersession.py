"""Supersession: the record that a newer crystal replaced an older one, since when, and on whose word.

It is only recorded when somebody names it: the owner, an item of a session that names what it replaces, or a model's
operation on a line. Texts are never compared for it. It deletes and hides nothing: a search shows the current value
first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from state.text.words import content_terms, numbers
from state.trust import Trust


class Cause(StrEnum):
    """Who said that a value is superseded."""

    DREAM = "dream"
    SESSION = "session"
    NOTE = "note"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Supersession:
    """Two crystals, by their rows in the store; `newer` is current.

    `at` is when it was said, `trust` whose word it is, `version` the version of the dream that said so.
    """

    older: int
    newer: int
    at: datetime
    trust: Trust
    cause: Cause
    version: int | None = None


def no_longer_said(note: str, old: str, new: str) -> bool:
    """Return whether a line that retold a note, and was reworded from `old` to `new`, does not say it any more.

    It counts words of the note that the line had: the new wording gives another number in place of one of them, keeps
    fewer than half, or brings hardly more than it drops. A wording that adds to the line, or joins it with others,
    does none of this: its note holds. Of 28 notes behind lines that were revised in two lives, about 13 held; this
    marks one of those, and 9 of the others.
    """
    said = content_terms(note) & content_terms(old)
    dropped, added = said - content_terms(new), content_terms(new) - content_terms(old)
    if not dropped:
        return False
    has_other_number = not set(numbers(note)) <= set(numbers(new)) and not set(numbers(new)) <= set(numbers(old))
    is_other = 2 * len(dropped) > len(said) and len(added) <= 2 * len(dropped)
    return has_other_number or is_other or len(added) <= len(dropped) + 1


def current_values(pairs: Iterable[tuple[int, int]], said: Mapping[int, str]) -> dict[int, int]:
    """Return the current row for each superseded row: one among its successors that nothing supersedes.

    `pairs` are (older, newer) rows; `said` has the time each row was last said. If there are several, or a cycle, the
    one said last is current.
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
    """Return the row and all its successors."""
    reached, waiting = {start}, [start]
    while waiting:
        new = after.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached
