"""Tools of session working memory: their toolsets, and which fields of a reply an agent does not get.

An agent pays for every word that it reads: `sessions` is what most agents need, the other toolsets are optional.
Programs get all fields over HTTP, under the same names.
"""

from dataclasses import fields

from daemon.api.operations import sessions
from daemon.api.operations.operation import AnyOperation
from daemon.mcp.tool import Tool
from state.sessions.item import Item

_ALL = frozenset(field.name for field in fields(Item))
# Fields of a memory that the fifteen working_memory tools reply with, and those of the other tools.
_ITEM = "id session_id content priority expires_at created_at access_count importance_score tags metadata"
_MEMORY = "id content importance step_index created_at tags"


def _all_but(shown: str, part: str = "") -> frozenset[str]:
    """Name all fields of a memory but these; `part` is the path of the memory in the reply."""
    return frozenset(f"{part}{name}" for name in _ALL - set(shown.split()))


_EVICTED = frozenset(f"evicted.{name}" for name in ("content", "importance", "token_count", "rescue"))
_SESSION = frozenset({"session_id"})
_FILL = frozenset(f"capacity.{name}" for name in ("items", "available_items", "available_tokens", "settings"))
_PUT_BACK = _all_but(_MEMORY, "memory.") | _EVICTED

_HIDDEN: dict[str, frozenset[str]] = {
    "working_memory_add": _all_but(_ITEM) | _EVICTED,
    "working_memory_get": _all_but(f"{_ITEM} state promoted_to_id relations"),
    "working_memory_list": _all_but(f"{_ITEM} state", "memories.") | _SESSION,
    "working_memory_export": _all_but(f"{_ITEM} state promoted_to_id relations", "memories."),
    "working_memory_list_pending": _all_but(_ITEM, "memories.") | _SESSION,
    "working_memory_list_expired": _all_but(f"{_ITEM} state", "memories.") | _SESSION,
    "working_memory_list_promoted": _all_but(f"{_ITEM} state promoted_to_id promoted_at relations", "memories.")
    | _SESSION,
    "working_memory_search": _all_but(f"{_ITEM} state", "memories."),
    "working_memory_stats": _FILL | {"step"},
    "memory_memorize": _all_but("id importance token_count step_index expires_at", "memory.") | _EVICTED,
    "memory_reassess": _all_but(_MEMORY),
    "memory_remember": _all_but(_MEMORY, "memories.") | _SESSION,
    "memory_recall": _all_but(f"{_MEMORY} state_reason promoted_to_id metadata relations", "memories.")
    | frozenset(f"restored.{name}" for name in _PUT_BACK)
    | {"query"},
    "memory_restore": _PUT_BACK,
}
# Beside those that only read. Getting a memory counts as an access.
_REPEATABLE = (
    sessions.open_,
    sessions.close,
    sessions.reassess,
    sessions.restore,
    sessions.sweep,
    sessions.promote,
    sessions.bulk_promote,
    sessions.clear,
    sessions.expire,
    sessions.relation_add,
)
_DESTROYING = (sessions.forget,)


def _tool(operation: AnyOperation) -> Tool:
    return Tool(
        operation,
        operation.summary,
        hides=_HIDDEN.get(operation.name, frozenset()),
        reads=operation.only_reads,
        repeatable=operation.only_reads or operation in _REPEATABLE,
        destroys=operation in _DESTROYING,
    )


_CORE: tuple[AnyOperation, ...] = (
    sessions.add,
    sessions.get,
    sessions.list_memories,
    sessions.recall,
    sessions.close,
)
_FOR_PROGRAMS = (sessions.events, sessions.preview)
TOOLSETS: dict[str, tuple[Tool, ...]] = {
    "sessions": tuple(map(_tool, _CORE)),
    "working_memory": tuple(_tool(one) for one in sessions.SESSION_ITEMS if one not in _CORE),
    "session_memory": tuple(_tool(one) for one in sessions.SESSION_MINDS if one not in (*_CORE, *_FOR_PROGRAMS)),
}
