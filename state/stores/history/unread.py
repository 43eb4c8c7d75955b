"""Unread transcripts: which files could not be read, as a whole or in part, and why; one value in `meta`."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from sqlite3 import Connection

from state.stores.database.connection import to_text, transaction
from state.stores.database.meta import Meta

_NAME = "unread_transcripts"
# Nobody mends a broken line of a log: after this time it is not named any more.
_NAMED_FOR = timedelta(days=7)
_MOST = 100


class UnreadTranscripts:
    """The transcripts of one workspace that could not be read when they were last looked at, latest first."""

    def __init__(self, connection: Connection, root: Path) -> None:
        self._connection, self._root = connection, root
        self._known: dict[str, tuple[str, str]] = {}  # the time of a skipped line, or "" for a whole file; and why
        with suppress(ValueError, TypeError, AttributeError):  # a forgetting may have cut the text
            found = json.loads(Meta(connection).get(_NAME) or "{}")
            self._known = {str(name): (str(at), str(why)) for name, (at, why) in found.items()}

    def unread(self, path: Path, why: str) -> None:
        """Record why a file could not be read."""
        self._put(path, ("", why))

    def read(self, path: Path, skipped: Sequence[str], now: datetime) -> None:
        """Record that a file was read, and why parts of it were skipped."""
        known = self._known.get(self._name(path))
        if skipped:
            more = f" ({len(skipped) - 1} more in this file)" if len(skipped) > 1 else ""
            self._put(path, (to_text(now), skipped[0] + more))
        elif known is not None and not known[0]:
            self._put(path, None)

    def named(self, now: datetime) -> list[str]:
        """Return what could not be read of the files that still exist."""
        since = to_text(now - _NAMED_FOR)
        return [
            why
            for name, (at, why) in self._known.items()
            if (not at or at > since) and os.path.lexists(self._root / name)
        ]

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._root) if path.is_relative_to(self._root) else path)

    def _put(self, path: Path, entry: tuple[str, str] | None) -> None:
        name = self._name(path)
        if self._known.get(name) == entry:
            return
        others = [one for one in self._known.items() if one[0] != name]
        self._known = dict([*([(name, entry)] if entry else []), *others][:_MOST])
        with transaction(self._connection):
            Meta(self._connection).put(_NAME, json.dumps(self._known))
