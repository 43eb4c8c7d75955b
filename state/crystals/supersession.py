"""Supersession: that a newer crystal gives the subject of an older one another value, since when, on whose word.

Nothing is deleted or hidden by it. A search shows the current value first, and MEMORY.md does not assert the old one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Self

from state.crystals.crystal import Crystal, Origin
from state.crystals.duplicates import comparable
from state.text.identity import PERHAPS, update
from state.text.sentences import ends_as_question
from state.trust import Trust

# What a dream made of texts, or kept of a line, is no news.
SAID = frozenset((Origin.SCRATCH, Origin.SESSION, Origin.WORKING, Origin.SEED))
# A longer text says many things, of which one may have changed.
MAX_CHARACTERS = 600
# Less than what is sure: the order of two results follows from it, and nothing else.
MOST_IN_DOUBT = 0.49
CERTAIN = 0.9


class Cause(StrEnum):
    """What found that a value is superseded."""

    CONSOLIDATION = "consolidation"
    DREAM = "dream"
    SESSION = "session"
    NOTE = "note"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Supersession:
    """Two crystals, by their rows in the store, of which `newer` was said last; `sureness` is in [0, 1].

    `at` is when it was said, `trust` whose word it is, `version` the one whose dream found it.
    """

    older: int
    newer: int
    sureness: float
    at: datetime
    trust: Trust
    cause: Cause
    version: int | None = None

    @classmethod
    def found(cls, older: int, newer: int, sureness: float, crystal: Crystal) -> Self:
        """The one that comparing texts finds; `crystal` is the newer one."""
        return cls(older, newer, sureness, crystal.created_at, crystal.trust, Cause.CONSOLIDATION)


def sureness_of(older: Crystal, newer: Crystal, cosine: float | None) -> float:
    """How sure it is that the newer crystal gives the older one's subject another value; 0 where it may not.

    Another speaker's words replace nothing, neither does a question, nor a page what was said or noted. What an agent
    noted since its owner spoke stands before the owner's words, and is not sure to replace them.
    """
    if newer.trust.rank < older.trust.rank and newer.trust.rank < Trust.AGENT.rank:
        return 0.0
    if newer.origin not in SAID or not comparable(older, newer) or not (is_statement(older) and is_statement(newer)):
        return 0.0
    sureness = update(older.text, newer.text, cosine)
    if newer.trust.rank < older.trust.rank:
        sureness = min(sureness, MOST_IN_DOUBT)
    return sureness if sureness >= PERHAPS else 0.0


def is_statement(crystal: Crystal) -> bool:
    """Whether a crystal states one thing: it asks nothing, and is no long text."""
    return len(crystal.text) <= MAX_CHARACTERS and not ends_as_question(crystal.text)


def one_value_each(pairs: Iterable[Supersession]) -> list[Supersession]:
    """The pairs, so that each newer crystal surely supersedes one subject's value: the surest; the others in doubt.

    What is all but certain stays so: a text may settle two things.
    """
    ranked = sorted(pairs, key=lambda pair: (-pair.sureness, pair.older))
    taken = set[int]()
    found = []
    for pair in ranked:
        doubted = pair.newer in taken and pair.sureness < CERTAIN
        found.append(replace(pair, sureness=min(pair.sureness, MOST_IN_DOUBT)) if doubted else pair)
        taken.add(pair.newer)
    return found


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
    """The row and all that follow it."""
    reached, waiting = {start}, [start]
    while waiting:
        new = after.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached
