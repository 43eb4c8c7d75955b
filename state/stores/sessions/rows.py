"""Rows: sessions, items and events as rows of state.db and back."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from state.sessions.item import Held, Item, Related, hash_of
from state.sessions.policies import Policy, policy_of
from state.stores.database.connection import from_text, optional_moment, to_text
from state.stores.database.tables import ItemEventRow, SessionRow

# A session's items have the keys from its own key * SPAN on.
SPAN = 1 << 32
# SQLite uses the index of the set only for a condition in exactly these words.
IN_SET = "state IN ('live', 'hidden')"
_NAMES = (
    "id content priority expires_at created_at access_count importance_score tags metadata agent_id source seq"
    " importance token_count step_index last_accessed_at state state_reason promoted_to_id promoted_at"
    " promotion_reason relations"
).split()
# As `item_of` and `held_of` read them: in this order.
COLUMNS = ", ".join(
    (*(f"items.{name}" for name in _NAMES), "(SELECT sessions.id FROM sessions WHERE sessions.key = items.session)")
)
HELD_COLUMNS = ", ".join("length(content)" if name == "length" else name for name in Held._fields)


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
    (id_, content, priority, expires, created, accesses, scored, tags, metadata, agent, source, seq, *rest) = row
    (importance, count, step, accessed, state, why, promoted, promoted_at, how, relations, session) = rest
    return Item(
        id=id_,
        session_id=session,
        content=content,
        priority=priority,
        expires_at=optional_moment(expires),
        created_at=from_text(created),
        access_count=accesses,
        importance_score=scored,
        tags=() if tags == "[]" else tuple(json.loads(tags)),
        metadata={} if metadata == "{}" else json.loads(metadata),
        agent_id=agent,
        source=source,
        seq=seq,
        importance=importance,
        token_count=count,
        step_index=step,
        last_accessed_at=from_text(accessed),
        content_hash=hash_of(content),
        state=state,
        state_reason=why,
        promoted_to_id=promoted,
        promoted_at=optional_moment(promoted_at),
        promotion_reason=how,
        relations=() if relations == "[]" else tuple(Related(*one) for one in json.loads(relations)),
    )


def held_of(row: Sequence[Any]) -> Held:
    """Return what policies see of the item in this row of `HELD_COLUMNS`."""
    (id_, seq, state, priority, importance, count, created, expires, accesses, step, tags, length, promoted) = row
    return Held(
        id_, seq, state, priority, importance, count, from_text(created), optional_moment(expires), accesses, step,
        () if tags == "[]" else tuple(json.loads(tags)), length, promoted,
    )  # fmt: skip


def row_of(item: Item) -> dict[str, object]:
    """Return the columns of an item."""
    return {name: stored(getattr(item, name)) for name in _NAMES}


def stored(value: object) -> object:
    """Return a value of an item or a session as its column holds it."""
    if isinstance(value, datetime):
        return to_text(value)
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return json.dumps(value, default=_relation)
    return value


def _relation(one: Related) -> list[object]:
    return [one.relation_type, one.target_element_id, one.metadata]
