"""Rows: sessions, items and events as rows of state.db and back."""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from state.sessions.item import Item, Related, State, hash_of
from state.sessions.policies import Policy, policy_of
from state.stores.database.connection import from_text, optional_moment
from state.stores.database.tables import ItemEventRow, SessionRow

# A session's items have the keys from its own key * SPAN on.
SPAN = 1 << 32
NEVER_OPENED = -1  # the key of a session that was never opened
# SQLite uses the index of the set only for a condition in exactly these words.
IN_SET = "state IN ('live', 'hidden')"
_ELSEWHERE = {
    "session_id": "(SELECT sessions.id FROM sessions WHERE sessions.key = items.session)",
    "content_hash": "items.content",
}
_READ: Mapping[str, Callable[[Any], object]] = {
    "content_hash": hash_of,
    "tags": lambda text: () if text == "[]" else tuple(json.loads(text)),
    "metadata": lambda text: {} if text == "{}" else json.loads(text),
    "relations": lambda text: () if text == "[]" else tuple(Related(*one) for one in json.loads(text)),
    **dict.fromkeys(("created_at", "last_accessed_at"), from_text),
    **dict.fromkeys(("expires_at", "promoted_at"), optional_moment),
}
_NAMES = [one.name for one in fields(Item)]
_READERS = [_READ.get(name) for name in _NAMES]
# As `item_of` reads them: in this order.
COLUMNS = ", ".join(_ELSEWHERE.get(name, f"items.{name}") for name in _NAMES)


@dataclass(frozen=True, slots=True)
class Session:
    """One session: how it was opened, and the highest step that it was given.

    `due_at` is when maintenance looks at it next; None: not before something is added.
    """

    key: int
    id: str
    policy: str
    config: dict[str, Any]
    opened_at: datetime
    closed_at: datetime | None = None
    step: int = 0
    due_at: datetime | None = None

    @property
    def is_known(self) -> bool:
        """Whether the session was ever opened."""
        return self.key != NEVER_OPENED

    @property
    def rules(self) -> Policy:
        """The policy, with its settings."""
        return policy_of(self.policy, self.config)


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


def key_of(session: Session, item: Item) -> int:
    """Return the row of an item."""
    return session.key * SPAN + item.seq


def session_of(row: sqlite3.Row) -> Session:
    """Return the session in this row."""
    return SessionRow.table.value(Session, row, config=json.loads(row["config"]))


def event_of(row: sqlite3.Row) -> Event:
    """Return the event in this row, which has the `item_id` beside."""
    seq = row["item"] % SPAN if row["item"] is not None else None
    more = {"item": row["item_id"] or "", "figures": json.loads(row["figures"])}
    return ItemEventRow.table.value(Event, row, seq=seq, **more)


def item_of(row: Sequence[Any]) -> Item:
    """Return the item in this row of `COLUMNS`."""
    values: Any = [value if read is None else read(value) for read, value in zip(_READERS, row, strict=True)]
    return Item(*values)


def stored(values: Mapping[str, object]) -> dict[str, object]:
    """Return values of an item as its table takes them: what has parts as JSON."""
    parts = {name: one for name, one in values.items() if isinstance(one, tuple | list | dict)}
    texts = {name: json.dumps(one, default=_relation) for name, one in parts.items()}
    return {**values, **texts, **({"state": State(str(values["state"]))} if "state" in values else {})}


def _relation(one: Related) -> list[object]:
    return [one.relation_type, one.target_element_id, one.metadata]
