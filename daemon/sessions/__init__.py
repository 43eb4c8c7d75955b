"""Sessions: the working memory of agents' sessions, one function a tool, over the stores of one workspace.

    window ─> function(store, …, now) ─> one transaction: item, policy's plan, events, outbox ─> delivery ─> value

Each takes the open stores, what the caller gave, and the moment. What is refused changes nothing; an error of
SQLite's is a StorageError. A session that was never opened is an empty one of the `ttl` policy: the first item opens
it, and looking at it writes nothing. Only `get` counts as an access.
"""

from daemon.sessions.add import add, memorize
from daemon.sessions.change import expire, extend_ttl, forget, reassess, relation_add
from daemon.sessions.context import capacity, context, remember, summarize
from daemon.sessions.for_dreams import hand_over, left_over, on_mind
from daemon.sessions.lifecycle import clear_session, close_session, session_events, session_list, session_open
from daemon.sessions.maintenance import maintain, next_due, sweep
from daemon.sessions.promotion import bulk_promote, deliver, promote
from daemon.sessions.read import (
    export,
    get,
    list_expired,
    list_memories,
    list_pending,
    list_promoted,
    preview,
    search,
    stats,
)
from daemon.sessions.recall import recall, restore

__all__ = [
    "add",
    "bulk_promote",
    "capacity",
    "clear_session",
    "close_session",
    "context",
    "deliver",
    "expire",
    "export",
    "extend_ttl",
    "forget",
    "get",
    "hand_over",
    "left_over",
    "list_expired",
    "list_memories",
    "list_pending",
    "list_promoted",
    "maintain",
    "memorize",
    "next_due",
    "on_mind",
    "preview",
    "promote",
    "reassess",
    "recall",
    "relation_add",
    "remember",
    "restore",
    "search",
    "session_events",
    "session_list",
    "session_open",
    "stats",
    "summarize",
    "sweep",
]
