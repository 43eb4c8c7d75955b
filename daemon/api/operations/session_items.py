"""The fifteen tools of a session's working memory, under the names and with the fields that they have always had."""

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

Asked = TypeVar("Asked", bound=Request)
Answer = TypeVar("Answer")


def tool(
    name: str, *, reads: bool = False, long: bool = False
) -> Callable[[Callable[[WorkspaceAccess, Asked], Answer]], Operation[Asked, Answer]]:
    """An operation on sessions."""
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


@tool("working_memory_add")
def add(desk: WorkspaceAccess, asked: Add) -> Added:
    """Keep something in mind for this session."""
    with desk.store() as store:
        return sessions.add(store, now=utc_now(), **asked.given)


@tool("working_memory_get")
def get(desk: WorkspaceAccess, asked: OfMemory) -> Memory:
    """One memory by its id; counts as an access, and may promote it."""
    with desk.store() as store:
        return sessions.get(store, asked.session_id, asked.memory_id, utc_now())


class Choice(Listed):
    """Which of its memories."""

    include_expired: bool = False
    include_promoted: bool = False


@tool("working_memory_list", reads=True)
def list_(desk: WorkspaceAccess, asked: Choice) -> Memories:
    """What this session has in mind, the oldest first."""
    with desk.reading() as store:
        return sessions.list_memories(
            store,
            asked.session_id,
            utc_now(),
            include_expired=asked.include_expired,
            include_promoted=asked.include_promoted,
            wanted=asked.wanted,
        )


@tool("working_memory_promote")
def promote(desk: WorkspaceAccess, asked: OfMemory) -> LongTerm:
    """Make a memory long-term now; memory_search finds it from then on."""
    with desk.store() as store:
        return sessions.promote(store, asked.session_id, asked.memory_id, utc_now())


@tool("working_memory_clear_session")
def clear(desk: WorkspaceAccess, asked: InSession) -> Cleared:
    """Clear the session's mind; what was in it can be recalled."""
    with desk.store() as store:
        return sessions.clear_session(store, asked.session_id, utc_now())


@tool("working_memory_stats", reads=True)
def stats(desk: WorkspaceAccess, asked: InSession) -> SessionStats:
    """Counts, limits, utilisation, and who leaves next and why."""
    with desk.reading() as store:
        return sessions.stats(store, asked.session_id, utc_now())


@tool("working_memory_expire")
def expire(desk: WorkspaceAccess, asked: OfMemory) -> Done:
    """Let a memory's time be over now."""
    with desk.store() as store:
        return sessions.expire(store, asked.session_id, asked.memory_id, utc_now())


@tool("working_memory_extend_ttl")
def extend_ttl(desk: WorkspaceAccess, asked: OfMemory) -> Extended:
    """Let a memory live as long again as its priority says."""
    with desk.store() as store:
        return sessions.extend_ttl(store, asked.session_id, asked.memory_id, utc_now())


@tool("working_memory_export", reads=True)
def export(desk: WorkspaceAccess, asked: Listed) -> Memories:
    """All memories of the session, and those that left it as long-term records."""
    with desk.reading() as store:
        return sessions.export(store, asked.session_id, asked.wanted)


@tool("working_memory_list_pending", reads=True)
def list_pending(desk: WorkspaceAccess, asked: Listed) -> Pending:
    """Memories that have earned promotion."""
    with desk.reading() as store:
        return sessions.list_pending(store, asked.session_id, utc_now(), asked.wanted)


@tool("working_memory_list_expired", reads=True)
def list_expired(desk: WorkspaceAccess, asked: Listed) -> Memories:
    """Memories whose time is over and that the next cleanup takes."""
    with desk.reading() as store:
        return sessions.list_expired(store, asked.session_id, utc_now(), asked.wanted)


@tool("working_memory_list_promoted", reads=True)
def list_promoted(desk: WorkspaceAccess, asked: Listed) -> Memories:
    """Memories that are long-term records too."""
    with desk.reading() as store:
        return sessions.list_promoted(store, asked.session_id, asked.wanted)


class Bulk(InSession):
    """Which memories."""

    memory_ids: tuple[Annotated[str, StringConstraints(min_length=1, max_length=1_000)], ...] = Field(
        max_length=500, description="At most 500"
    )


@tool("working_memory_bulk_promote", long=True)
def bulk_promote(desk: WorkspaceAccess, asked: Bulk) -> BulkPromoted:
    """Promote several memories; one that fails does not keep the others."""
    with desk.store() as store:
        return sessions.bulk_promote(store, asked.session_id, asked.memory_ids, utc_now())


class Relate(OfMemory):
    """A memory, and what it is to something else."""

    relation_type: str = Field(min_length=1, max_length=1_000, description="such as references, depends_on")
    target_element_id: str = Field(min_length=1, max_length=1_000, description="What it is related to")
    metadata: Table = Field(default_factory=dict)


@tool("working_memory_relation_add")
def relation_add(desk: WorkspaceAccess, asked: Relate) -> Done:
    """Relate a memory to something else; promotion keeps it."""
    with desk.store() as store:
        return sessions.relation_add(store, now=utc_now(), **asked.given)


class Find(Choice):
    """What to look for."""

    query: str = Field(default="", max_length=102_400, description="Text that the content holds, in any case")
    tags: Tags = Field(default=(), description="Any of these")
    priority: Literal["low", "medium", "high", "critical"] | None = None


@tool("working_memory_search", reads=True)
def search(desk: WorkspaceAccess, asked: Find) -> SearchResult:
    """Search what this session has in mind."""
    with desk.reading() as store:
        return sessions.search(
            store,
            asked.session_id,
            utc_now(),
            asked.query,
            asked.tags,
            asked.priority,
            include_expired=asked.include_expired,
            include_promoted=asked.include_promoted,
            wanted=asked.wanted,
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
