"""Operations on sessions: open and close, the `memory_…` tools of bounded sessions, events, preview, sweep."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from daemon import sessions
from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Request, operation
from daemon.api.operations.session_items import (
    Importance,
    InSession,
    Listed,
    OfMemory,
    Part,
    Table,
    Tags,
    Text,
    draft_of,
    tool,
)
from daemon.sessions.answers import (
    Closed,
    Forgot,
    Memories,
    Memorized,
    Memory,
    Opened,
    Preview,
    Recalled,
    Restored,
    SessionSummary,
    Summary,
    WorkingContext,
)
from daemon.sessions.maintenance import Maintained
from daemon.upkeep.forget import preview_forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.stores import Store, utc_now
from state.sessions.page import LIMIT, MOST
from state.sessions.policies.by_name import settings_schema
from state.sessions.stats import Capacity
from state.stores.sessions.events import Event


class Open(InSession):
    """A session and its policy."""

    policy: Literal["ttl", "budget", "hybrid", "bounded"] = Field(
        default="ttl", description="Who leaves: by time, by count, by tokens and importance, or by both limits"
    )
    config: Annotated[dict[str, Any], WithJsonSchema(settings_schema())] = Field(default_factory=dict, max_length=100)


@tool("session_open")
def open_(access: WorkspaceAccess, request: Open) -> Opened:
    """Open a session with a policy of its own; one that is never opened is ttl."""
    with access.write() as store:
        return sessions.session_open(store, request.session_id, utc_now(), request.policy, request.config)


@tool("session_close")
def close(access: WorkspaceAccess, request: InSession) -> Closed:
    """End a session; the next dream takes in what mattered in it."""
    with access.write() as store:
        return sessions.close_session(store, request.session_id, utc_now())


class Memorize(InSession):
    """A new memory, and when."""

    content: str = Field(min_length=1, max_length=102_400, description="What to keep in mind")
    importance: Importance | None = Field(default=None, description="0 to 1, '7/10' or '★★'")
    step_index: int | None = Field(
        default=None, ge=0, le=2**53, description="The turn; else the current one, under bounded the next"
    )
    priority: Literal["low", "medium", "high", "critical"] = "medium"
    token_count: int | None = Field(default=None, ge=1, le=10**9, description="Else it is estimated")
    tags: Tags = ()
    metadata: Table = Field(default_factory=dict)
    agent_id: Text = ""
    source: Text = ""


@tool("memory_memorize")
def memorize(access: WorkspaceAccess, request: Memorize) -> Memorized:
    """Keep something in mind within the session's limits; says what had to leave."""
    with access.write() as store:
        return sessions.memorize(store, request.session_id, draft_of(request), utc_now())


class Reassess(OfMemory):
    """A memory, and how much it matters from now on."""

    importance: Importance = Field(description="0 to 1, '7/10' or '★★'")


@tool("memory_reassess")
def reassess(access: WorkspaceAccess, request: Reassess) -> Memory:
    """Change the importance of a memory."""
    with access.write() as store:
        return sessions.reassess(store, request.session_id, request.memory_id, request.importance, utc_now())


class Filters(Request):
    """What it must have; of the tags, any one."""

    tags: Tags | None = None
    priority: Literal["low", "medium", "high", "critical"] | None = None
    agent_id: Text | None = None
    source: Text | None = None


class Remember(Listed):
    """What about."""

    prompt: str = Field(default="", max_length=10_000, description="Words; empty: everything")
    filters: Filters = Field(default_factory=Filters)


@tool("memory_remember", reads=True)
def remember(access: WorkspaceAccess, request: Remember) -> Memories:
    """What the session has in mind about something, the most important and newest first."""
    with access.read() as store:
        filters = request.filters.model_dump(exclude_none=True)
        return sessions.remember(store, request.session_id, utc_now(), request.prompt, filters, request.wanted)


class ForgetMemories(InSession):
    """What to forget, and how."""

    instruction: str = Field(
        min_length=1,
        max_length=1_010,
        description="oldest, least important, position:N, before:step_N or id:MEMORY_ID",
    )
    mode: Literal["soft", "hard"] = Field(default="soft", description="soft hides; hard purges for good")
    confirm: bool = Field(default=False, description="hard needs it")


@tool("memory_forget")
def forget(access: WorkspaceAccess, request: ForgetMemories) -> Forgot:
    """Forget by instruction: softly hidden, or purged, with the crystal that it became."""
    with access.write() as store:
        return sessions.forget(store, now=utc_now(), traces=_occurrences, **request.given)


def _occurrences(store: Store, text: str, now: datetime) -> dict[str, int]:
    """Where a text still occurs, and how often: what forgetting it everywhere would erase."""
    return {trace.place: trace.count for trace in preview_forget(store, ForgetRequest(text), now).traces}


class Summarize(InSession):
    """Of what, and how long."""

    scope: str = Field(default="all", max_length=2_000, description="all, recent, important or by_tag:x")
    token_limit: int = Field(default=500, ge=1, le=10**7)


@tool("memory_summarize", reads=True)
def summarize(access: WorkspaceAccess, request: Summarize) -> Summary:
    """A summary of what the session has in mind, with its sources."""
    with access.read() as store:
        return sessions.summarize(store, request.session_id, utc_now(), request.scope, request.token_limit)


@tool("memory_capacity", reads=True)
def capacity(access: WorkspaceAccess, request: InSession) -> Capacity:
    """How full the session is."""
    with access.read() as store:
        return sessions.capacity(store, request.session_id)


class Assemble(InSession):
    """In which order, and how long."""

    strategy: Literal["recent", "important", "balanced"] = "balanced"
    max_tokens: int | None = Field(default=None, ge=1, le=10**9, description="Else the session's limit")


@tool("memory_context", reads=True)
def context(access: WorkspaceAccess, request: Assemble) -> WorkingContext:
    """The session's memories as one text for a model's context."""
    with access.read() as store:
        return sessions.context(store, request.session_id, utc_now(), request.strategy, request.max_tokens)


class Recall(Listed):
    """What left the session."""

    query: str = Field(default="", max_length=10_000, description="Words of it; empty: the latest")
    limit: int = Field(default=10, ge=1, le=MOST)


@tool("memory_recall")
def recall(access: WorkspaceAccess, request: Recall) -> Recalled:
    """Find what left the session; under hybrid the best comes back."""
    with access.write() as store:
        return sessions.recall(store, request.session_id, request.query, utc_now(), request.wanted)


@tool("memory_restore")
def restore(access: WorkspaceAccess, request: OfMemory) -> Restored:
    """Put a memory back that left the session, or was softly forgotten."""
    with access.write() as store:
        return sessions.restore(store, request.session_id, request.memory_id, utc_now())


@dataclass(frozen=True, slots=True)
class SessionList:
    """The sessions that were ever opened, the latest first."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


@operation("session_list", "/sessions", method="GET")
def list_(access: WorkspaceAccess, request: Part) -> SessionList:
    """The sessions, the latest first."""
    with access.read() as store:
        found = sessions.session_list(store, request.wanted)
        return SessionList(found.items, found.next_cursor)


class EventsRequest(InSession):
    """Of a session, or of one of its memories."""

    memory_id: str | None = Field(default=None, min_length=1, max_length=1_000)
    limit: int = Field(default=LIMIT, ge=1, le=10_000)
    cursor: int | None = Field(default=None, ge=0, le=2**53, description="key of the last event that is known")


@dataclass(frozen=True, slots=True)
class Events:
    """What happened: to a session the latest first, to a memory from the beginning."""

    events: tuple[Event, ...]


@tool("session_events", reads=True)
def events(access: WorkspaceAccess, request: EventsRequest) -> Events:
    """What entered and left a session, when and why."""
    with access.read() as store:
        return Events(
            sessions.session_events(store, request.session_id, request.limit, request.cursor, request.memory_id)
        )


class Next(Listed):
    """How many."""

    limit: int = Field(default=10, ge=1, le=MOST)


@tool("session_preview", reads=True)
def preview(access: WorkspaceAccess, request: Next) -> Preview:
    """Who would leave next, and why; nothing leaves."""
    with access.read() as store:
        return sessions.preview(store, request.session_id, utc_now(), request.wanted)


@tool("session_sweep")
def sweep(access: WorkspaceAccess, request: InSession) -> Maintained:
    """Let leave now what has outlived its time, whatever the policy waits for."""
    with access.write() as store:
        return sessions.sweep(store, request.session_id, utc_now())


SESSION_MINDS = (
    open_,
    close,
    memorize,
    reassess,
    remember,
    forget,
    summarize,
    capacity,
    context,
    recall,
    restore,
    list_,
    events,
    preview,
    sweep,
)
