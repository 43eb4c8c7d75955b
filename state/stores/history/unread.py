"""Unread transcripts: which files could not be read, as a whole or in part, and why."""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from sqlite3 import Connection

from state.stores.database.tables import UnreadRow

# Nobody mends a broken line of a log: after this time it is not named any more.
_NAMED_FOR = timedelta(days=7)
_MOST = 100
_ESCAPED = "\\udc"


class UnreadTranscripts:
    """The transcripts of one workspace that could not be read when they were last looked at, latest first."""

    def __init__(self, connection: Connection, root: Path) -> None:
        self._connection, self._root = connection, root

    def unread(self, path: Path, why: str, at: datetime | None = None) -> None:
        """Record why a file could not be read; `at`: only a part of it, which was skipped now."""
        name, why = self._name(path), _encodable(why)
        if not UnreadRow.table.count(self._connection, "file = ? AND why = ? AND at IS ?", name, why, at):
            UnreadRow.table.add(self._connection, None, "INSERT OR REPLACE", file=name, why=why, at=at)
            oldest = f"(SELECT max(number) - {_MOST} FROM unread_transcripts)"
            UnreadRow.table.delete(self._connection, f"number <= {oldest}")

    def read(self, path: Path, skipped: Sequence[str], now: datetime) -> None:
        """Record that a file was read, and why parts of it were skipped."""
        if skipped:
            more = f" ({len(skipped) - 1} more in this file)" if len(skipped) > 1 else ""
            self.unread(path, skipped[0] + more, now)
        elif UnreadRow.table.count(self._connection, which := "file = ? AND at IS NULL", name := self._name(path)):
            UnreadRow.table.delete(self._connection, which, name)

    def named(self, now: datetime) -> list[str]:
        """Return what could not be read of the files that still exist."""
        which = "WHERE at IS NULL OR at > ? ORDER BY number DESC"
        rows = UnreadRow.table.read(UnreadRow, self._connection, which, now - _NAMED_FOR)
        return [row.why for row in rows if _ESCAPED in row.file or os.path.lexists(self._root / row.file)]

    def _name(self, path: Path) -> str:
        return _encodable(str(path.relative_to(self._root) if path.is_relative_to(self._root) else path))


def _encodable(text: str) -> str:
    """Return a text with bytes that are no UTF-8, as the name of a file may have them, escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
