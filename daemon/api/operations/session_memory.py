"""Operations on sessions: open and close, the `memory_…` tools of bounded sessions, events, preview, sweep."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from daemon import sessions
from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Request, operation, operations_in
from daemon.api.operations.session_items import (
    Drafted,
    Importance,
    InSession,
    Listed,
    OfMemory,
    Part,
    Table,
    Tags,
    Text,
    tool,
)
from daemon.sessions.answers import Forgot, SessionSummary
from daemon.upkeep.forget import preview_forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.stores import Store
from state.sessions.page import LIMIT, MOST
from state.sessions.policies import settings_schema
from state.stores.sessions.rows import Event


class Open(InSession):
    """A session and its policy."""

    policy: Literal["ttl", "budget", "hybrid", "bounded"] = Field(
        default="ttl", description="Who leaves: by time, by count, by tokens and importance, or by both limits"
    )
    config: Annotated[dict[str, Any], WithJsonSchema(settings_schema())] = Field(default_factory=dict, max_length=100)


class Memorize(Drafted):
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


class Reassess(OfMemory):
    """A memory, and how much it matters from now on."""

    importance: Importance = Field(description="0 to 1, '7/10' or '★★'")


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

    @property
    def given(self) -> dict[str, Any]:
        """The arguments by name, without the filters that are not set."""
        return {**super().given, "filters": self.filters.model_dump(exclude_none=True)}


class ForgetMemories(InSession):
    """What to forget, and how."""

    instruction: str = Field(
        min_length=1,
        max_length=1_010,
        description="oldest, least important, position:N, before:step_N or id:MEMORY_ID",
    )
    mode: Literal["soft", "hard"] = Field(default="soft", description="soft hides; hard purges for good")
    confirm: bool = Field(default=False, description="hard needs it")


class Summarize(InSession):
    """Of what, and how long."""

    scope: str = Field(default="all", max_length=2_000, description="all, recent, important or by_tag:x")
    token_limit: int = Field(default=500, ge=1, le=10**7)


class Assemble(InSession):
    """In which order, and how long."""

    strategy: Literal["recent", "important", "balanced"] = "balanced"
    max_tokens: int | None = Field(default=None, ge=1, le=10**9, description="Else the session's limit")


class Recall(Listed):
    """What left the session."""

    query: str = Field(default="", max_length=10_000, description="Words of it; empty: the latest")
    limit: int = Field(default=10, ge=1, le=MOST)


class EventsRequest(InSession):
    """Of a session, or of one of its memories."""

    memory_id: str | None = Field(default=None, min_length=1, max_length=1_000)
    limit: int = Field(default=LIMIT, ge=1, le=10_000)
    cursor: int | None = Field(default=None, ge=0, le=2**53, description="key of the last event that is known")


class Next(Listed):
    """How many."""

    limit: int = Field(default=10, ge=1, le=MOST)


@dataclass(frozen=True, slots=True)
class SessionList:
    """The sessions that were ever opened, the latest first."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Events:
    """What happened: to a session the latest first, to a memory from the beginning."""

    events: tuple[Event, ...]


def _forget(store: Store, now: datetime, **arguments: Any) -> Forgot:  # noqa: ANN401 - those of the request
    """Forget, and count what forgetting the texts everywhere would erase."""

    def occurrences(store: Store, text: str, now: datetime) -> dict[str, int]:
        return {trace.place: trace.count for trace in preview_forget(store, ForgetRequest(text), now).traces}

    return sessions.forget(store, now=now, traces=occurrences, **arguments)


def _events(store: Store, session_id: str, memory_id: str | None, limit: int, cursor: int | None) -> Events:
    return Events(sessions.session_events(store, session_id, limit, cursor, memory_id))


open_ = tool(
    "session_open",
    Open,
    sessions.session_open,
    "Open a session with a policy of its own; one that is never opened is ttl.",
)
close = tool(
    "session_close", InSession, sessions.close_session, "End a session; the next dream takes in what mattered in it."
)
memorize = tool(
    "memory_memorize",
    Memorize,
    sessions.memorize,
    "Keep something in mind within the session's limits; says what had to leave.",
)
reassess = tool("memory_reassess", Reassess, sessions.reassess, "Change the importance of a memory.")
remember = tool(
    "memory_remember",
    Remember,
    sessions.remember,
    "What the session has in mind about something, the most important and newest first.",
    reads=True,
)
forget = tool(
    "memory_forget",
    ForgetMemories,
    _forget,
    "Forget by instruction: softly hidden, or purged, with the crystal that it became.",
)
summarize = tool(
    "memory_summarize",
    Summarize,
    sessions.summarize,
    "A summary of what the session has in mind, with its sources.",
    reads=True,
)
capacity = tool("memory_capacity", InSession, sessions.capacity, "How full the session is.", reads=True)
context = tool(
    "memory_context",
    Assemble,
    sessions.context,
    "The session's memories as one text for a model's context.",
    reads=True,
)
recall = tool(
    "memory_recall", Recall, sessions.recall, "Find what left the session; under hybrid the best comes back."
)
restore = tool(
    "memory_restore",
    OfMemory,
    sessions.restore,
    "Put a memory back that left the session, or was softly forgotten.",
)


@operation("session_list", "/sessions", method="GET")
def list_(access: WorkspaceAccess, request: Part) -> SessionList:
    """Return the sessions, the latest first."""
    with access.read() as store:
        part = sessions.session_list(store, request.wanted)
        return SessionList(part.items, part.next_cursor)


events = tool("session_events", EventsRequest, _events, "What entered and left a session, when and why.", reads=True)
preview = tool(
    "session_preview", Next, sessions.preview, "Who would leave next, and why; nothing leaves.", reads=True
)
sweep = tool(
    "session_sweep",
    InSession,
    sessions.sweep,
    "Let leave now what has outlived its time, whatever the policy waits for.",
)

SESSION_MINDS = operations_in(globals())
