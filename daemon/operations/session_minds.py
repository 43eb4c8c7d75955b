"""Sessions as a whole: opening and closing, the tools of the bounded and the token-limited designs, their story."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from daemon import sessions
from daemon.compose import Store, clock
from daemon.desk import Desk
from daemon.forgetting import Wish, rehearse
from daemon.operations.operation import Nothing, Operation, Request
from daemon.operations.session_items import Importance, InSession, OfMemory, Table, Tags, Text
from daemon.sessions import Maintained
from daemon.sessions.values import (
    Closed,
    Forgot,
    Memories,
    Memorized,
    Opened,
    Preview,
    Recalled,
    Restored,
    SessionSummary,
    Summary,
    WorkingContext,
)
from state.sessions.page import Wanted
from state.sessions.standing import Capacity
from state.stores.session_events import Event


class Open(InSession):
    """A session and its policy."""

    policy: Literal["ttl", "budget", "hybrid", "bounded"] = Field(
        default="ttl", description="Who leaves: by time, by count, by tokens and importance, or by both limits"
    )
    config: dict[str, Any] = Field(default_factory=dict, max_length=100, description="Settings of the policy")


def _open(desk: Desk, asked: Open) -> Opened:
    with desk.store() as store:
        return sessions.session_open(store, asked.session_id, clock(), asked.policy, asked.config)


OPEN = Operation(
    name="session_open",
    method="POST",
    path="/sessions/session_open",
    summary="Open a session with a policy of its own; one that is never opened is ttl.",
    request=Open,
    reply=Opened,
    run=_open,
)


def _close(desk: Desk, asked: InSession) -> Closed:
    with desk.store() as store:
        return sessions.close_session(store, asked.session_id, clock())


CLOSE = Operation(
    name="session_close",
    method="POST",
    path="/sessions/session_close",
    summary="End a session; the next dream looks at what was open in it.",
    request=InSession,
    reply=Closed,
    run=_close,
)


class Memorize(InSession):
    """A new memory, and when."""

    content: str = Field(min_length=1, max_length=102_400, description="What to keep in mind")
    importance: Importance | None = Field(default=None, description="0 to 1")
    step_index: int | None = Field(
        default=None, ge=0, le=2**53, description="The turn; else the session's current one"
    )
    priority: Literal["low", "medium", "high", "critical"] = "medium"
    token_count: int | None = Field(default=None, ge=1, le=10**9, description="Else it is estimated")
    tags: Tags = ()
    metadata: Table = Field(default_factory=dict)
    agent_id: Text = ""
    source: Text = ""


def _memorize(desk: Desk, asked: Memorize) -> Memorized:
    with desk.store() as store:
        return sessions.memorize(
            store,
            asked.session_id,
            asked.content,
            clock(),
            priority=asked.priority,
            tags=asked.tags,
            metadata=asked.metadata,
            agent_id=asked.agent_id,
            source=asked.source,
            importance=asked.importance,
            step_index=asked.step_index,
            token_count=asked.token_count,
        )


MEMORIZE = Operation(
    name="memory_memorize",
    method="POST",
    path="/sessions/memory_memorize",
    summary="Keep something in mind within the session's limits; says what had to leave.",
    request=Memorize,
    reply=Memorized,
    run=_memorize,
)


class Filters(Request):
    """What it must have; of the tags, any one."""

    tags: Tags | None = None
    priority: Literal["low", "medium", "high", "critical"] | None = None
    agent_id: Text | None = None
    source: Text | None = None


class Remember(InSession):
    """What about."""

    prompt: str = Field(default="", max_length=10_000, description="Words; empty: everything")
    filters: Filters = Field(default_factory=Filters)
    limit: int | None = Field(default=None, ge=1, le=100_000)


def _remember(desk: Desk, asked: Remember) -> Memories:
    with desk.reading() as store:
        filters = asked.filters.model_dump(exclude_none=True)
        return sessions.remember(store, asked.session_id, clock(), asked.prompt, filters, Wanted(asked.limit))


REMEMBER = Operation(
    name="memory_remember",
    method="POST",
    path="/sessions/memory_remember",
    summary="What the session has in mind about something, the most important and newest first.",
    request=Remember,
    reply=Memories,
    run=_remember,
    reads=True,
)


class Forget(InSession):
    """What to forget, and how."""

    instruction: str = Field(
        min_length=1, max_length=1_000, description="oldest, least important, position:N or before:step_N"
    )
    mode: Literal["soft", "hard"] = Field(default="soft", description="soft hides; hard purges for good")
    confirm: bool = Field(default=False, description="hard needs it")


def _forget(desk: Desk, asked: Forget) -> Forgot:
    with desk.store() as store:
        return sessions.forget(
            store,
            asked.session_id,
            asked.instruction,
            clock(),
            asked.mode,
            confirm=asked.confirm,
            traces=_traces,
        )


def _traces(store: Store, text: str, now: datetime) -> dict[str, int]:
    """Where a text still stands, and how often: what forgetting it everywhere would erase."""
    return {trace.place: trace.count for trace in rehearse(store, Wish(text), now).traces}


FORGET = Operation(
    name="memory_forget",
    method="POST",
    path="/sessions/memory_forget",
    summary="Forget by instruction: softly hidden, or purged.",
    request=Forget,
    reply=Forgot,
    run=_forget,
)


class Summarize(InSession):
    """Of what, and how long."""

    scope: str = Field(default="all", max_length=2_000, description="all, recent, important or by_tag:x")
    token_limit: int = Field(default=500, ge=1, le=10**7)


def _summarize(desk: Desk, asked: Summarize) -> Summary:
    with desk.reading() as store:
        return sessions.summarize(store, asked.session_id, clock(), asked.scope, asked.token_limit)


SUMMARIZE = Operation(
    name="memory_summarize",
    method="POST",
    path="/sessions/memory_summarize",
    summary="A summary of what the session has in mind, with its sources.",
    request=Summarize,
    reply=Summary,
    run=_summarize,
    reads=True,
)


def _capacity(desk: Desk, asked: InSession) -> Capacity:
    with desk.reading() as store:
        return sessions.capacity(store, asked.session_id)


CAPACITY = Operation(
    name="memory_capacity",
    method="POST",
    path="/sessions/memory_capacity",
    summary="How full the session is.",
    request=InSession,
    reply=Capacity,
    run=_capacity,
    reads=True,
)


class Assemble(InSession):
    """In which order, and how long."""

    strategy: Literal["recent", "important", "balanced"] = "balanced"
    max_tokens: int | None = Field(default=None, ge=1, le=10**9, description="Else the session's limit")


def _context(desk: Desk, asked: Assemble) -> WorkingContext:
    with desk.reading() as store:
        return sessions.context(store, asked.session_id, clock(), asked.strategy, asked.max_tokens)


CONTEXT = Operation(
    name="memory_context",
    method="POST",
    path="/sessions/memory_context",
    summary="The session's memories as one text for a model's context.",
    request=Assemble,
    reply=WorkingContext,
    run=_context,
    reads=True,
)


class Recall(InSession):
    """What left the session."""

    query: str = Field(default="", max_length=10_000, description="Words of it; empty: the latest")
    limit: int = Field(default=10, ge=1, le=10_000)


def _recall(desk: Desk, asked: Recall) -> Recalled:
    with desk.store() as store:
        return sessions.recall(store, asked.session_id, asked.query, clock(), Wanted(asked.limit))


RECALL = Operation(
    name="memory_recall",
    method="POST",
    path="/sessions/memory_recall",
    summary="Find what left the session; under hybrid the best comes back.",
    request=Recall,
    reply=Recalled,
    run=_recall,
)


def _restore(desk: Desk, asked: OfMemory) -> Restored:
    with desk.store() as store:
        return sessions.restore(store, asked.session_id, asked.memory_id, clock())


RESTORE_MEMORY = Operation(
    name="memory_restore",
    method="POST",
    path="/sessions/memory_restore",
    summary="Put a memory that left back into the session.",
    request=OfMemory,
    reply=Restored,
    run=_restore,
)


@dataclass(frozen=True, slots=True)
class SessionList:
    """Every session that was ever opened, the latest first."""

    sessions: tuple[SessionSummary, ...]


def _sessions(desk: Desk, _: Nothing) -> SessionList:
    with desk.reading() as store:
        return SessionList(sessions.session_list(store))


SESSIONS = Operation(
    name="session_list",
    method="GET",
    path="/sessions",
    summary="The sessions, the latest first.",
    request=Nothing,
    reply=SessionList,
    run=_sessions,
)


class Story(InSession):
    """Of a session, or of one of its memories."""

    memory_id: str | None = Field(default=None, min_length=1, max_length=1_000)
    limit: int = Field(default=100, ge=1, le=10_000)
    before: int | None = Field(default=None, ge=0, le=2**53, description="Only events before this one")


@dataclass(frozen=True, slots=True)
class Events:
    """What happened: to a session the latest first, to a memory from the beginning."""

    events: tuple[Event, ...]


def _events(desk: Desk, asked: Story) -> Events:
    with desk.reading() as store:
        return Events(sessions.session_events(store, asked.session_id, asked.limit, asked.before, asked.memory_id))


EVENTS = Operation(
    name="session_events",
    method="POST",
    path="/sessions/session_events",
    summary="What entered and left a session, when and why.",
    request=Story,
    reply=Events,
    run=_events,
    reads=True,
)


class Next(InSession):
    """How many."""

    limit: int = Field(default=10, ge=1, le=100_000)


def _preview(desk: Desk, asked: Next) -> Preview:
    with desk.reading() as store:
        return sessions.preview(store, asked.session_id, clock(), Wanted(asked.limit))


PREVIEW = Operation(
    name="session_preview",
    method="POST",
    path="/sessions/session_preview",
    summary="Who would leave next, and why; nothing leaves.",
    request=Next,
    reply=Preview,
    run=_preview,
    reads=True,
)


def _sweep(desk: Desk, asked: InSession) -> Maintained:
    with desk.store() as store:
        return sessions.sweep(store, asked.session_id, clock())


SWEEP = Operation(
    name="session_sweep",
    method="POST",
    path="/sessions/session_sweep",
    summary="Let leave now what has outlived its time, whatever the policy waits for.",
    request=InSession,
    reply=Maintained,
    run=_sweep,
)

SESSION_MINDS = (
    OPEN,
    CLOSE,
    MEMORIZE,
    REMEMBER,
    FORGET,
    SUMMARIZE,
    CAPACITY,
    CONTEXT,
    RECALL,
    RESTORE_MEMORY,
    SESSIONS,
    EVENTS,
    PREVIEW,
    SWEEP,
)
