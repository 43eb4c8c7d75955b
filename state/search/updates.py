"""Updates: of two results of which one was said later about the same, which order a question wants.

The newer one stands directly before the older one; when the past is asked for, directly behind it. Nothing is left
out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from state.crystals.crystal import Crystal
from state.search.dates import Period
from state.text.languages.loader import phrases
from state.text.words import search_form


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which value a question wants: the current one; or the one before, or of a time that it names."""

    past: bool = False
    periods: tuple[Period, ...] = ()

    def is_newer(self, older: Crystal, newer: Crystal) -> bool:
        """Return whether it wants the newer one rather than the one that it supersedes.

        A time that was over before either was said is not when the older one held, but what both speak of.
        """
        return not self.past and not any(
            period.is_over(newer.created_at) and not period.is_over(older.created_at) for period in self.periods
        )


def wanted_by(question: str, periods: Sequence[Period] = ()) -> Wanted:
    """Return what a question wants. Words such as "used to", "previously", "früher" ask for the value before."""
    return Wanted(not periods and phrases("former").search(search_form(question)) is not None, tuple(periods))


def in_order(ranked: Sequence[Crystal], updates: Sequence[tuple[Crystal, Crystal]], wanted: Wanted) -> list[Crystal]:
    """Return the results in the order that is wanted.

    Of each update the newer crystal, the second one, supersedes the older one, or is near to it and was said later;
    they stand in the order in which the newer ones were said.
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
