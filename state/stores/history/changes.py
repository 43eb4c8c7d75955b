"""Changes: what of single dreams the owner is to look at, from the dream that staged it to the decision on it."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from state.codec import decode, encode
from state.document.operations import Action
from state.dream import Decided, Decision, Dream, EarlierChange, StagedChange
from state.errors import NotFoundError
from state.stores.database.connection import from_text, optional_moment, to_text

# From this place on a change is what several workspaces agree on, and none of its dream's own.
AGREEMENTS = 10_000
OPEN = (Decision.WAITING, Decision.APPLIED)
# A synthesis is compared with the latest of these.
MOST_EARLIER = 500
# So many of the latest changes that applied are offered for undoing; `dreamd restore` goes back further.
MOST_APPLIED = 100


@dataclass(frozen=True, slots=True)
class Change:
    """A staged change with its number, its dream and its place there, since when it waits, and what became of it."""

    number: int
    dream: str
    place: int
    at: datetime
    change: StagedChange
    decision: Decision
    decided_at: datetime | None

    @property
    def is_agreement(self) -> bool:
        """Whether several workspaces of its owner agree on it."""
        return self.place >= AGREEMENTS

    @property
    def is_erased(self) -> bool:
        """Whether it has nothing to write any more: its text was forgotten."""
        operation = self.change.operation
        return operation.action is not Action.EVICT and not operation.text.strip()

    def decided(self, decision: Decision) -> Decided:
        """This decision on it."""
        return Decided(self.dream, self.place, decision, self.decision)


@dataclass(frozen=True, slots=True)
class OpenChanges:
    """How many changes wait for the owner."""

    waiting: int = 0


class Changes:
    """The staged changes of one workspace in state.db."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def record(self, dream: Dream) -> None:
        """Record what a committed dream stages and decides; doing it again changes nothing new.

        In the caller's transaction.
        """
        at = to_text(dream.at)
        self._connection.executemany(
            "INSERT OR IGNORE INTO changes (dream, place, at, record, decision) VALUES (?, ?, ?, ?, ?)",
            [
                (dream.id, place, at, encode(one), Decision.APPLIED if one.applied else Decision.WAITING)
                for place, one in enumerate(dream.staged)
            ],
        )
        self._connection.execute(
            "UPDATE changes SET decision = ?, decided_at = ? WHERE decision = ? AND number <= "
            "(SELECT number FROM changes WHERE decision = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (Decision.EXPIRED, at, Decision.APPLIED, Decision.APPLIED, MOST_APPLIED),
        )
        for one in dream.decided:
            if one.decision in OPEN:
                statement = "UPDATE changes SET decision = ?, at = ?, decided_at = NULL WHERE dream = ? AND place = ?"
            else:
                statement = "UPDATE changes SET decision = ?, decided_at = ? WHERE dream = ? AND place = ?"
            self._connection.execute(statement, (one.decision.value, at, one.dream, one.place))

    def propose(self, dream: str, agreements: Sequence[StagedChange], at: datetime) -> None:
        """Have these wait, which workspaces agree on; `dream` names who found them. In the caller's transaction."""
        self._connection.executemany(
            "INSERT OR IGNORE INTO changes (dream, place, at, record, decision) VALUES (?, ?, ?, ?, ?)",
            [
                (dream, place, to_text(at), encode(one), Decision.WAITING)
                for place, one in enumerate(agreements, AGREEMENTS)
            ],
        )

    def agreements(self) -> list[Change]:
        """What workspaces agreed on and the owner was asked, whatever was decided; the latest first."""
        rest = "place >= ? AND decision <> ? ORDER BY number DESC LIMIT ?"
        return self._where(rest, (AGREEMENTS, Decision.OUTDATED, MOST_EARLIER))

    def open(self) -> list[Change]:
        """Return the changes that wait, and those that applied and can be undone, in the order of their numbers."""
        return self._where(f"decision IN ({', '.join('?' * len(OPEN))}) ORDER BY number", OPEN)

    def get(self, number: int) -> Change:
        """The open change of this number. Raises NotFoundError."""
        found = self._where(f"number = ? AND decision IN ({', '.join('?' * len(OPEN))})", (number, *OPEN))
        if not found:
            raise NotFoundError(f"no change {number} waits", "'dreamd review' lists them")
        return found[0]

    def any(self, number: int) -> Change:
        """The change of this number, decided or not. Raises NotFoundError."""
        found = self._where("number = ?", (number,))
        if not found:
            raise NotFoundError(f"no change {number} is known (any more)", "'dreamd review' lists those that wait")
        return found[0]

    def of(self, dream: str) -> list[Change]:
        """Every change that this dream staged."""
        return self._where("dream = ? ORDER BY place", (dream,))

    def counts(self) -> OpenChanges:
        """Count the changes that wait."""
        query = "SELECT count(*) FROM changes WHERE decision = ?"
        return OpenChanges(self._connection.execute(query, (Decision.WAITING.value,)).fetchone()[0])

    def earlier(self) -> tuple[EarlierChange, ...]:
        """The latest changes that wait or were declined: they are not to be staged again."""
        found = self._where(
            "decision IN (?, ?) ORDER BY number DESC LIMIT ?", (Decision.WAITING, Decision.DECLINED, MOST_EARLIER)
        )
        return tuple(EarlierChange(one.number, one.change.operation, one.decision) for one in found)

    def undecided(self) -> tuple[str, ...]:
        """The crystals of the notes that changes have become which nobody decided."""
        rows = self._connection.execute("SELECT DISTINCT note FROM changes WHERE note <> '' ORDER BY note")
        return tuple(row["note"] for row in rows)

    def decide(self, number: int, decision: Decision, at: datetime, note: str = "") -> None:
        """Record a decision; `note` is the crystal of the note that the change has become."""
        self._connection.execute(
            "UPDATE changes SET decision = ?, decided_at = ?, note = ? WHERE number = ?",
            (decision.value, to_text(at), note, number),
        )

    def reopen(self, number: int, decision: Decision, at: datetime) -> None:
        """Take back that it was decided: it waits, or can be undone, from now on."""
        self._connection.execute(
            "UPDATE changes SET decision = ?, at = ?, decided_at = NULL, note = '' WHERE number = ?",
            (decision.value, to_text(at), number),
        )

    def sweep(self, before: datetime) -> int:
        """Delete the changes that were decided before; returns how many. In the caller's transaction.

        Of what workspaces agree on the owner is asked once: that stays.
        """
        statement = "DELETE FROM changes WHERE decided_at < ? AND (place < ? OR decision = ?)"
        values = (to_text(before), AGREEMENTS, Decision.OUTDATED.value)
        return self._connection.execute(statement, values).rowcount

    def _where(self, rest: str, values: tuple[object, ...]) -> list[Change]:
        columns = "number, dream, place, at, record, decision, decided_at"
        rows = self._connection.execute(f"SELECT {columns} FROM changes WHERE {rest}", [*map(_plain, values)])
        return [
            Change(
                number,
                dream,
                place,
                from_text(at),
                decode(StagedChange, record, f"change {number}"),
                Decision(decision),
                optional_moment(decided_at),
            )
            for number, dream, place, at, record, decision, decided_at in rows
        ]


def _plain(value: object) -> object:
    return value.value if isinstance(value, Decision) else value
