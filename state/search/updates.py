"""Updates: orders two results that say something about the same thing at different times.

The newer one comes directly before the older one, or directly after it if the question asks about the past. Nothing
is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo

from state.crystals.crystal import Crystal, Origin
from state.search.dates import Period
from state.text.languages.loader import phrases
from state.text.words import content_terms, search_form
from state.zone import local

# The least cosine of texts about one subject: in different words, and in mostly the same ones (SAME_WORDS of those of
# the shorter text). True: of turns.
NEAR = {False: (0.7, 0.5), True: (0.75, 0.65)}
SAME_WORDS = 0.6
LEAST_NEAR = min(by_words for _, by_words in NEAR.values())


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which value a question asks for: the current one, or the one before, or that of a time it names."""

    past: bool = False
    periods: tuple[Period, ...] = ()
    zone: tzinfo = UTC

    def is_newer(self, older: Crystal, newer: Crystal) -> bool:
        """Return whether the question wants the newer result rather than the one it supersedes.

        A named time that was over before both were said is their subject, not the time at which the older one held.
        """
        later, earlier = (local(one.created_at, self.zone) for one in (newer, older))
        return not self.past and not any(
            period.is_over(later) and not period.is_over(earlier) for period in self.periods
        )


def are_near(one: Crystal, other: Crystal, cosine: float) -> bool:
    """Return whether two texts are close enough to be about one subject.

    A value that changes in the same words moves the cosine, so texts that share most of their words may be farther
    apart. In a conversation everything is near everything, so two turns must be closer than two notes.
    """
    by_meaning, by_words = NEAR[Origin.SESSION in (one.origin, other.origin)]
    if cosine >= by_meaning or cosine < by_words:
        return cosine >= by_meaning
    few, many = sorted((content_terms(one.text), content_terms(other.text)), key=len)
    return bool(few) and len(few & many) >= SAME_WORDS * len(few)


def wanted_by(question: str, periods: Sequence[Period] = (), zone: tzinfo = UTC) -> Wanted:
    """Return what a question asks for. Words such as "used to", "previously", "früher" ask for the former value."""
    return Wanted(not periods and phrases("former").search(search_form(question)) is not None, tuple(periods), zone)


def in_order(ranked: Sequence[Crystal], updates: Sequence[tuple[Crystal, Crystal]], wanted: Wanted) -> list[Crystal]:
    """Return the results in the wanted order.

    Each update is (older, newer): the newer crystal supersedes the older one, or is close to it and was said later.
    `updates` are ordered by when the newer ones were said.
    """
    ids = {crystal.id for crystal in ranked}
    first_of: dict[str, list[Crystal]] = {}
    for older, newer in updates:
        if {older.id, newer.id} <= ids and wanted.is_newer(older, newer):
            first_of.setdefault(older.id, []).insert(0, newer)
        elif {older.id, newer.id} <= ids:
            first_of.setdefault(newer.id, []).append(older)
    placed: list[Crystal] = []
    begun = set[str]()

    def place(crystal: Crystal) -> None:
        if crystal.id not in begun:
            begun.add(crystal.id)
            for before in first_of.get(crystal.id, ()):
                place(before)
            placed.append(crystal)

    for crystal in ranked:
        place(crystal)
    return placed
