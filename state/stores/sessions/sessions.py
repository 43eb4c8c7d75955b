"""Sessions of working memory in state.db: how each was opened, how full it is, and when it is due next."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from state.sessions.item import Item
from state.stores.database.connection import optional_moment, optional_text, to_text, transaction
from state.stores.sessions.events import EventKind, SessionEvents
from state.stores.sessions.items import SessionItems
from state.stores.sessions.relations import SessionRelations
from state.stores.sessions.rows import Session, session_of
from state.stores.sessions.view import SqlItemView


class Sessions:
    """The sessions of one workspace, over its open database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.events = SessionEvents(connection)
        self.items = SessionItems(connection)
        self.relations = SessionRelations(connection)
        self.archive = self.items.archive
        self.outbox = self.items.outbox
        self.forgotten = self.items.forgotten

    @contextmanager
    def steady(self) -> Iterator[None]:
        """A context in which everything is read as of one moment."""
        if self.connection.in_transaction:
            yield
            return
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")  # nothing was written

    def find(self, id_: str) -> Session | None:
        """The session of this id, as it is now; None: it was never opened."""
        row = self.connection.execute("SELECT * FROM sessions WHERE id = ?", (id_,)).fetchone()
        return session_of(row) if row else None

    def all(self) -> list[Session]:
        """Every session, the latest first."""
        rows = self.connection.execute("SELECT * FROM sessions ORDER BY key DESC").fetchall()
        return [session_of(row) for row in rows]

    def open_ones(self, limit: int) -> list[Session]:
        """The sessions that are open and hold something, the latest first."""
        rows = self.connection.execute(
            "SELECT * FROM sessions WHERE closed_at IS NULL AND held > 0 ORDER BY key DESC LIMIT ?", (limit,)
        ).fetchall()
        return [session_of(row) for row in rows]

    def open(self, id_: str, policy: str, config: Mapping[str, Any], now: datetime) -> Session:
        """The session of this id: the one that there is, opened again if it was closed, or a new one."""
        with transaction(self.connection) as connection:
            known = self.find(id_)
            if known and known.closed_at is None:
                return known
            if known:
                connection.execute(
                    "UPDATE sessions SET closed_at = NULL, policy = ?, config = ? WHERE key = ?",
                    (policy, json.dumps(config), known.key),
                )
            else:
                connection.execute(
                    "INSERT INTO sessions (id, policy, config, opened_at) VALUES (?, ?, ?, ?)",
                    (id_, policy, json.dumps(config), to_text(now)),
                )
            session = self._found(id_)
            self.events.add(session, EventKind.OPENED, now, [(-1, policy, {})])
            return session

    def close(self, session: Session, now: datetime) -> None:
        """Close the session."""
        with transaction(self.connection) as connection:
            connection.execute(
                "UPDATE sessions SET closed_at = ?, due_at = NULL WHERE key = ?", (to_text(now), session.key)
            )
            self.events.add(session, EventKind.CLOSED, now)

    def due(self, now: datetime, horizon: timedelta) -> list[Session]:
        """The sessions that are due; also those due beyond `horizon`, which were set by a wrong clock."""
        rows = self.connection.execute(
            "SELECT * FROM sessions WHERE due_at IS NOT NULL AND (due_at <= ? OR due_at > ?) ORDER BY key",
            (to_text(now), to_text(now + horizon)),
        ).fetchall()
        return [session_of(row) for row in rows]

    def next_due(self) -> datetime | None:
        """When the first session is due; None when none is."""
        return optional_moment(self.connection.execute("SELECT min(due_at) FROM sessions").fetchone()[0])

    def in_row(self, key: int) -> tuple[Session, Item]:
        """The item in this row, and its session."""
        item = self.items.in_row(key)
        return self._found(item.session), item

    def set_due(self, session: Session, at: datetime | None) -> None:
        """Set when maintenance looks at the session next."""
        self.connection.execute("UPDATE sessions SET due_at = ? WHERE key = ?", (optional_text(at), session.key))

    def view(self, session: Session) -> SqlItemView:
        """A view of the session's set, as it is now."""
        return SqlItemView(self.connection, self._found(session.id))

    def _found(self, id_: str) -> Session:
        session = self.find(id_)
        assert session is not None
        return session
