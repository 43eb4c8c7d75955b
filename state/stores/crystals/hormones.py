"""Hormone levels with their causes, and open questions, in state.db."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from state.signals.curiosity import Cause, Gap, question_key
from state.signals.hormones import ALL_ARMED, Baselines, Feeling, Hormone, Hormones, decayed, felt, resting, spikes
from state.stores.database.connection import from_text, to_text, transaction
from state.stores.database.tombstones import TombstoneStore

_NEWEST = "(SELECT coalesce(max(key), 0) FROM crystals)"
_LIVE = "(SELECT count(*) FROM crystals WHERE id IN (one, other) AND lifecycle <> 'archived')"
_OVER = """
EXISTS (SELECT 1 FROM evidence e JOIN lines l ON l.id = e.line
        WHERE e.crystal = {gone} AND l.died_in IS NOT NULL AND l.fate IN ('revised', 'merged', 'deleted'))
AND EXISTS (SELECT 1 FROM evidence e JOIN lines l ON l.id = e.line WHERE e.crystal = {stands} AND l.died_in IS NULL)
"""
_SETTLED = (
    f"DELETE FROM gaps WHERE one <> '' AND ({_LIVE} < 2"
    f" OR ({_OVER.format(gone='one', stands='other')}) OR ({_OVER.format(gone='other', stands='one')}))"
)


_LISTED = "SELECT value FROM json_each(?)"


@dataclass(frozen=True, slots=True)
class Felt:
    """An event as it is kept, with the levels right after it; `key` is its row."""

    key: int
    event: str
    cause: str
    after: Hormones


@dataclass(frozen=True, slots=True)
class OpenGap:
    """An open question as it is kept; of a contradiction `one` and `other` are the crystals (ids)."""

    gap: Gap
    one: str
    other: str


class Feelings:
    """The hormones of one workspace, which fall back to their `baselines`."""

    def __init__(self, connection: sqlite3.Connection, baselines: Baselines) -> None:
        self._connection = connection
        self.baselines = baselines

    def levels(self, now: datetime) -> Hormones:
        """The hormone levels at this moment."""
        stored = self._stored()
        return decayed(stored[0], now, self.baselines) if stored else resting(now, self.baselines)

    def feel(self, feelings: Sequence[Feeling], cause: str, now: datetime) -> tuple[Hormones, tuple[Hormone, ...]]:
        """Apply these events; returns the new levels and the hormones that have just risen above 0.7."""
        with transaction(self._connection):
            stored = self._stored()
            armed = stored[1] if stored else ALL_ARMED
            before = decayed(stored[0], now, self.baselines) if stored else resting(now, self.baselines)
            after = felt(before, feelings, now, self.baselines)
            spiked, armed = spikes(before, after, armed)
            self._connection.execute(
                "INSERT OR REPLACE INTO hormones VALUES (1, ?, ?, ?, ?, ?)",
                (*after.levels, to_text(after.at), json.dumps(sorted(armed))),
            )
            self._connection.executemany(
                "INSERT INTO feelings (at, event, cause, dopamine, cortisol, oxytocin) VALUES (?, ?, ?, ?, ?, ?)",
                [(to_text(now), feeling.value, cause, *after.levels) for feeling in feelings],
            )
        return after, spiked

    def levels_at(self, moments: Sequence[datetime]) -> list[Hormones]:
        """The levels at each of these moments, which are in order: the last event until then, decayed.

        Of two events the later written one is the last, as it is for `levels`: a transcript may tell late of one.
        """
        if not moments:
            return []
        times = [to_text(moment) for moment in moments]
        before = self._connection.execute(
            "SELECT key FROM feelings NOT INDEXED WHERE at <= ? ORDER BY key DESC LIMIT 1", (times[0],)
        ).fetchone()
        later = iter(
            self._connection.execute(
                "SELECT at, key FROM feelings WHERE at > ? AND at <= ? ORDER BY at", (times[0], times[-1])
            ).fetchall()
        )
        last, following = int(before[0]) if before else 0, next(later, None)
        lasts = []
        for time in times:
            while following is not None and following["at"] <= time:
                last, following = max(last, int(following["key"])), next(later, None)
            lasts.append(last)
        events = {event.key: event for event in self._events(f"key IN ({_LISTED})", json.dumps(sorted(set(lasts))))}
        begun = self._stored()
        return [
            decayed(events[key].after, moment, self.baselines)
            if key in events
            else decayed(begun[0], moment, self.baselines)
            if begun and not events and begun[0].at <= moment
            else resting(moment, self.baselines)
            for key, moment in zip(lasts, moments, strict=True)
        ]

    def events(self, since: datetime, until: datetime, limit: int) -> tuple[list[Felt], int]:
        """The events between these moments, the latest first, at most `limit`; and how many there are."""
        span = (to_text(since), to_text(until))
        count = self._connection.execute("SELECT count(*) FROM feelings WHERE at > ? AND at <= ?", span).fetchone()[0]
        return self._events("at > ? AND at <= ? ORDER BY at DESC, key DESC LIMIT ?", *span, limit), int(count)

    def _events(self, which: str, *values: object) -> list[Felt]:
        return [
            Felt(
                row["key"],
                row["event"],
                row["cause"],
                Hormones(row["dopamine"], row["cortisol"], row["oxytocin"], from_text(row["at"])),
            )
            for row in self._connection.execute(f"SELECT * FROM feelings WHERE {which}", values)
        ]

    def sweep(self, before: datetime) -> int:
        """Delete the events before this moment; returns how many rows. In the caller's transaction."""
        return self._connection.execute("DELETE FROM feelings WHERE at < ?", (to_text(before),)).rowcount

    def _stored(self) -> tuple[Hormones, frozenset[Hormone]] | None:
        row = self._connection.execute("SELECT * FROM hormones").fetchone()
        if row is None:
            return None
        levels = Hormones(row["dopamine"], row["cortisol"], row["oxytocin"], at=from_text(row["at"]))
        return levels, frozenset(Hormone(name) for name in json.loads(row["armed"]))


class Questions:
    """The open questions of one workspace. A question that holds a forgotten text is never stored."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._forgotten = TombstoneStore(connection)

    def raise_(self, question: str, cause: Cause, now: datetime) -> None:
        """Store an open question, or count one that is stored already, whatever its case and punctuation.

        Crystals that are written from now on may answer it.
        """
        with transaction(self._connection):
            if self._forgotten.withholds(question):
                return
            self._connection.execute(
                "INSERT INTO gaps (folded, question, cause, first_at, last_at, asked_upto)"
                f" VALUES (?, ?, ?, ?, ?, {_NEWEST}) ON CONFLICT (folded)"
                " DO UPDATE SET times = times + 1, last_at = excluded.last_at, asked_upto = excluded.asked_upto",
                (question_key(question), question, cause.value, to_text(now), to_text(now)),
            )

    def dispute(self, question: str, one: str, other: str, now: datetime) -> bool:
        """Store that two crystals (ids) contradict each other; whether that was unknown."""
        with transaction(self._connection):
            return not self._forgotten.withholds(question) and bool(
                self._connection.execute(
                    "INSERT OR IGNORE INTO gaps (folded, question, cause, first_at, last_at, one, other)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (question_key(question), question, Cause.CONTRADICTION, to_text(now), to_text(now), one, other),
                ).rowcount
            )

    def to_ask(self, limit: int) -> list[tuple[Gap, int]]:
        """Questions and misses since which something was written, those that waited longest first.

        Each with the row of the last crystal that did not answer it.
        """
        rows = self._connection.execute(
            "SELECT * FROM gaps WHERE cause IN ('miss', 'question')"
            f" AND asked_upto < {_NEWEST} ORDER BY asked_upto, last_at DESC LIMIT ?",
            (limit,),
        )
        return [(_gap(row), int(row["asked_upto"])) for row in rows]

    def asked(self, questions: Sequence[str], upto: int) -> None:
        """Record that no crystal up to this row answers these questions."""
        keys = [(upto, question_key(question)) for question in questions]
        with transaction(self._connection) as connection:
            connection.executemany("UPDATE gaps SET asked_upto = ? WHERE folded = ? AND asked_upto < ?1", keys)

    def settle(self, question: str) -> None:
        """Delete the question: it was answered."""
        self._connection.execute("DELETE FROM gaps WHERE folded = ?", (question_key(question),))

    def settle_dispute(self, one: str, other: str) -> None:
        """Delete the contradiction of these two crystals, if it is open. In the caller's transaction."""
        statement = "DELETE FROM gaps WHERE (one, other) IN (VALUES (?, ?), (?, ?))"
        self._connection.execute(statement, (one, other, other, one))

    def settle_disputes(self) -> int:
        """Delete the contradictions that are resolved; returns how many.

        One of the two crystals is deleted, faded or a hidden duplicate; or a line that cited one of them was revised,
        merged or deleted, and a current line cites the other.
        """
        with transaction(self._connection) as connection:
            return connection.execute(_SETTLED).rowcount

    def sweep(self, before: datetime, most: int) -> int:
        """Delete the misses that are older than this moment, and the questions beyond `most`; returns how many rows.

        Misses go first, then those asked least often, then longest ago. In the caller's transaction.
        """
        execute = self._connection.execute
        done = execute("DELETE FROM gaps WHERE last_at < ? AND cause = 'miss'", (to_text(before),)).rowcount
        if execute("SELECT count(*) FROM gaps").fetchone()[0] > most:
            ordered = "ORDER BY cause = 'miss', times DESC, last_at DESC, folded LIMIT -1 OFFSET ?"
            done += execute(f"DELETE FROM gaps WHERE folded IN (SELECT folded FROM gaps {ordered})", (most,)).rowcount
        return done

    def all(self, cause: Cause | None = None) -> list[OpenGap]:
        """Every open question, or those of this cause; `sweep` keeps them few."""
        rows = self._connection.execute("SELECT * FROM gaps WHERE ?1 IS NULL OR cause = ?1", (cause,))
        return [OpenGap(_gap(row), row["one"], row["other"]) for row in rows]

    def open(self, limit: int) -> list[Gap]:
        """The questions that were asked most, then the latest."""
        rows = self._connection.execute("SELECT * FROM gaps ORDER BY times DESC, last_at DESC LIMIT ?", (limit,))
        return [_gap(row) for row in rows]


def _gap(row: sqlite3.Row) -> Gap:
    return Gap(row["question"], row["cause"], row["times"], from_text(row["first_at"]), from_text(row["last_at"]))
