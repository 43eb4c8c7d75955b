"""The toolset `sessions`: the tools of session working memory, and how much of an answer an agent is told.

An agent pays for every word that it reads, so it is told a part of the operation's answer, under the same names.
Programs have the whole of it over HTTP.
"""

from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from daemon.operations.session_items import (
    ADD,
    BULK,
    CLEAR,
    EXPIRE,
    EXPIRED,
    EXPORT,
    EXTEND,
    FIND,
    GET,
    LIST,
    PENDING,
    PROMOTE,
    PROMOTED,
    RELATE,
    STATS,
)
from daemon.operations.session_minds import (
    CAPACITY,
    CLOSE,
    CONTEXT,
    FORGET,
    MEMORIZE,
    OPEN,
    RECALL,
    REMEMBER,
    RESTORE_MEMORY,
    SUMMARIZE,
)
from daemon.sessions.values import Related

if TYPE_CHECKING:
    from daemon.operations import AnyOperation

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Item:
    """A memory, as working_memory_add answers it."""

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


@dataclass(frozen=True, slots=True)
class Gone:
    """What left to make room, and why. Its id says how it began."""

    memory_id: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class NewItem(Item):
    """A new memory, and what left because of it."""

    stored: bool
    evicted: tuple[Gone, ...]


@dataclass(frozen=True, slots=True)
class ReadItem(Item):
    """A memory that was asked for."""

    promoted_to_id: str | None
    relations: tuple[Related, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """Memories."""

    memories: tuple[Item, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Exported(Items):
    """All memories of a session."""

    session_id: str


@dataclass(frozen=True, slots=True)
class PendingItem(Item):
    """A memory that has earned promotion."""

    should_promote: bool


@dataclass(frozen=True, slots=True)
class PendingItems:
    """Memories that have earned promotion."""

    memories: tuple[PendingItem, ...]
    count: int


@dataclass(frozen=True, slots=True)
class PromotedItem(Item):
    """A memory that is a long-term record too."""

    promoted_to_id: str | None
    promoted_at: datetime | None


@dataclass(frozen=True, slots=True)
class PromotedItems:
    """Memories that are long-term records too."""

    memories: tuple[PromotedItem, ...]
    count: int


@dataclass(frozen=True, slots=True)
class FoundItem(Item):
    """A memory that a search found."""

    relevance_score: float


@dataclass(frozen=True, slots=True)
class FoundItems:
    """What a search found, the most relevant first."""

    memories: tuple[FoundItem, ...]
    count: int
    query: str


@dataclass(frozen=True, slots=True)
class Leaver:
    """Who is among the next to leave."""

    id: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fill:
    """How full a session is; null: no such limit."""

    policy: str
    status: str
    utilisation: float
    tokens: int
    max_items: int | None
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class Stats:
    """How a session stands."""

    session_id: str
    total_count: int
    active_count: int
    expired_count: int
    promoted_count: int
    pending_promotion: int
    hidden_count: int
    avg_access_count: float
    avg_importance: float
    by_priority: dict[str, int]
    capacity: Fill
    next_to_leave: tuple[Leaver, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory whose text the agent has just said."""

    id: str
    importance: float
    token_count: int
    step_index: int
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Memorized:
    """A new memory with its position (0: the oldest; null: it was its own victim), and the session after it."""

    stored: bool
    memory: Kept
    position: int | None
    evicted: tuple[Gone, ...]
    count: int
    token_count: int


@dataclass(frozen=True, slots=True)
class Thought:
    """A memory that a prompt is about, or that left."""

    id: str
    content: str
    importance: float
    step_index: int
    created_at: datetime
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Thoughts:
    """What a session has in mind, the most important first."""

    memories: tuple[Thought, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Left(Thought):
    """A memory that left, and why."""

    state_reason: str


@dataclass(frozen=True, slots=True)
class PutBack:
    """A memory, and whether it is in the session again: it may have been its own victim."""

    restored: bool
    memory: Thought
    evicted: tuple[Gone, ...]
    count: int
    token_count: int


@dataclass(frozen=True, slots=True)
class Recalled:
    """What left a session and is about a query, the best first; `restored` is the one that was put back, if any."""

    memories: tuple[Left, ...]
    count: int
    restored: PutBack | None


# Each tool's operation, and what an agent is told of its answer.
TOOLS: "tuple[tuple[AnyOperation, type], ...]" = (
    (OPEN, OPEN.reply),
    (CLOSE, CLOSE.reply),
    (ADD, NewItem),
    (GET, ReadItem),
    (LIST, Items),
    (PROMOTE, PROMOTE.reply),
    (CLEAR, CLEAR.reply),
    (STATS, Stats),
    (EXPIRE, EXPIRE.reply),
    (EXTEND, EXTEND.reply),
    (EXPORT, Exported),
    (PENDING, PendingItems),
    (EXPIRED, Items),
    (PROMOTED, PromotedItems),
    (BULK, BULK.reply),
    (RELATE, RELATE.reply),
    (FIND, FoundItems),
    (MEMORIZE, Memorized),
    (REMEMBER, Thoughts),
    (FORGET, FORGET.reply),
    (SUMMARIZE, SUMMARIZE.reply),
    (CAPACITY, CAPACITY.reply),
    (CONTEXT, CONTEXT.reply),
    (RECALL, Recalled),
    (RESTORE_MEMORY, PutBack),
)
# Beside those that only read. Getting a memory counts as an access.
REPEATABLE = (OPEN, CLOSE, PROMOTE, BULK, CLEAR, EXPIRE, RELATE, RESTORE_MEMORY)
DESTROYING = (FORGET,)


def part(kind: type[Part], value: object) -> Part:
    """The fields of `kind`, a frozen dataclass, of a value that has them all; nested ones likewise."""
    found: Part = _part(kind, value)
    return found


def _part(kind: Any, value: Any) -> Any:  # noqa: ANN401 - types and values of any kind
    if value is None:
        return None
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(**{name: _part(of, getattr(value, name)) for name, of in _fields(kind)})
    if get_origin(kind) is tuple:
        return tuple(_part(get_args(kind)[0], one) for one in value)
    if isinstance(kind, UnionType):
        return _part(next(one for one in get_args(kind) if one is not type(None)), value)
    return value


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:  # noqa: ANN401
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))
