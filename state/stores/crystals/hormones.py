"""Hormone levels with their causes, and open questions, in state.db."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from state.signals.curiosity import Cause, Gap, question_key, topic_of_question
from state.signals.hormones import Feeling, Hormone, Hormones, Levels, decayed, felt, resting, spikes
from state.stores.database.connection import transaction
from state.stores.database.moments import to_text
from state.stores.database.tables import FeelingRow, GapRow
from state.stores.database.tombstones import TombstoneStore

# A question that nobody has asked for this long is no longer open.
QUESTION_DAYS = 14


@dataclass(frozen=True, slots=True)
class Felt:
    """A stored event with the levels right after it; `key` is its row."""

    key: int
    event: str
    cause: str
    after: Hormones


class Feelings:
    """The hormones of one workspace, which decay to their `baselines`."""

    def __init__(self, connection: sqlite3.Connection, baselines: Levels) -> None:
        self._connection = connection
        self.baselines = baselines

    def levels(self, now: datetime) -> Hormones:
        """Return the hormone levels at this moment."""
        return self._decayed(self._events("TRUE ORDER BY key DESC LIMIT 1"), now)

    def _decayed(self, last: Sequence[Felt], now: datetime) -> Hormones:
        return decayed(last[0].after, now, self.baselines) if last else resting(now, self.baselines)

    def feel(self, feelings: Sequence[Feeling], cause: str, now: datetime) -> tuple[Hormones, tuple[Hormone, ...]]:
        """Apply these events; return the new levels and the hormones that have just risen above 0.7."""
        with transaction(self._connection):
            before = self.levels(now)
            after = felt(before, feelings, now, self.baselines)
            for feeling in feelings:
                FeelingRow.table.add(self._connection, after, at=now, event=feeling, cause=cause)
        return after, spikes(before, after)

    def levels_at(self, moments: Sequence[datetime]) -> list[Hormones]:
        """Return the levels at each of these moments, decayed from the last event before it.

        The last event is the one written last, as in `levels`, because transcripts may report an event late.
        """
        # The plus keeps SQLite from sorting all earlier events: the latest are read, back to one before the moment.
        before = "+at <= ? ORDER BY key DESC LIMIT 1"
        return [self._decayed(self._events(before, to_text(moment)), moment) for moment in moments]

    def events(self, since: datetime, until: datetime, limit: int) -> tuple[list[Felt], int]:
        """Return at most `limit` events between these moments, latest first, and how many there are."""
        which, span = "at > ? AND at <= ?", (to_text(since), to_text(until))
        found = self._events(f"{which} ORDER BY at DESC, key DESC LIMIT ?", *span, limit)
        return found, FeelingRow.table.count(self._connection, which, *span)

    def _events(self, which: str, *values: object) -> list[Felt]:
        rows = self._connection.execute(f"SELECT * FROM feelings WHERE {which}", values)
        return [FeelingRow.table.value(Felt, row, after=FeelingRow.table.value(Hormones, row)) for row in rows]

    def sweep(self, before: datetime) -> int:
        """Delete the events before this moment; return how many. In the caller's transaction."""
        return FeelingRow.table.delete(self._connection, "at < ?", before)


class Questions:
    """The open questions of one workspace. A question that holds a forgotten text is never stored."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._forgotten = TombstoneStore(connection)

    def raise_(self, question: str, cause: Cause, now: datetime) -> None:
        """Store an open question, or count it again if it exists, ignoring case and punctuation."""
        with transaction(self._connection):
            known = self._forgotten.tombstones()
            if known.found(question) or known.asks(topic_of_question(question)):
                self._forgotten.count()
                return
            then = "ON CONFLICT (folded) DO UPDATE SET times = times + 1, last_at = excluded.last_at"
            asked = {"question": question, "cause": cause, "first_at": now, "last_at": now}
            GapRow.table.add(self._connection, None, "INSERT", then, folded=question_key(question), **asked)

    def dismiss(self, question: str, *, undo: bool = False) -> bool:
        """Show it no more, however often it is asked, or with `undo` again; return False for an unknown one."""
        which = "UPDATE gaps SET dismissed = ? WHERE folded = ?"
        with transaction(self._connection) as connection:
            return connection.execute(which, (not undo, question_key(question))).rowcount > 0

    def close(self, questions: Iterable[Gap]) -> None:
        """Delete these questions. In the caller's transaction."""
        for one in questions:
            GapRow.table.delete(self._connection, "folded = ?", question_key(one.question))

    def reopen(self, questions: Iterable[Gap]) -> None:
        """Store these questions as they were, unless they were asked again. In the caller's transaction."""
        for one in questions:
            more = {"folded": question_key(one.question), "cause": Cause(one.cause)}
            GapRow.table.add(self._connection, one, "INSERT OR IGNORE", **more)

    def sweep(self, now: datetime, most: int) -> int:
        """Delete questions that nobody has asked for two weeks and those beyond `most`; return how many.

        Misses go first, then those asked least often, then those asked longest ago. In the caller's transaction.
        """
        done = GapRow.table.delete(self._connection, "last_at < ?", now - timedelta(days=QUESTION_DAYS))
        if GapRow.table.count(self._connection) > most:
            ordered = "ORDER BY cause = 'miss', times DESC, last_at DESC, folded LIMIT -1 OFFSET ?"
            which = f"folded IN (SELECT folded FROM gaps {ordered})"
            done += GapRow.table.delete(self._connection, which, most)
        return done

    def all(self, cause: Cause | None = None) -> list[Gap]:
        """Return all open questions, or those with this cause; `sweep` keeps them few."""
        return GapRow.table.read(Gap, self._connection, "WHERE NOT dismissed AND (?1 IS NULL OR cause = ?1)", cause)

    def open(self, limit: int) -> list[Gap]:
        """Return the questions asked most often, the latest first among equals."""
        rest = "WHERE NOT dismissed ORDER BY times DESC, last_at DESC LIMIT ?"
        return GapRow.table.read(Gap, self._connection, rest, limit)
