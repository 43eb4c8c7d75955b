"""Replies: the frozen values that the session tools return, with the field names that they have always had."""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from datetime import datetime
from typing import Any, Self, TypeVar

from state.sessions.item import Item, Related
from state.sessions.page import page
from state.sessions.policies import Decision, settings_of
from state.stores.sessions.sessions import Event, Session

_MoreT = TypeVar("_MoreT", bound=Item)


@dataclass(frozen=True, slots=True)
class Departure:
    """An item that left the set: what became of it (archive, promote), and why."""

    memory_id: str
    content: str
    action: str
    reason: str
    importance: float
    token_count: int
    rescue: bool

    @classmethod
    def of(cls, step: Decision) -> Self:
        """Convert a step of a plan."""
        item, action = step.item, step.action.value
        return cls(item.id, item.content, action, step.reason, item.importance, item.token_count, step.rescue)


@dataclass(frozen=True, slots=True)
class Added(Item):
    """A new item, and what left because of it. `stored` is false when it was its own victim."""

    stored: bool = True
    evicted: tuple[Departure, ...] = ()


@dataclass(frozen=True, slots=True)
class Memorized:
    """A new item with its position (0: the oldest; None: it was not stored), and the session after it."""

    stored: bool
    memory: Item
    position: int | None
    evicted: tuple[Departure, ...]
    count: int
    token_count: int


@dataclass(frozen=True, slots=True)
class Memories:
    """Items of a session. `next_cursor`: where the next part of the list begins; None: this is all, as everywhere."""

    memories: tuple[Item, ...]
    count: int
    session_id: str
    next_cursor: str | None = None

    @classmethod
    def of(cls, session_id: str, items: Iterable[Item], limit: int | None, cursor: str) -> Self:
        """Return the requested page of these items. Raise UsageError."""
        part, following = page(items, limit, cursor)
        return cls(part, len(part), session_id, following)


@dataclass(frozen=True, slots=True)
class Eligible(Item):
    """An item that is promoted at its next access or cleanup."""

    should_promote: bool = True


@dataclass(frozen=True, slots=True)
class Pending(Memories):
    """Items that have earned promotion."""

    memories: tuple[Eligible, ...]


@dataclass(frozen=True, slots=True)
class Relevant(Item):
    """An item that a search found."""

    relevance_score: float = 0.0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found, the most relevant first."""

    memories: tuple[Relevant, ...]
    count: int
    query: str
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class LongTerm:
    """A long-term record: what an item became. `crystal_id` is what memory_search calls it."""

    id: str
    content: str
    tags: tuple[str, ...]
    metadata: dict[str, str]
    relations: tuple[Related, ...]
    crystal_id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PromotedOne:
    """What became of one of several; `code` is that of the error."""

    memory_id: str
    success: bool
    long_term_id: str | None = None
    error: str | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class BulkPromoted:
    """How many could be promoted, how many not, and each in the order in which it was asked for."""

    success: int
    failed: int
    results: tuple[PromotedOne, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """It is done."""

    success: bool
    message: str


@dataclass(frozen=True, slots=True)
class Cleared(Done):
    """The session is empty; `archived` items are in the cold archive."""

    archived: int = 0


@dataclass(frozen=True, slots=True)
class Extended(Done):
    """The item lives longer."""

    new_expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A session, with all the settings of its policy. `new` is false when it was open already."""

    session_id: str
    policy: str
    config: dict[str, Any]
    opened_at: datetime
    new: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """A session is over: what was in it is in the cold archive, and the dream looks at it."""

    session_id: str
    closed_at: datetime
    archived: int


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session in a list of sessions. `last_active_at`: when something entered or left it last."""

    session_id: str
    policy: str
    opened_at: datetime
    closed_at: datetime | None
    count: int
    token_count: int
    step: int
    utilisation: float
    status: str
    max_items: int | None
    max_tokens: int | None
    last_active_at: datetime


@dataclass(frozen=True, slots=True)
class SessionList:
    """The sessions that were ever opened, the latest first."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Events:
    """What happened: to a session the latest first, to a memory from the beginning."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """Who would leave, in this order, and why."""

    session_id: str
    leaving: tuple[Departure, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Forgot:
    """What was forgotten (with the ids that the items had), and the session after it.

    `left`: places beside working memory, and in how many lines or rows of each the text still stands.
    """

    success: bool
    mode: str
    forgotten: tuple[str, ...]
    count: int
    token_count: int
    message: str
    left: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary; its lines begin with the number of their source, from 1."""

    summary: str
    token_count: int
    sources: tuple[str, ...]
    scope: str


@dataclass(frozen=True, slots=True)
class WorkingContext:
    """Items as one text for a model."""

    context: str
    token_count: int
    memory_ids: tuple[str, ...]
    strategy: str


@dataclass(frozen=True, slots=True)
class Restored:
    """An item, whether it is in the set now (it may have been its own victim), and the session after it."""

    restored: bool
    memory: Item
    evicted: tuple[Departure, ...]
    count: int
    token_count: int


@dataclass(frozen=True, slots=True)
class Recalled:
    """What the cold archive holds about a query, the best first; `restored` is the one that was put back, if any."""

    query: str
    memories: tuple[Item, ...]
    count: int
    restored: Restored | None = None
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """What fits, and what is left. None: the policy has no such limit."""

    policy: str
    items: int
    tokens: int
    max_items: int | None
    max_tokens: int | None
    available_items: int | None
    available_tokens: int | None
    utilisation: float
    status: str
    settings: Mapping[str, object]

    @classmethod
    def of(cls, session: Session, count: int, tokens: int) -> Self:
        """Return the capacity of a session with this many items and tokens."""
        rules = session.rules
        limits = zip(rules.limits, (count, tokens), strict=True)
        items, more = (None if most is None else max(0, most - has) for most, has in limits)
        usage = rules.usage(count, tokens)
        return cls(session.policy, count, tokens, *rules.limits, items, more, *usage, settings_of(rules))


@dataclass(frozen=True, slots=True)
class Leaver:
    """An item that is among the next to leave, what becomes of it, and why."""

    id: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class SessionStats:
    """Counts of the set: active and expired ones make up the total; hidden, promoted and pending ones are among both.

    `avg_importance` is of the computed importance, as of each item's last access.
    """

    session_id: str
    total_count: int
    active_count: int
    expired_count: int
    hidden_count: int
    promoted_count: int
    pending_promotion: int
    avg_access_count: float
    avg_importance: float
    by_priority: Mapping[str, int]
    step: int
    capacity: Capacity
    next_to_leave: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True)
class Maintained:
    """What maintenance did: sessions that were due, items that became crystals, were archived, or were refused."""

    sessions: int = 0
    promoted: int = 0
    archived: int = 0
    refused: int = 0

    def __add__(self, other: Self) -> Self:
        mine, others = (astuple(one) for one in (self, other))
        return type(self)(*(one + more for one, more in zip(mine, others, strict=True)))

    @property
    def changed(self) -> bool:
        """Return whether maintenance changed anything."""
        return any((self.promoted, self.archived, self.refused))


def extended(kind: type[_MoreT], item: Item, **more: object) -> _MoreT:
    """Return the item as a reply of this kind, with these additional fields."""
    values: dict[str, Any] = {one.name: getattr(item, one.name) for one in fields(Item)}
    return kind(**{**values, **more})
