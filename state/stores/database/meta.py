"""Meta: single named values of a workspace, stored as text in state.db."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # callers that only look at files do not load SQLite
    import sqlite3


class Meta:
    """The rows of `meta`. Writes join the caller's transaction, if there is one."""

    def __init__(self, connection: "sqlite3.Connection") -> None:
        self._connection = connection

    def get(self, name: str) -> str | None:
        """Return the value of this name; None if there is none."""
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else None

    def put(self, name: str, value: str) -> None:
        """Write the value of this name, replacing any other."""
        self._connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, value))

    def count(self, name: str, more: int = 1) -> None:
        """Add to the number of this name, which starts at 0."""
        self._connection.execute(
            "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name)"
            " DO UPDATE SET value = CAST(CAST(value AS INTEGER) + CAST(excluded.value AS INTEGER) AS TEXT)",
            (name, str(more)),
        )

    def remove(self, name: str) -> None:
        """Delete the value of this name, if there is one."""
        self._connection.execute("DELETE FROM meta WHERE name = ?", (name,))
