"""Changes: single changes of dreams that the owner is to review, from staging to decision."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from state.dream import Decision, Dream, EarlierChange, StagedChange
from state.errors import NotFoundError
from state.stores.database.tables import AGREEMENTS, Change

OPEN = (Decision.WAITING, Decision.APPLIED)
# A new synthesis is compared with this many of the latest.
MOST_EARLIER = 500
# This many of the latest applied changes can be undone; `dreamd restore` goes back further.
MOST_APPLIED = 100


@dataclass(frozen=True, slots=True)
class OpenChanges:
    """How many changes wait for the owner."""

    waiting: int = 0


class Changes:
    """The staged changes of one workspace in state.db."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def record(self, dream: Dream) -> None:
        """Record what a committed dream stages and decides, in the caller's transaction. It can be repeated."""
        self._stage(dream.id, dream.staged, dream.at, 0)
        Change.table.change(
            self._connection,
            "decision = ? AND number <= (SELECT number FROM changes WHERE decision = ?"
            " ORDER BY number DESC LIMIT 1 OFFSET ?)",
            Decision.APPLIED,
            Decision.APPLIED,
            MOST_APPLIED,
            decision=Decision.EXPIRED,
            decided_at=dream.at,
        )
        for one in dream.decided:
            self._set(one.decision, dream.at, "dream = ? AND place = ?", one.dream, one.place)

    def propose(self, dream: str, agreements: Sequence[StagedChange], at: datetime) -> None:
        """Stage changes that workspaces agree on; `dream` names who found them. In the caller's transaction."""
        self._stage(dream, agreements, at, AGREEMENTS)

    def _stage(self, dream: str, changes: Sequence[StagedChange], at: datetime, first: int) -> None:
        for place, one in enumerate(changes, first):
            is_applied = one.applied and first < AGREEMENTS
            change = Change(
                dream=dream,
                place=place,
                at=at,
                record=one,
                decision=Decision.APPLIED if is_applied else Decision.WAITING,
            )
            Change.table.add(self._connection, change, "INSERT OR IGNORE")

    def agreements(self) -> list[Change]:
        """Return the changes that workspaces agreed on, decided or not, except outdated ones; latest first."""
        rest = "place >= ? AND decision <> ? ORDER BY number DESC LIMIT ?"
        return self._where(rest, AGREEMENTS, Decision.OUTDATED, MOST_EARLIER)

    def open(self) -> list[Change]:
        """Return the changes that wait, then the applied ones that can be undone, each by number."""
        return self._where("decision IN (?, ?) ORDER BY decision = ?, number", *OPEN, Decision.APPLIED)

    def get(self, number: int) -> Change:
        """Return the open change with this number. Raise NotFoundError."""
        for one in self._where("number = ? AND decision IN (?, ?)", number, *OPEN):
            return one
        raise NotFoundError(f"no change {number} waits", "'dreamd review' lists them")

    def any(self, number: int) -> Change:
        """Return the change with this number, decided or not. Raise NotFoundError."""
        for one in self._where("number = ?", number):
            return one
        raise NotFoundError(f"no change {number} is known (any more)", "'dreamd review' lists those that wait")

    def of(self, dream: str) -> list[Change]:
        """Return every change that this dream staged."""
        return self._where("dream = ? ORDER BY place", dream)

    def counts(self) -> OpenChanges:
        """Count the changes that wait."""
        return OpenChanges(Change.table.count(self._connection, "decision = ?", Decision.WAITING))

    def earlier(self) -> tuple[EarlierChange, ...]:
        """Return the latest changes that wait or were declined, which must not be staged again."""
        found = self._where(
            "decision IN (?, ?) ORDER BY number DESC LIMIT ?", Decision.WAITING, Decision.DECLINED, MOST_EARLIER
        )
        return tuple(EarlierChange(one.number, one.record.operation, one.decision) for one in found)

    def undecided(self) -> tuple[str, ...]:
        """Return the crystals of notes that undecided changes became."""
        rows = self._connection.execute("SELECT DISTINCT note FROM changes WHERE note <> '' ORDER BY note")
        return tuple(row["note"] for row in rows)

    def decide(self, number: int, decision: Decision, at: datetime, note: str = "") -> None:
        """Record a decision, or reopen the change: then it waits, or can be undone, from now on.

        `note` is the crystal of the note that the change became.
        """
        self._set(decision, at, "number = ?", number, note=note)

    def sweep(self, before: datetime) -> int:
        """Delete the changes decided before this moment; return how many. In the caller's transaction.

        Decided agreements stay, because the owner is asked about each only once.
        """
        which = "decided_at < ? AND (place < ? OR decision = ?)"
        return Change.table.delete(self._connection, which, before, AGREEMENTS, Decision.OUTDATED)

    def _set(self, decision: Decision, at: datetime, which: str, *values: object, **more: str) -> None:
        moments: dict[str, datetime | None] = {"decided_at": at}
        if decision in OPEN:
            moments = {"at": at, "decided_at": None}
        Change.table.change(self._connection, which, *values, decision=decision, **moments, **more)

    def _where(self, rest: str, *values: object) -> list[Change]:
        return Change.table.read(Change, self._connection, f"WHERE {rest}", *values)
