"""Acts: what a person did through a window, the author beside each."""

import sqlite3
from datetime import datetime

from state.stores.database.tables import Act


class Acts:
    """The acts of one workspace in state.db."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def record(self, act: Act) -> None:
        """Record an act."""
        Act.table.add(self._connection, act)

    def latest(self, limit: int, before: int | None = None) -> list[Act]:
        """Return the latest acts, the newest first; those with a number below `before`, if that is given."""
        below = 2**63 - 1 if before is None else before
        return Act.table.read(Act, self._connection, "WHERE number < ? ORDER BY number DESC LIMIT ?", below, limit)

    def sweep(self, before: datetime) -> int:
        """Delete the acts that are older; return how many. In the caller's transaction."""
        return Act.table.delete(self._connection, "at < ?", before)
