"""The fifteen operations on the working memory of a session, `working_memory_…`."""

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from daemon import sessions
from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Operation, Request, operation
from daemon.sessions.answers import (
    Added,
    BulkPromoted,
    Cleared,
    Done,
    Extended,
    LongTerm,
    Memories,
    Memory,
    Pending,
    SearchResult,
)
from daemon.workspace.stores import utc_now
from state.sessions.importance import from_scale
from state.sessions.page import LIMIT, MOST, Wanted
from state.sessions.stats import SessionStats

# No descriptions: an agent reads these with every tool, and their names say it. An id has some 300 characters.
SESSION = Field(min_length=1, max_length=10_000)
MEMORY = Field(min_length=1, max_length=1_000)
Text = Annotated[str, StringConstraints(max_length=1_000)]
Tags = Annotated[tuple[Annotated[str, StringConstraints(min_length=1, max_length=1_000)], ...], Field(max_length=100)]
Table = Annotated[dict[Text, Annotated[str, StringConstraints(max_length=10_000)]], Field(max_length=100)]
Importance = Annotated[
    float, BeforeValidator(from_scale), Field(ge=0, le=1), WithJsonSchema({"type": ["number", "string"]})
]

RequestT = TypeVar("RequestT", bound=Request)
ReplyT = TypeVar("ReplyT")


def tool(
    name: str, *, reads: bool = False, long: bool = False
) -> Callable[[Callable[[WorkspaceAccess, RequestT], ReplyT]], Operation[RequestT, ReplyT]]:
    """An operation at /sessions/NAME."""
    return operation(name, f"/sessions/{name}", reads=reads, long=long)


class InSession(Request):
    """In which session."""

    session_id: str = SESSION


class Part(Request):
    """Which part of a list."""

    limit: int = Field(default=LIMIT, ge=1, le=MOST)
    cursor: str = Field(default="", max_length=10_000, description="next_cursor before")

    @property
    def wanted(self) -> Wanted:
        """The part."""
        return Wanted(self.limit, self.cursor)


class Listed(Part, InSession):
    """Which part of a session's list."""


class OfMemory(InSession):
    """Which memory of which session."""

    memory_id: str = MEMORY


class Add(InSession):
    """A new memory."""

    content: str = Field(min_length=1, max_length=102_400, description="100 KiB at most")
    priority: Literal["low", "medium", "high", "critical"] = Field(description="Kept for 1, 4, 12 or 24 hours")
    tags: Tags = ()
    metadata: Table = Field(default_factory=dict)
    agent_id: Text = ""
    source: Text = ""
    importance: Importance | None = Field(default=None, description="0 to 1, '7/10' or '★★'; else by priority")
    step_index: int | None = Field(default=None, ge=0, le=2**53, description="The turn; else the current one")


def draft_of(request: InSession) -> sessions.Draft:
    """The new memory of a request."""
    return sessions.Draft(**{name: value for name, value in request.given.items() if name != "session_id"})


@tool("working_memory_add")
def add(access: WorkspaceAccess, request: Add) -> Added:
    """Keep something in mind for this session."""
    with access.write() as store:
        return sessions.add(store, request.session_id, draft_of(request), utc_now())


@tool("working_memory_get")
def get(access: WorkspaceAccess, request: OfMemory) -> Memory:
    """One memory by its id; counts as an access, and may promote it."""
    with access.write() as store:
        return sessions.get(store, request.session_id, request.memory_id, utc_now())


class Choice(Listed):
    """Which of its memories."""

    include_expired: bool = False
    include_promoted: bool = False


@tool("working_memory_list", reads=True)
def list_(access: WorkspaceAccess, request: Choice) -> Memories:
    """What this session has in mind, the oldest first."""
    with access.read() as store:
        return sessions.list_memories(
            store,
            request.session_id,
            utc_now(),
            include_expired=request.include_expired,
            include_promoted=request.include_promoted,
            wanted=request.wanted,
        )


@tool("working_memory_promote")
def promote(access: WorkspaceAccess, request: OfMemory) -> LongTerm:
    """Make a memory long-term now; memory_search finds it from then on."""
    with access.write() as store:
        return sessions.promote(store, request.session_id, request.memory_id, utc_now())


@tool("working_memory_clear_session")
def clear(access: WorkspaceAccess, request: InSession) -> Cleared:
    """Clear the session's mind; what was in it can be recalled."""
    with access.write() as store:
        return sessions.clear_session(store, request.session_id, utc_now())


@tool("working_memory_stats", reads=True)
def stats(access: WorkspaceAccess, request: InSession) -> SessionStats:
    """Counts, limits, utilisation, and who leaves next and why."""
    with access.read() as store:
        return sessions.stats(store, request.session_id, utc_now())


@tool("working_memory_expire")
def expire(access: WorkspaceAccess, request: OfMemory) -> Done:
    """Let a memory's time be over now."""
    with access.write() as store:
        return sessions.expire(store, request.session_id, request.memory_id, utc_now())


@tool("working_memory_extend_ttl")
def extend_ttl(access: WorkspaceAccess, request: OfMemory) -> Extended:
    """Let a memory live as long again as its priority says."""
    with access.write() as store:
        return sessions.extend_ttl(store, request.session_id, request.memory_id, utc_now())


@tool("working_memory_export", reads=True)
def export(access: WorkspaceAccess, request: Listed) -> Memories:
    """All memories of the session, and those that left it as long-term records."""
    with access.read() as store:
        return sessions.export(store, request.session_id, request.wanted)


@tool("working_memory_list_pending", reads=True)
def list_pending(access: WorkspaceAccess, request: Listed) -> Pending:
    """Memories that have earned promotion."""
    with access.read() as store:
        return sessions.list_pending(store, request.session_id, utc_now(), request.wanted)


@tool("working_memory_list_expired", reads=True)
def list_expired(access: WorkspaceAccess, request: Listed) -> Memories:
    """Memories whose time is over and that the next cleanup takes."""
    with access.read() as store:
        return sessions.list_expired(store, request.session_id, utc_now(), request.wanted)


@tool("working_memory_list_promoted", reads=True)
def list_promoted(access: WorkspaceAccess, request: Listed) -> Memories:
    """Memories that are long-term records too."""
    with access.read() as store:
        return sessions.list_promoted(store, request.session_id, request.wanted)


class Bulk(InSession):
    """Which memories."""

    memory_ids: tuple[Annotated[str, StringConstraints(min_length=1, max_length=1_000)], ...] = Field(
        max_length=500, description="At most 500"
    )


@tool("working_memory_bulk_promote", long=True)
def bulk_promote(access: WorkspaceAccess, request: Bulk) -> BulkPromoted:
    """Promote several memories; one that fails does not keep the others."""
    with access.write() as store:
        return sessions.bulk_promote(store, request.session_id, request.memory_ids, utc_now())


class Relate(OfMemory):
    """A memory, and what it is to something else."""

    relation_type: str = Field(min_length=1, max_length=1_000, description="such as references, depends_on")
    target_element_id: str = Field(min_length=1, max_length=1_000, description="What it is related to")
    metadata: Table = Field(default_factory=dict)


@tool("working_memory_relation_add")
def relation_add(access: WorkspaceAccess, request: Relate) -> Done:
    """Relate a memory to something else; promotion keeps it."""
    with access.write() as store:
        return sessions.relation_add(store, now=utc_now(), **request.given)


class Find(Choice):
    """What to look for."""

    query: str = Field(default="", max_length=102_400, description="Text that the content holds, in any case")
    tags: Tags = Field(default=(), description="Any of these")
    priority: Literal["low", "medium", "high", "critical"] | None = None


@tool("working_memory_search", reads=True)
def search(access: WorkspaceAccess, request: Find) -> SearchResult:
    """Search what this session has in mind."""
    with access.read() as store:
        return sessions.search(
            store,
            request.session_id,
            utc_now(),
            request.query,
            request.tags,
            request.priority,
            include_expired=request.include_expired,
            include_promoted=request.include_promoted,
            wanted=request.wanted,
        )


SESSION_ITEMS = (
    add,
    get,
    list_,
    promote,
    clear,
    stats,
    expire,
    extend_ttl,
    export,
    list_pending,
    list_expired,
    list_promoted,
    bulk_promote,
    relation_add,
    search,
)
