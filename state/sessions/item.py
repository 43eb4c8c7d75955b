"""Item: one item of a session's working memory, and the values that it is made of."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

MAX_CONTENT_BYTES = 102_400


class Priority(StrEnum):
    """How much it matters, as its writer says."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def weight(self) -> float:
        """.25, .5, .75, 1: also the importance of an item that was given none."""
        return _WEIGHTS[self]


_WEIGHTS = {Priority.LOW: 0.25, Priority.MEDIUM: 0.5, Priority.HIGH: 0.75, Priority.CRITICAL: 1.0}


class State(StrEnum):
    """Where an item is. Only `live` and `hidden` ones are in the set, and count against its limits."""

    LIVE = "live"
    HIDDEN = "hidden"  # softly forgotten: counted, not remembered, the first to leave
    ARCHIVED = "archived"  # cold: found by recall, restorable
    PURGED = "purged"  # a tombstone without content


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a session remembers.

    `seq` grows by one with each item of the session: the FIFO order and the last tie-break. `importance` is assigned
    (0 to 1), `importance_score` computed. `expires_at` is None where the policy has no time to live. `access_count`
    starts at 1. `promoted_to` is the long-term record's id once it is delivered; `rescue`: a protected item that a
    hard limit took, which the dream looks at first.
    """

    id: str
    session: str
    seq: int
    content: str
    priority: Priority
    importance: float
    token_count: int
    created_at: datetime
    last_accessed_at: datetime
    expires_at: datetime | None = None
    importance_score: float = 0.0
    access_count: int = 1
    step_index: int = 0
    agent: str = ""
    source: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    state: State = State.LIVE
    state_reason: str = ""
    promoted_to: str = ""
    promoted_at: datetime | None = None
    promotion_reason: str = ""
    rescue: bool = False

    @property
    def content_hash(self) -> str:
        """SHA-256 of the content, hexadecimal."""
        return hashlib.sha256(self.content.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def promoted(self) -> bool:
        """Whether it is a long-term record too."""
        return bool(self.promoted_to)

    def expired(self, now: datetime) -> bool:
        """Whether its time has come: now is at or after `expires_at`."""
        return self.expires_at is not None and now >= self.expires_at
