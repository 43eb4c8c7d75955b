"""Sessions: the working memory of agents' sessions, one function per tool, over the stores of one workspace.

    window ─> function(store, …, now) ─> one transaction: item, policy's plan, events, crystals ─> value

Each function takes the open stores, the caller's arguments, which the operations have validated, and the current
time. A refused call changes nothing. A session that was never opened is an empty one with the `ttl` policy: its first
item opens it, and reading it writes nothing.
"""

# isort: off
from daemon.sessions.crystals import bulk_promote, hand_over, open_items, promote, waiting_count
from daemon.sessions.lifecycle import (
    clear_session, close_session, maintain, next_due, session_events, session_list, session_open, session_summary,
    sweep,
)  # fmt: skip
from daemon.sessions.tools import (
    Draft, add, context, expire, extend_ttl, forget, get, left_behind, list_memories, list_pending, memorize, preview,
    reassess, recall, relation_add, remember, restore, search, stats, summarize,
)  # fmt: skip

__all__ = [
    "Draft", "add", "bulk_promote", "clear_session", "close_session", "context", "expire", "extend_ttl", "forget",
    "get", "hand_over", "left_behind", "list_memories", "list_pending", "maintain", "memorize", "next_due",
    "open_items", "preview", "promote", "reassess", "recall", "relation_add", "remember", "restore", "search",
    "session_events", "session_list", "session_open", "session_summary", "stats", "summarize", "sweep",
    "waiting_count",
]  # fmt: skip
