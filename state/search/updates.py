"""Updates: of results that answer alike, which are out of date, and which order that makes.

A result is out of date when a newer one, of no lesser trust and by nobody else, gives its subject another value. The
newer stands directly before it; when the past is asked for, directly behind it. Nothing is left out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from itertools import combinations

from state.crystals.crystal import Crystal
from state.crystals.duplicates import comparable
from state.text.identity import PERHAPS, UPDATE, update
from state.text.languages.loader import table
from state.text.languages.tables import Statements
from state.text.words import content_terms, normalise

# The first results, which anybody reads; of these, pairs at least so near in meaning, or with so many common words.
LOOKED_AT = 16
NEAR = 0.5
COMMON_WORDS = 2
# They answer alike when the worse one has so much of the better one's score.
ALIKE = 0.5
_LATEST = 2**63  # of what is not stored yet

Cosines = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A result with its score, and the one that replaces it, if any does."""

    crystal: Crystal
    score: float
    replaced_by: Crystal | None = None


class Order(Enum):
    """What stands first of an older and a newer value of the same subject."""

    NEWER = auto()
    OLDER = auto()
    AS_FOUND = auto()


def order_for(question: str, *, dated: bool) -> Order:
    """The order that a question wants; one that names a time has its own.

    One that is about what was before ("used to", "previously", "früher") wants the older first.
    """
    if dated:
        return Order.AS_FOUND
    return Order.OLDER if _former().search(normalise(question)) else Order.NEWER


@cache
def _former() -> re.Pattern[str]:
    return re.compile(table(Statements).former.pattern)


def in_order(
    ranked: Sequence[tuple[Crystal, float]], cosines: Cosines, keys: Mapping[str, int], order: Order
) -> list[Ranked]:
    """The results in this order, with what replaces each.

    `cosines` are by both ids, `keys` by the id: of two of one second the one with the higher key was written later.
    """
    looked_at = sorted(
        (crystal for crystal, _ in ranked[:LOOKED_AT]),
        key=lambda crystal: (crystal.created_at, keys.get(crystal.id, _LATEST)),
    )
    older_of, newer_of = _successions(looked_at, cosines)
    scores = {crystal.id: score for crystal, score in ranked}
    first_of = {Order.NEWER: newer_of, Order.OLDER: older_of}.get(order, {})
    placed: dict[str, Ranked] = {}

    def place(crystal: Crystal, least: float) -> None:
        score = max(scores[crystal.id], least)
        for before, _ in first_of.get(crystal.id, ())[:: 1 if order is Order.OLDER else -1]:
            if before.id not in placed and scores[before.id] >= ALIKE * scores[crystal.id]:
                place(before, score)
        if crystal.id not in placed:
            sure = [newer for newer, sureness in newer_of.get(crystal.id, ()) if sureness >= UPDATE]
            placed[crystal.id] = Ranked(crystal, score, sure[-1] if sure else None)

    for crystal, score in ranked:
        place(crystal, score)
    return list(placed.values())


_Successions = dict[str, list[tuple[Crystal, float]]]


def _successions(crystals: Sequence[Crystal], cosines: Cosines) -> tuple[_Successions, _Successions]:
    """Of each id the older and the newer ones that are values of the same subject; all are given oldest first."""
    older_of: _Successions = {}
    newer_of: _Successions = {}
    for older, newer in combinations(crystals, 2):
        cosine = cosines.get((older.id, newer.id))
        if newer.trust.rank < older.trust.rank or not _is_near(older, newer, cosine) or not comparable(older, newer):
            continue
        sureness = update(older.text, newer.text, cosine)
        if sureness >= PERHAPS:
            older_of.setdefault(newer.id, []).append((older, sureness))
            newer_of.setdefault(older.id, []).append((newer, sureness))
    return older_of, newer_of


def _is_near(one: Crystal, other: Crystal, cosine: float | None) -> bool:
    if cosine is not None:
        return cosine >= NEAR
    return len(content_terms(one.text) & content_terms(other.text)) >= COMMON_WORDS
