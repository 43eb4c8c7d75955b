"""Steps: what each finished node of a dream did and cost, in the order in which they ended."""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from state.secrets.policy import DEFAULT, Redaction
from state.stores.database.connection import to_text, transaction, unsynced
from state.stores.database.tables import StepRow

# What was paid since the step before: all that the dream has paid, less what its steps say. So the steps of a dream
# that was killed and went on add up to what it cost.
_ADD = """
INSERT INTO steps (dream, place, node, at, seconds, calls, tokens, figures)
SELECT ?1, coalesce(max(place) + 1, 0), ?2, ?3, ?4,
       (SELECT count(*) FROM calls WHERE dream = ?1) - coalesce(sum(calls), 0),
       (SELECT coalesce(sum(tokens), 0) FROM calls WHERE dream = ?1) - coalesce(sum(tokens), 0),
       ?5
FROM steps WHERE dream = ?1
"""


@dataclass(frozen=True, slots=True)
class Finished:
    """A step that ended `at` this moment after so many seconds; `figures` say what it did."""

    node: str
    at: datetime
    seconds: float
    figures: str


@dataclass(frozen=True, slots=True)
class PaidStep(Finished):
    """A finished step with the calls of the model, and their tokens, since the step before."""

    calls: int
    tokens: int


class Steps:
    """The steps of dreams in state.db, without secrets."""

    def __init__(self, connection: sqlite3.Connection, redaction: Redaction = DEFAULT) -> None:
        self._connection = connection
        self._redaction = redaction

    def add(self, dream: str, steps: Iterable[Finished]) -> bool:
        """Record steps after those that the dream has already; whether state.db took them.

        One that is full, busy or damaged is no reason for a dream to fail: the caller may try again later. A loss of
        power may cost the last ones.
        """
        rows = [(dream, one.node, to_text(one.at), one.seconds, self._redaction.of(one.figures)) for one in steps]
        try:
            with unsynced(self._connection), transaction(self._connection):
                self._connection.executemany(_ADD, rows)
        except sqlite3.Error:
            return False
        return True

    def of(self, dream: str, limit: int) -> list[PaidStep]:
        """Return the first steps of this dream, in their order."""
        rest = "WHERE dream = ? ORDER BY place LIMIT ?"
        return StepRow.table.read(PaidStep, self._connection, rest, dream, limit)

    def count(self, dream: str) -> int:
        """Return how many steps this dream has."""
        return StepRow.table.count(self._connection, "dream = ?", dream)
