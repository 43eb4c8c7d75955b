"""Replies: the frozen values that the session tools return, with the field names that they have always had."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from state.sessions.item import Item
from state.sessions.page import Page, Wanted, page
from state.sessions.policies.policy import Step
from state.stores.sessions.relations import Relation

_NO_RELATIONS: Mapping[int, Sequence[Relation]] = {}


@dataclass(frozen=True, slots=True)
class Related:
    """What an item is to something else."""

    relation_type: str
    target_element_id: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True)
class Memory:
    """One item. `importance` is what it was given, `importance_score` what its use made of it at its last access."""

    id: str
    session_id: str
    content: str
    priority: str
    expires_at: datetime | None
    created_at: datetime
    access_count: int
    importance_score: float
    tags: tuple[str, ...]
    metadata: dict[str, str]
    agent_id: str
    source: str
    seq: int
    importance: float
    token_count: int
    step_index: int
    last_accessed_at: datetime
    content_hash: str
    state: str
    state_reason: str
    promoted_to_id: str | None
    promoted_at: datetime | None
    promotion_reason: str | None
    relations: tuple[Related, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Added(Memory):
    """A new item, and what left because of it. `stored` is false when it was its own victim."""

    stored: bool = True
    evicted: tuple[Departure, ...] = ()


@dataclass(frozen=True, slots=True)
class Memorized:
    """A new item with its position (0: the oldest; None: it was not stored), and the session after it."""

    stored: bool
    memory: Memory
    position: int | None
    evicted: tuple[Departure, ...]
    count: int
    token_count: int


@dataclass(frozen=True, slots=True)
class Memories:
    """Items of a session. `next_cursor`: where the next part of the list begins; None: this is all, as everywhere."""

    memories: tuple[Memory, ...]
    count: int
    session_id: str
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Eligible(Memory):
    """An item that is promoted at its next access or cleanup."""

    should_promote: bool = True


@dataclass(frozen=True, slots=True)
class Pending:
    """Items that have earned promotion."""

    memories: tuple[Eligible, ...]
    count: int
    session_id: str
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Relevant(Memory):
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
    """A cold item, and whether it is in the set again: it may have been its own victim."""

    restored: bool
    memory: Memory
    evicted: tuple[Departure, ...]
    count: int
    token_count: int


@dataclass(frozen=True, slots=True)
class Recalled:
    """What the cold archive holds about a query, the best first; `restored` is the one that was put back, if any."""

    query: str
    memories: tuple[Memory, ...]
    count: int
    restored: Restored | None = None
    next_cursor: str | None = None


def memory_of(item: Item, relations: Sequence[Relation] = ()) -> Memory:
    """An item as a caller sees it."""
    return Memory(**fields_of(item), relations=related(relations))


def related(relations: Sequence[Relation]) -> tuple[Related, ...]:
    """Relations as a caller sees them."""
    return tuple(Related(one.type, one.target, dict(one.metadata)) for one in relations)


def memories_of(
    session_id: str, part: Page[Item], relations: Mapping[int, Sequence[Relation]] = _NO_RELATIONS
) -> Memories:
    """A page of items as a caller sees it."""
    memories = tuple(memory_of(item, relations.get(item.seq, ())) for item in part.items)
    return Memories(memories, len(memories), session_id, part.next_cursor)


def page_of(items: Iterable[Item], wanted: Wanted) -> Page[Item]:
    """The wanted part of a list of items. Raises UsageError."""
    return page(items, wanted, lambda item: item.id, lambda item: len(item.content))


def departure(step: Step) -> Departure:
    """A step of a plan."""
    item = step.item
    return Departure(
        item.id, item.content, step.action.value, step.reason, item.importance, item.token_count, step.rescue
    )


# The fields of a memory, and the attributes of an item that they are.
_ATTRIBUTES = {one.name: one.name for one in fields(Memory) if one.name != "relations"} | {
    "session_id": "session",
    "agent_id": "agent",
    "promoted_to_id": "promoted_to",
}


def fields_of(item: Item) -> dict[str, Any]:
    """The fields of a memory that are the item's own."""
    return {
        **{name: getattr(item, attribute) for name, attribute in _ATTRIBUTES.items()},
        "priority": item.priority.value,
        "state": item.state.value,
        "promoted_to_id": item.promoted_to or None,
        "promotion_reason": item.promotion_reason or None,
    }
