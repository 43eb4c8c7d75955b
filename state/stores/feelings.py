"""Hormone levels and what raised them, and open questions, in state.db."""

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from state.curiosity import Cause, Gap, question_key
from state.hormones import ALL_ARMED, Baselines, Feeling, Hormone, Hormones, decayed, felt, resting, spikes
from state.stores.database import from_text, to_text, transaction


class Feelings:
    """The hormones of one workspace."""

    def __init__(self, connection: sqlite3.Connection, baselines: Baselines) -> None:
        self._connection = connection
        self._baselines = baselines

    def levels(self, now: datetime) -> Hormones:
        """The levels now."""
        stored = self._stored()
        return decayed(stored[0], now, self._baselines) if stored else resting(now, self._baselines)

    def feel(self, feelings: Sequence[Feeling], cause: str, now: datetime) -> tuple[Hormones, tuple[Hormone, ...]]:
        """Raise these events; returns the levels and the hormones that have just risen above .7."""
        with transaction(self._connection):
            stored = self._stored()
            armed = stored[1] if stored else ALL_ARMED
            before = decayed(stored[0], now, self._baselines) if stored else resting(now, self._baselines)
            after = felt(before, feelings, now, self._baselines)
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

    def _stored(self) -> tuple[Hormones, frozenset[Hormone]] | None:
        row = self._connection.execute("SELECT * FROM hormones").fetchone()
        if row is None:
            return None
        levels = Hormones(row["dopamine"], row["cortisol"], row["oxytocin"], at=from_text(row["at"]))
        return levels, frozenset(Hormone(name) for name in json.loads(row["armed"]))


class Questions:
    """Curiosity targets of one workspace."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def raise_(self, question: str, cause: Cause, now: datetime) -> None:
        """Remember an open question; asked again, in whatever case and with whatever mark, it counts once more."""
        with transaction(self._connection):
            self._connection.execute(
                "INSERT INTO gaps (folded, question, cause, first_at, last_at) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (folded) DO UPDATE SET times = times + 1, last_at = excluded.last_at",
                (question_key(question), question, cause.value, to_text(now), to_text(now)),
            )

    def settle(self, question: str) -> None:
        """It was answered."""
        self._connection.execute("DELETE FROM gaps WHERE folded = ?", (question_key(question),))

    def open(self, limit: int) -> list[Gap]:
        """The questions that were asked most, then the latest."""
        rows = self._connection.execute("SELECT * FROM gaps ORDER BY times DESC, last_at DESC LIMIT ?", (limit,))
        return [
            Gap(row["question"], row["cause"], row["times"], from_text(row["first_at"]), from_text(row["last_at"]))
            for row in rows
        ]
