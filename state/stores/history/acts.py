"""Acts: what a person did through a window, the author beside each."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from state.stores.database.connection import from_text, to_text


@dataclass(frozen=True, slots=True)
class Act:
    """An operation that somebody had done: `about` which things (ids, numbers, counts; no word of the memory).

    `outcome` is done, or the code of the error; `version` the one that it made, if any.
    """

    at: datetime
    author: str
    act: str
    about: str
    outcome: str
    version: int | None


@dataclass(frozen=True, slots=True)
class NumberedAct(Act):
    """An act as it is kept, under its number."""

    number: int


class Acts:
    """The acts of one workspace in state.db."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def record(self, act: Act) -> None:
        """Record an act."""
        self._connection.execute(
            "INSERT INTO acts (at, author, act, about, outcome, version) VALUES (?, ?, ?, ?, ?, ?)",
            (to_text(act.at), act.author, act.act, act.about, act.outcome, act.version),
        )

    def latest(self, limit: int, before: int | None = None) -> list[NumberedAct]:
        """The latest acts, the newest first; those with a number below `before`, if that is given."""
        below = 2**63 - 1 if before is None else before
        rows = self._connection.execute(
            "SELECT at, author, act, about, outcome, version, number FROM acts"
            " WHERE number < ? ORDER BY number DESC LIMIT ?",
            (below, limit),
        )
        return [NumberedAct(from_text(at), *rest) for at, *rest in rows]

    def sweep(self, before: datetime) -> int:
        """Delete the acts that are older; returns how many. In the caller's transaction."""
        return self._connection.execute("DELETE FROM acts WHERE at < ?", (to_text(before),)).rowcount
