"""Sessions: the working memory of agents' sessions, one function a tool, over the stores of one workspace.

    window ─> function(store, …, now) ─> one transaction: item, policy's plan, events, crystals ─> value

Each takes the open stores, what the caller gave, and the moment. What is refused changes nothing; an error of
SQLite's is a StorageError. A session that was never opened is an empty one of the `ttl` policy: the first item opens
it, and looking at it writes nothing. Only `get` counts as an access.
"""

from daemon.sessions.add import Draft as Draft
from daemon.sessions.add import add as add
from daemon.sessions.add import memorize as memorize
from daemon.sessions.change import expire as expire
from daemon.sessions.change import extend_ttl as extend_ttl
from daemon.sessions.change import forget as forget
from daemon.sessions.change import reassess as reassess
from daemon.sessions.change import recall as recall
from daemon.sessions.change import relation_add as relation_add
from daemon.sessions.change import restore as restore
from daemon.sessions.for_dreams import hand_over as hand_over
from daemon.sessions.for_dreams import open_items as open_items
from daemon.sessions.for_dreams import waiting_count as waiting_count
from daemon.sessions.lifecycle import clear_session as clear_session
from daemon.sessions.lifecycle import close_session as close_session
from daemon.sessions.lifecycle import maintain as maintain
from daemon.sessions.lifecycle import next_due as next_due
from daemon.sessions.lifecycle import session_events as session_events
from daemon.sessions.lifecycle import session_list as session_list
from daemon.sessions.lifecycle import session_open as session_open
from daemon.sessions.lifecycle import session_summary as session_summary
from daemon.sessions.lifecycle import sweep as sweep
from daemon.sessions.promotion import bulk_promote as bulk_promote
from daemon.sessions.promotion import promote as promote
from daemon.sessions.read import archive as archive
from daemon.sessions.read import capacity as capacity
from daemon.sessions.read import context as context
from daemon.sessions.read import export as export
from daemon.sessions.read import get as get
from daemon.sessions.read import left_behind as left_behind
from daemon.sessions.read import list_expired as list_expired
from daemon.sessions.read import list_memories as list_memories
from daemon.sessions.read import list_pending as list_pending
from daemon.sessions.read import list_promoted as list_promoted
from daemon.sessions.read import preview as preview
from daemon.sessions.read import remember as remember
from daemon.sessions.read import search as search
from daemon.sessions.read import stats as stats
from daemon.sessions.read import summarize as summarize
