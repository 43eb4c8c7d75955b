"""Updates: of two results of which one was said later about the same, which order a question wants.

The newer one stands directly before the older one; when the past is asked for, directly behind it. Nothing is left
out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from state.crystals.crystal import Crystal
from state.search.dates import Period
from state.text.languages.loader import phrases
from state.text.words import search_form


@dataclass(frozen=True, slots=True)
class Ranked:
    """A result with its score, and the one that supersedes it, if any does."""

    crystal: Crystal
    score: float
    superseded_by: Crystal | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Two results of which the newer one supersedes the older one, or is near to it and was said later."""

    older: Crystal
    newer: Crystal


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which value a question wants: the current one; or the one before, or of a time that it names."""

    past: bool = False
    periods: tuple[Period, ...] = ()

    def is_newer(self, older: Crystal, newer: Crystal) -> bool:
        """Whether it wants the newer one rather than the one that it supersedes.

        A time that was over before either was said is not when the older one held, but what both speak of.
        """
        return not self.past and not any(
            period.is_over(newer.created_at) and not period.is_over(older.created_at) for period in self.periods
        )


def wanted_by(question: str, periods: Sequence[Period] = ()) -> Wanted:
    """What a question wants. Words such as "used to", "previously", "früher" ask for the value before."""
    return Wanted(not periods and phrases("former").search(search_form(question)) is not None, tuple(periods))


def in_order(
    ranked: Sequence[tuple[Crystal, float]],
    updates: Sequence[Update],
    current: Mapping[str, Crystal],
    wanted: Wanted,
) -> list[Ranked]:
    """The results in the order that is wanted.

    `current` says of each superseded one, by its id, which crystal holds now; `updates` stand in the order in which
    the newer ones were said.
    """
    scores = {crystal.id: score for crystal, score in ranked}
    first_of: dict[str, list[Crystal]] = {}
    for pair in updates:
        if pair.older.id not in scores or pair.newer.id not in scores:
            continue
        if wanted.is_newer(pair.older, pair.newer):
            first_of.setdefault(pair.older.id, []).insert(0, pair.newer)
        else:
            first_of.setdefault(pair.newer.id, []).append(pair.older)
    placed: dict[str, Ranked] = {}
    begun = set[str]()

    def place(crystal: Crystal, least: float) -> None:
        if crystal.id in begun:
            return
        begun.add(crystal.id)
        score = max(scores[crystal.id], least)
        for before in first_of.get(crystal.id, ()):
            place(before, score)
        placed[crystal.id] = Ranked(crystal, score, current.get(crystal.id))

    for crystal, score in ranked:
        place(crystal, score)
    return list(placed.values())
