"""Proposals: changes that need their owner's yes, a row each; answered ones are kept for a while."""

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime

from state.dream import Answer, Proposed
from state.errors import NotFoundError
from state.stores.database.meta import Meta
from state.stores.database.tables import Proposal

# In `meta`: the last number that was given. None is given twice, so that a late answer accepts nothing else.
_LAST = "last_proposal"


class Proposals:
    """The proposals of one workspace in state.db."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(self, dream: str, proposed: Iterable[Proposed], at: datetime) -> None:
        """Add what a dream proposes; "" if several workspaces agree on it. In the caller's transaction."""
        meta = Meta(self._connection)
        for number, one in enumerate(proposed, int(meta.get(_LAST) or 0) + 1):
            Proposal.table.add(self._connection, one, number=number, dream=dream, at=at)
            meta.put(_LAST, str(number))

    def all(self) -> list[Proposal]:
        """Return those that wait, by number."""
        return self._where("answer = ''")

    def get(self, number: int) -> Proposal:
        """Return the proposal with this number, also an answered one. Raise NotFoundError."""
        if (one := self.find(number)) is not None:
            return one
        raise NotFoundError(f"no proposal {number} waits", "'dreamd review' lists them")

    def find(self, number: int) -> Proposal | None:
        """Return the proposal with this number, if it is kept."""
        return next(iter(self._where("number = ?", number)), None)

    def of(self, dream: str) -> list[Proposal]:
        """Return those of this dream that still wait."""
        return self._where("dream = ? AND answer = ''", dream)

    def count(self) -> int:
        """Return how many wait."""
        return Proposal.table.count(self._connection, "answer = ''")

    def answer(self, answers: Iterable[Answer]) -> None:
        """Record what a version makes of these. In the caller's transaction."""
        for one in answers:
            Proposal.table.change(self._connection, "number = ?", one.number, answer=one.now)

    def drop(self, numbers: Sequence[int]) -> None:
        """Delete these. In the caller's transaction."""
        for number in numbers:
            Proposal.table.delete(self._connection, "number = ?", number)

    def sweep(self, before: datetime) -> int:
        """Delete what was proposed before this moment; return how many of them waited. In the caller's transaction.

        What workspaces agree on waits on, because it would be proposed again.
        """
        Proposal.table.delete(self._connection, "at < ? AND answer <> ''", before)
        return Proposal.table.delete(self._connection, "at < ? AND dream <> ''", before)

    def _where(self, which: str, *values: object) -> list[Proposal]:
        return Proposal.table.read(Proposal, self._connection, f"WHERE {which} ORDER BY number", *values)
