"""Relations of session items to other things: kept with the item, and handed on when it is promoted."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from state.sessions.item import Item
from state.stores.database.connection import from_text, to_text, transaction
from state.stores.sessions.events import EventKind, SessionEvents
from state.stores.sessions.rows import SPAN, Session, key_of


@dataclass(frozen=True, slots=True)
class Relation:
    """A typed relation of an item to something else."""

    type: str
    target: str
    metadata: Mapping[str, str]
    at: datetime


class SessionRelations:
    """The relations of one workspace's items."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.events = SessionEvents(connection)

    def add(self, session: Session, item: Item, relation: Relation) -> None:
        """Add this relation, or replace its metadata."""
        with transaction(self.connection) as connection:
            connection.execute(
                "INSERT OR REPLACE INTO item_relations (item, type, target, metadata, at) VALUES (?, ?, ?, ?, ?)",
                (
                    key_of(session, item),
                    relation.type,
                    relation.target,
                    json.dumps(dict(relation.metadata)),
                    to_text(relation.at),
                ),
            )
            self.events.add(session, EventKind.RELATED, relation.at, [(item.seq, "", {})])

    def of(self, session: Session, items: Iterable[Item]) -> dict[int, tuple[Relation, ...]]:
        """The relations of these items, by their numbers; those that have none are left out."""
        rows = self.connection.execute(
            "SELECT * FROM item_relations WHERE item IN (SELECT value FROM json_each(?)) ORDER BY at, type, target",
            (json.dumps([key_of(session, item) for item in items]),),
        ).fetchall()
        found: dict[int, tuple[Relation, ...]] = {}
        for row in rows:
            relation = Relation(row["type"], row["target"], json.loads(row["metadata"]), from_text(row["at"]))
            seq = int(row["item"]) % SPAN
            found[seq] = (*found.get(seq, ()), relation)
        return found
