"""The fifteen tools of a session's working memory, under the names and with the fields that they have always had."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from daemon import sessions
from daemon.compose import clock
from daemon.desk import Desk
from daemon.operations.operation import Operation, Request
from daemon.sessions.values import (
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
from state.sessions.standing import Standing

# No descriptions: an agent reads these with every tool, and their names say it. An id has some 300 characters.
SESSION = Field(min_length=1, max_length=10_000)
MEMORY = Field(min_length=1, max_length=1_000)
Text = Annotated[str, StringConstraints(max_length=1_000)]
Tags = Annotated[tuple[Annotated[str, StringConstraints(min_length=1, max_length=1_000)], ...], Field(max_length=100)]
Table = Annotated[dict[Text, Annotated[str, StringConstraints(max_length=10_000)]], Field(max_length=100)]
Importance = Annotated[float, Field(ge=0, le=1)]


class InSession(Request):
    """In which session."""

    session_id: str = SESSION


class OfMemory(InSession):
    """Which memory of which session."""

    memory_id: str = MEMORY


class Add(InSession):
    """A new memory."""

    content: str = Field(min_length=1, max_length=102_400, description="What to keep in mind; 100 KiB at most")
    priority: Literal["low", "medium", "high", "critical"] = Field(description="Kept for 1, 4, 12 or 24 hours")
    tags: Tags = ()
    metadata: Table = Field(default_factory=dict)
    agent_id: Text = ""
    source: Text = ""
    importance: Importance | None = Field(default=None, description="0 to 1; else from the priority")
    step_index: int | None = Field(
        default=None, ge=0, le=2**53, description="The turn; else the session's current one"
    )


def _add(desk: Desk, asked: Add) -> Added:
    with desk.store() as store:
        return sessions.add(
            store,
            asked.session_id,
            asked.content,
            asked.priority,
            clock(),
            tags=asked.tags,
            metadata=asked.metadata,
            agent_id=asked.agent_id,
            source=asked.source,
            importance=asked.importance,
            step_index=asked.step_index,
        )


ADD = Operation(
    name="working_memory_add",
    method="POST",
    path="/sessions/working_memory_add",
    summary="Keep something in mind for this session.",
    request=Add,
    reply=Added,
    run=_add,
)


def _get(desk: Desk, asked: OfMemory) -> Memory:
    with desk.store() as store:
        return sessions.get(store, asked.session_id, asked.memory_id, clock())


GET = Operation(
    name="working_memory_get",
    method="POST",
    path="/sessions/working_memory_get",
    summary="One memory by its id; counts as an access, and may promote it.",
    request=OfMemory,
    reply=Memory,
    run=_get,
)


class List(InSession):
    """Which of its memories."""

    include_expired: bool = False
    include_promoted: bool = False


def _list(desk: Desk, asked: List) -> Memories:
    with desk.reading() as store:
        return sessions.list_memories(
            store,
            asked.session_id,
            clock(),
            include_expired=asked.include_expired,
            include_promoted=asked.include_promoted,
        )


LIST = Operation(
    name="working_memory_list",
    method="POST",
    path="/sessions/working_memory_list",
    summary="What this session has in mind, the oldest first.",
    request=List,
    reply=Memories,
    run=_list,
    reads=True,
)


def _promote(desk: Desk, asked: OfMemory) -> LongTerm:
    with desk.store() as store:
        return sessions.promote(store, asked.session_id, asked.memory_id, clock())


PROMOTE = Operation(
    name="working_memory_promote",
    method="POST",
    path="/sessions/working_memory_promote",
    summary="Make a memory long-term now; memory_search finds it from then on.",
    request=OfMemory,
    reply=LongTerm,
    run=_promote,
)


def _clear(desk: Desk, asked: InSession) -> Cleared:
    with desk.store() as store:
        return sessions.clear_session(store, asked.session_id, clock())


CLEAR = Operation(
    name="working_memory_clear_session",
    method="POST",
    path="/sessions/working_memory_clear_session",
    summary="Clear the session's mind; what was in it can be recalled.",
    request=InSession,
    reply=Cleared,
    run=_clear,
)


def _stats(desk: Desk, asked: InSession) -> Standing:
    with desk.reading() as store:
        return sessions.stats(store, asked.session_id, clock())


STATS = Operation(
    name="working_memory_stats",
    method="POST",
    path="/sessions/working_memory_stats",
    summary="Counts, limits, utilisation, and who leaves next and why.",
    request=InSession,
    reply=Standing,
    run=_stats,
    reads=True,
)


def _expire(desk: Desk, asked: OfMemory) -> Done:
    with desk.store() as store:
        return sessions.expire(store, asked.session_id, asked.memory_id, clock())


EXPIRE = Operation(
    name="working_memory_expire",
    method="POST",
    path="/sessions/working_memory_expire",
    summary="Let a memory's time be over now.",
    request=OfMemory,
    reply=Done,
    run=_expire,
)


def _extend(desk: Desk, asked: OfMemory) -> Extended:
    with desk.store() as store:
        return sessions.extend_ttl(store, asked.session_id, asked.memory_id, clock())


EXTEND = Operation(
    name="working_memory_extend_ttl",
    method="POST",
    path="/sessions/working_memory_extend_ttl",
    summary="Let a memory live as long again as its priority says.",
    request=OfMemory,
    reply=Extended,
    run=_extend,
)


def _export(desk: Desk, asked: InSession) -> Memories:
    with desk.reading() as store:
        return sessions.export(store, asked.session_id)


EXPORT = Operation(
    name="working_memory_export",
    method="POST",
    path="/sessions/working_memory_export",
    summary="All memories of the session, whatever became of them.",
    request=InSession,
    reply=Memories,
    run=_export,
    reads=True,
)


def _pending(desk: Desk, asked: InSession) -> Pending:
    with desk.reading() as store:
        return sessions.list_pending(store, asked.session_id, clock())


PENDING = Operation(
    name="working_memory_list_pending",
    method="POST",
    path="/sessions/working_memory_list_pending",
    summary="Memories that have earned promotion.",
    request=InSession,
    reply=Pending,
    run=_pending,
    reads=True,
)


def _expired(desk: Desk, asked: InSession) -> Memories:
    with desk.reading() as store:
        return sessions.list_expired(store, asked.session_id, clock())


EXPIRED = Operation(
    name="working_memory_list_expired",
    method="POST",
    path="/sessions/working_memory_list_expired",
    summary="Memories whose time is over and that the next cleanup takes.",
    request=InSession,
    reply=Memories,
    run=_expired,
    reads=True,
)


def _promoted(desk: Desk, asked: InSession) -> Memories:
    with desk.reading() as store:
        return sessions.list_promoted(store, asked.session_id)


PROMOTED = Operation(
    name="working_memory_list_promoted",
    method="POST",
    path="/sessions/working_memory_list_promoted",
    summary="Memories that are long-term records too.",
    request=InSession,
    reply=Memories,
    run=_promoted,
    reads=True,
)


class Bulk(InSession):
    """Which memories."""

    memory_ids: tuple[Annotated[str, StringConstraints(min_length=1, max_length=1_000)], ...] = Field(
        max_length=500, description="At most 500"
    )


def _bulk(desk: Desk, asked: Bulk) -> BulkPromoted:
    with desk.store() as store:
        return sessions.bulk_promote(store, asked.session_id, asked.memory_ids, clock())


BULK = Operation(
    name="working_memory_bulk_promote",
    method="POST",
    path="/sessions/working_memory_bulk_promote",
    summary="Promote several memories; one that fails does not keep the others.",
    request=Bulk,
    reply=BulkPromoted,
    run=_bulk,
    long=True,
)


class Relate(OfMemory):
    """A memory, and what it is to something else."""

    relation_type: str = Field(min_length=1, max_length=1_000, description="such as references, depends_on")
    target_element_id: str = Field(min_length=1, max_length=1_000, description="What it is related to")
    metadata: Table = Field(default_factory=dict)


def _relate(desk: Desk, asked: Relate) -> Done:
    with desk.store() as store:
        return sessions.relation_add(
            store,
            asked.session_id,
            asked.memory_id,
            asked.relation_type,
            asked.target_element_id,
            clock(),
            asked.metadata,
        )


RELATE = Operation(
    name="working_memory_relation_add",
    method="POST",
    path="/sessions/working_memory_relation_add",
    summary="Relate a memory to something else; promotion keeps it.",
    request=Relate,
    reply=Done,
    run=_relate,
)


class Find(InSession):
    """What to look for."""

    query: str = Field(default="", max_length=102_400, description="Text that the content holds, in any case")
    tags: Tags = Field(default=(), description="Any of these")
    priority: Literal["low", "medium", "high", "critical"] | None = None
    include_expired: bool = False
    include_promoted: bool = False


def _find(desk: Desk, asked: Find) -> SearchResult:
    with desk.reading() as store:
        return sessions.search(
            store,
            asked.session_id,
            clock(),
            asked.query,
            asked.tags,
            asked.priority,
            include_expired=asked.include_expired,
            include_promoted=asked.include_promoted,
        )


FIND = Operation(
    name="working_memory_search",
    method="POST",
    path="/sessions/working_memory_search",
    summary="Search what this session has in mind.",
    request=Find,
    reply=SearchResult,
    run=_find,
    reads=True,
)

SESSION_ITEMS = (
    ADD,
    GET,
    LIST,
    PROMOTE,
    CLEAR,
    STATS,
    EXPIRE,
    EXTEND,
    EXPORT,
    PENDING,
    EXPIRED,
    PROMOTED,
    BULK,
    RELATE,
    FIND,
)
