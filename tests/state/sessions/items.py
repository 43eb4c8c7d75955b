"""Items with a clock that stands still, and a session's set as policies see it."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from state.sessions.item import Item, hash_of
from state.sessions.policies import Plan, View

START = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def item(seq: int = 0, **fields: Any) -> Item:
    """An item of one token, middling and new, as far as nothing else is said."""
    created, content = fields.get("created_at", START), fields.get("content", f"note {seq}")
    usual: dict[str, Any] = {
        "id": f"item-{seq}", "session_id": "s", "content": content, "priority": "medium", "expires_at": None,
        "created_at": created, "access_count": 1, "importance_score": 0.0, "tags": (), "metadata": {}, "agent_id": "",
        "source": "", "seq": seq, "importance": 0.5, "token_count": 1, "step_index": 0, "last_accessed_at": created,
        "content_hash": hash_of(content),
    }  # fmt: skip
    return Item(**{**usual, **fields})


def view(items: Iterable[Item], step: int | None = None, now: datetime = START) -> View:
    """The set as the store hands it out: by number; the step is the highest of the items unless it is given."""
    ordered = sorted(items, key=lambda one: one.seq)
    return View(ordered, max((one.step_index for one in ordered), default=0) if step is None else step, now)


def seqs(items: Iterable[Item]) -> list[int]:
    return [one.seq for one in items]


def left(plan: Plan) -> list[int]:
    return seqs(step.item for step in plan.steps)
