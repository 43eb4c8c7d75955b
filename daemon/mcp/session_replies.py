"""The toolsets of session working memory: which tools, and which fields of an answer an agent is not told.

An agent pays for every word that it reads: `sessions` is what most of them need, the rest is switched on beside it.
Programs have the whole of every answer over HTTP, under the same names.
"""

from dataclasses import fields

from daemon.api.operations import session_items as items
from daemon.api.operations import session_memory as minds
from daemon.api.operations.operation import AnyOperation
from daemon.mcp.tool import Tool
from daemon.sessions.answers import Memory

_ALL = frozenset(field.name for field in fields(Memory))
# A memory as the fifteen tools have always answered it, and as the others do.
_ITEM = "id session_id content priority expires_at created_at access_count importance_score tags metadata"
_THOUGHT = "id content importance step_index created_at tags"


def _but(told: str, part: str = "") -> frozenset[str]:
    """Everything of a memory, or of those in this part of the answer, but these fields."""
    return frozenset(f"{part}{name}" for name in _ALL - set(told.split()))


# Its id says how it began.
_EVICTED = frozenset(f"evicted.{name}" for name in ("content", "importance", "token_count", "rescue"))
_SESSION = frozenset({"session_id"})
_FILL = frozenset(f"capacity.{name}" for name in ("items", "available_items", "available_tokens", "settings"))
_PUT_BACK = _but(_THOUGHT, "memory.") | _EVICTED

_HIDDEN: dict[str, frozenset[str]] = {
    "working_memory_add": _but(_ITEM) | _EVICTED,
    "working_memory_get": _but(f"{_ITEM} state promoted_to_id relations"),
    "working_memory_list": _but(f"{_ITEM} state", "memories.") | _SESSION,
    "working_memory_export": _but(f"{_ITEM} state promoted_to_id relations", "memories."),
    "working_memory_list_pending": _but(_ITEM, "memories.") | _SESSION,
    "working_memory_list_expired": _but(f"{_ITEM} state", "memories.") | _SESSION,
    "working_memory_list_promoted": _but(f"{_ITEM} state promoted_to_id promoted_at relations", "memories.")
    | _SESSION,
    "working_memory_search": _but(f"{_ITEM} state", "memories."),
    "working_memory_stats": _FILL | {"step"},
    "memory_memorize": _but("id importance token_count step_index expires_at", "memory.") | _EVICTED,
    "memory_reassess": _but(_THOUGHT),
    "memory_remember": _but(_THOUGHT, "memories.") | _SESSION,
    "memory_recall": _but(f"{_THOUGHT} state_reason promoted_to_id metadata relations", "memories.")
    | frozenset(f"restored.{name}" for name in _PUT_BACK)
    | {"query"},
    "memory_restore": _PUT_BACK,
}
# Beside those that only read. Getting a memory counts as an access.
_REPEATABLE = (
    minds.open_,
    minds.close,
    minds.reassess,
    minds.restore,
    minds.sweep,
    items.promote,
    items.bulk_promote,
    items.clear,
    items.expire,
    items.relation_add,
)
_DESTROYING = (minds.forget,)


def _tool(operation: AnyOperation) -> Tool:
    return Tool(
        operation,
        operation.summary,
        hides=_HIDDEN.get(operation.name, frozenset()),
        reads=operation.only_reads,
        repeatable=operation.only_reads or operation in _REPEATABLE,
        destroys=operation in _DESTROYING,
    )


_CORE: tuple[AnyOperation, ...] = (items.add, items.get, items.list_, minds.recall, minds.close)
_FOR_PROGRAMS = (minds.events, minds.preview)
TOOLSETS: dict[str, tuple[Tool, ...]] = {
    "sessions": tuple(map(_tool, _CORE)),
    "working_memory": tuple(_tool(one) for one in items.SESSION_ITEMS if one not in _CORE),
    "session_memory": tuple(_tool(one) for one in minds.SESSION_MINDS if one not in (*_CORE, *_FOR_PROGRAMS)),
}
