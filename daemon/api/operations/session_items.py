"""The fifteen operations on the working memory of a session, `working_memory_…`."""

from collections.abc import Callable
from inspect import signature
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema

from daemon import sessions
from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Operation, Request, operations_in
from daemon.workspace.stores import utc_now
from state.sessions.checks import from_scale
from state.sessions.page import LIMIT, MOST, Wanted

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
    name: str,
    request: type[RequestT],
    function: Callable[..., ReplyT],
    summary: str,
    *,
    reads: bool = False,
    long: bool = False,
) -> Operation[RequestT, ReplyT]:
    """Return an operation at /sessions/NAME, which calls the function with stores, arguments, and the moment.

    One that `reads` has the stores for reading alone.
    """
    tells_time = "now" in signature(function).parameters

    def run(access: WorkspaceAccess, request: RequestT) -> ReplyT:
        with access.read() if reads else access.write() as store:
            return function(store, **request.given, **({"now": utc_now()} if tells_time else {}))

    reply = get_type_hints(function)["return"]
    return Operation(name, "POST", f"/sessions/{name}", summary, request, reply, run, long=long, reads=reads)


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

    @property
    def given(self) -> dict[str, Any]:
        """The arguments by name; the part is one of them."""
        rest = {name: value for name, value in super().given.items() if name not in ("limit", "cursor")}
        return {**rest, "wanted": self.wanted}


class Listed(Part, InSession):
    """Which part of a session's list."""


class OfMemory(InSession):
    """Which memory of which session."""

    memory_id: str = MEMORY


class Drafted(InSession):
    """A new memory in a session: all other arguments are its draft."""

    @property
    def given(self) -> dict[str, Any]:
        """The session, and the draft."""
        fields = super().given
        return {"session_id": fields.pop("session_id"), "draft": sessions.Draft(**fields)}


class Add(Drafted):
    """A new memory."""

    content: str = Field(min_length=1, max_length=102_400, description="100 KiB at most")
    priority: Literal["low", "medium", "high", "critical"] = Field(description="Kept for 1, 4, 12 or 24 hours")
    tags: Tags = ()
    metadata: Table = Field(default_factory=dict)
    agent_id: Text = ""
    source: Text = ""
    importance: Importance | None = Field(default=None, description="0 to 1, '7/10' or '★★'; else by priority")
    step_index: int | None = Field(default=None, ge=0, le=2**53, description="The turn; else the current one")


class Choice(Listed):
    """Which of its memories."""

    include_expired: bool = False
    include_promoted: bool = False


class Bulk(InSession):
    """Which memories."""

    memory_ids: tuple[Annotated[str, StringConstraints(min_length=1, max_length=1_000)], ...] = Field(
        max_length=500, description="At most 500"
    )


class Relate(OfMemory):
    """A memory, and what it is to something else."""

    relation_type: str = Field(min_length=1, max_length=1_000, description="such as references, depends_on")
    target_element_id: str = Field(min_length=1, max_length=1_000, description="What it is related to")
    metadata: Table = Field(default_factory=dict)


class Find(Choice):
    """What to look for."""

    query: str = Field(default="", max_length=102_400, description="Text that the content holds, in any case")
    tags: Tags = Field(default=(), description="Any of these")
    priority: Literal["low", "medium", "high", "critical"] | None = None


add = tool("working_memory_add", Add, sessions.add, "Keep something in mind for this session.")
get = tool(
    "working_memory_get", OfMemory, sessions.get, "One memory by its id; counts as an access, and may promote it."
)
list_ = tool(
    "working_memory_list",
    Choice,
    sessions.list_memories,
    "What this session has in mind, the oldest first.",
    reads=True,
)
promote = tool(
    "working_memory_promote",
    OfMemory,
    sessions.promote,
    "Make a memory long-term now; memory_search finds it from then on.",
)
clear = tool(
    "working_memory_clear_session",
    InSession,
    sessions.clear_session,
    "Clear the session's mind; what was in it can be recalled.",
)
stats = tool(
    "working_memory_stats",
    InSession,
    sessions.stats,
    "Counts, limits, utilisation, and who leaves next and why.",
    reads=True,
)
expire = tool("working_memory_expire", OfMemory, sessions.expire, "Let a memory's time be over now.")
extend_ttl = tool(
    "working_memory_extend_ttl",
    OfMemory,
    sessions.extend_ttl,
    "Let a memory live as long again as its priority says.",
)
export = tool(
    "working_memory_export",
    Listed,
    sessions.export,
    "All memories of the session, and those that left it as long-term records.",
    reads=True,
)
list_pending = tool(
    "working_memory_list_pending", Listed, sessions.list_pending, "Memories that have earned promotion.", reads=True
)
list_expired = tool(
    "working_memory_list_expired",
    Listed,
    sessions.list_expired,
    "Memories whose time is over and that the next cleanup takes.",
    reads=True,
)
list_promoted = tool(
    "working_memory_list_promoted",
    Listed,
    sessions.list_promoted,
    "Memories that are long-term records too.",
    reads=True,
)
bulk_promote = tool(
    "working_memory_bulk_promote",
    Bulk,
    sessions.bulk_promote,
    "Promote several memories; one that fails does not keep the others.",
    long=True,
)
relation_add = tool(
    "working_memory_relation_add",
    Relate,
    sessions.relation_add,
    "Relate a memory to something else; promotion keeps it.",
)
search = tool("working_memory_search", Find, sessions.search, "Search what this session has in mind.", reads=True)

SESSION_ITEMS = operations_in(globals())
