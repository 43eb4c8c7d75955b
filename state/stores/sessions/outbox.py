"""Promotion outbox: items that are to be crystals, and once they are, their long-term records.

A row is written with the item's change; delivering it is writing the crystal, under an id made of its content, and
saying so, in one transaction. The text stays the item's: nothing is copied here.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from state.sessions.item import Item
from state.stores.database.connection import from_text, optional_moment, to_text
from state.stores.sessions.rows import Session, key_of


@dataclass(frozen=True, slots=True)
class Promotion:
    """A promotion: `id` is the long-term record's, `crystal` the crystal's; `delivered_at` None: it waits.

    The record's text, tags and relations are the item's.
    """

    id: str
    crystal: str
    metadata: Mapping[str, str]
    reason: str
    at: datetime
    delivered_at: datetime | None = None


class Outbox:
    """The promotions of one workspace. Writing is a part of the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put(self, session: Session, item: Item, promotion: Promotion) -> None:
        """Queue this item for promotion."""
        self._connection.execute(
            "INSERT INTO promotions (item, id, crystal, record, reason, at) VALUES (?, ?, ?, ?, ?, ?)",
            (
                key_of(session, item),
                promotion.id,
                promotion.crystal,
                json.dumps({"metadata": dict(promotion.metadata)}),
                promotion.reason,
                to_text(promotion.at),
            ),
        )

    def of(self, session: Session, item: Item) -> Promotion | None:
        """The promotion of this item, delivered or not."""
        row = self._connection.execute("SELECT * FROM promotions WHERE item = ?", (key_of(session, item),)).fetchone()
        return _promotion(row) if row else None

    def waiting(self, limit: int, after: int = -1) -> list[tuple[int, Promotion]]:
        """The promotions that are not delivered yet, as (row of the item, promotion), after this row."""
        rows = self._connection.execute(
            "SELECT * FROM promotions WHERE delivered_at IS NULL AND item > ? ORDER BY item LIMIT ?", (after, limit)
        ).fetchall()
        return [(row["item"], _promotion(row)) for row in rows]

    def delivered(self, key: int, now: datetime) -> bool:
        """Mark the item in this row as delivered; False when it was delivered or withdrawn already."""
        statement = "UPDATE promotions SET delivered_at = ? WHERE item = ? AND delivered_at IS NULL"
        return bool(self._connection.execute(statement, (to_text(now), key)).rowcount)

    def counts(self) -> tuple[int, int]:
        """How many promotions wait, and how many there are."""
        row = self._connection.execute(
            "SELECT (SELECT count(*) FROM promotions WHERE delivered_at IS NULL), (SELECT count(*) FROM promotions)"
        ).fetchone()
        return int(row[0]), int(row[1])

    def withdraw(self, keys: Iterable[int]) -> None:
        """Delete the promotions of the items in these rows."""
        self._connection.executemany("DELETE FROM promotions WHERE item = ?", [(key,) for key in keys])


def _promotion(row: sqlite3.Row) -> Promotion:
    return Promotion(
        id=row["id"],
        crystal=row["crystal"],
        metadata=json.loads(row["record"])["metadata"],
        reason=row["reason"],
        at=from_text(row["at"]),
        delivered_at=optional_moment(row["delivered_at"]),
    )
