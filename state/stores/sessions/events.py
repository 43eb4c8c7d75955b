"""Session events: what happened to which item, when and why, with figures; events are only ever added."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from state.stores.database.connection import from_text, to_text
from state.stores.sessions.rows import SPAN, Session


class EventKind(StrEnum):
    """The kinds of events of sessions and items. Reading an item is counted, and no event."""

    OPENED = "opened"
    CLOSED = "closed"
    CLEARED = "cleared"
    ADDED = "added"
    EXPIRED = "expired"  # by hand
    EXTENDED = "extended"
    RELATED = "related"
    REASSESSED = "reassessed"  # its importance was changed
    HIDDEN = "hidden"  # softly forgotten
    PROMOTED = "promoted"  # it is in the outbox
    DELIVERED = "delivered"  # it is a crystal
    WITHDRAWN = "withdrawn"  # it was in the outbox and could not be delivered
    REFUSED = "refused"  # it is not to be a crystal
    LEFT = "left"  # for the long-term memory alone
    ARCHIVED = "archived"
    RESTORED = "restored"
    PURGED = "purged"


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `seq` is the item's, None for an event of the session; `item` is its current id."""

    key: int
    at: datetime
    action: str
    reason: str = ""
    seq: int | None = None
    item: str = ""
    figures: Mapping[str, int | float | str] = field(default_factory=dict)


class SessionEvents:
    """The event log in state.db. Writing is a part of the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(
        self,
        session: Session,
        kind: EventKind,
        now: datetime,
        items: Iterable[tuple[int, str, Mapping[str, float | str]]] = ((-1, "", {}),),
    ) -> None:
        """Add an event of this kind for each (seq, reason, figures); a seq of -1 is the session itself."""
        self._connection.executemany(
            "INSERT INTO item_events (at, session, item, action, reason, figures) VALUES (?, ?, ?, ?, ?, ?)",
            [
                (
                    to_text(now),
                    session.key,
                    session.key * SPAN + seq if seq >= 0 else None,
                    kind.value,
                    reason,
                    json.dumps(figures) if figures else "{}",
                )
                for seq, reason, figures in items
            ],
        )

    def of_session(self, session: Session, limit: int, before: int | None = None) -> list[Event]:
        """The last events of a session, the latest first; `before` is the key of the last one that is known."""
        rows = self._connection.execute(
            "SELECT e.*, i.id AS item_id FROM item_events e LEFT JOIN items i ON i.key = e.item"
            " WHERE e.session = ? AND e.key < ? ORDER BY e.key DESC LIMIT ?",
            (session.key, before if before is not None else (1 << 63) - 1, limit),
        )
        return [_event(row) for row in rows]

    def last_at(self, session: Session) -> datetime | None:
        """When something happened in a session last."""
        row = self._connection.execute(
            "SELECT at FROM item_events WHERE session = ? ORDER BY key DESC LIMIT 1", (session.key,)
        ).fetchone()
        return from_text(row[0]) if row else None

    def of_item(self, session: Session, seq: int, limit: int = -1, after: int | None = None) -> list[Event]:
        """The life of one item, from its beginning, or after this event; so many (-1: all)."""
        rows = self._connection.execute(
            "SELECT e.*, i.id AS item_id FROM item_events e LEFT JOIN items i ON i.key = e.item"
            " WHERE e.item = ? AND e.key > ? ORDER BY e.key LIMIT ?",
            (session.key * SPAN + seq, after if after is not None else -1, limit),
        )
        return [_event(row) for row in rows]

    def last(self, session: Session, seq: int) -> Event | None:
        """The last event of an item."""
        row = self._connection.execute(
            "SELECT *, '' AS item_id FROM item_events WHERE item = ? ORDER BY key DESC LIMIT 1",
            (session.key * SPAN + seq,),
        ).fetchone()
        return _event(row) if row else None


def _event(row: sqlite3.Row) -> Event:
    return Event(
        key=row["key"],
        at=from_text(row["at"]),
        action=row["action"],
        reason=row["reason"],
        seq=row["item"] % SPAN if row["item"] is not None else None,
        item=row["item_id"] or "",
        figures=json.loads(row["figures"]),
    )
