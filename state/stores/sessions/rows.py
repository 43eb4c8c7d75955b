"""Items of working memory as rows of state.db and back, and the session that they are in."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from state.sessions.item import Item, Priority, State
from state.stores.database.connection import from_text, optional_moment

# A session's items have the numbers from its key * SPAN on.
SPAN = 1 << 32
_PRIORITIES = {one.value: one for one in Priority}
_STATES = {one.value: one for one in State}
# SQLite uses the indexes of the set only for conditions in exactly these words.
IN_SET = "state IN ('live', 'hidden')"
_NAMES = (
    "seq content priority importance token_count created_at last_accessed_at expires_at importance_score access_count"
    " step_index agent source tags metadata state state_reason promoted_to promoted_at promotion_reason rescue"
).split()
# As `item_of` reads them: in this order.
COLUMNS = ", ".join(
    (
        "items.id",
        "(SELECT sessions.id FROM sessions WHERE sessions.key = items.session)",
        *(f"items.{name}" for name in _NAMES),
    )
)


@dataclass(frozen=True, slots=True)
class Session:
    """One session: how it was opened, and how much is in it.

    `config` is what was given for its policy; `step` the highest that it was given; `held` and `tokens` are of the
    set; `due_at` is when maintenance looks at it next (None: not before something is added).
    """

    key: int
    id: str
    policy: str
    config: dict[str, Any]
    opened_at: datetime
    closed_at: datetime | None = None
    step: int = 0
    held: int = 0
    tokens: int = 0
    due_at: datetime | None = None


def key_of(session: Session, item: Item) -> int:
    """The row of an item."""
    return session.key * SPAN + item.seq


def keys_of(session: Session) -> tuple[int, int]:
    """The first and the last row that an item of this session may have."""
    return session.key * SPAN, (session.key + 1) * SPAN - 1


def session_of(row: sqlite3.Row) -> Session:
    """The session in this row."""
    return Session(
        key=row["key"],
        id=row["id"],
        policy=row["policy"],
        config=json.loads(row["config"]),
        opened_at=from_text(row["opened_at"]),
        closed_at=optional_moment(row["closed_at"]),
        step=row["step"],
        held=row["held"],
        tokens=row["tokens"],
        due_at=optional_moment(row["due_at"]),
    )


def item_of(row: Sequence[Any]) -> Item:
    """The item in this row of `COLUMNS`."""
    (id_, session, seq, content, priority, importance, tokens, created, accessed, expires, *rest) = row
    (score, accesses, step, agent, source, tags, metadata, state, why, promoted_to, promoted_at, how, rescue) = rest
    return Item(
        id=id_,
        session=session,
        seq=seq,
        content=content,
        priority=_PRIORITIES[priority],
        importance=importance,
        token_count=tokens,
        created_at=from_text(created),
        last_accessed_at=from_text(accessed),
        expires_at=optional_moment(expires),
        importance_score=score,
        access_count=accesses,
        step_index=step,
        agent=agent,
        source=source,
        tags=() if tags == "[]" else tuple(json.loads(tags)),
        metadata={} if metadata == "{}" else json.loads(metadata),
        state=_STATES[state],
        state_reason=why,
        promoted_to=promoted_to,
        promoted_at=optional_moment(promoted_at),
        promotion_reason=how,
        rescue=bool(rescue),
    )
