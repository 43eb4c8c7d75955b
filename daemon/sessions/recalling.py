"""The cold archive: finding what left by itself, and putting it back as it was."""

from dataclasses import replace
from datetime import datetime

from daemon.compose import Store
from daemon.sessions.entry import call, carried, known, named, opened, policy, sessions_of, whole
from daemon.sessions.promoting import deliver_soon
from daemon.sessions.values import Recalled, Restored, departure, memory_of
from state.errors import NotFoundError, UsageError
from state.sessions.hybrid import Hybrid
from state.sessions.item import State
from state.sessions.moments import after
from state.sessions.settings import shown
from state.stores.database import transaction

_LIMIT = 10


@call
def recall(store: Store, session_id: str, query: str, now: datetime, limit: int = _LIMIT) -> Recalled:
    """What left this session and holds a word of the query, the best first; an empty query: the latest items.

    Under the `hybrid` policy the best one comes back into the set, and makes room for itself. Raises UsageError.
    """
    if limit < 1:
        raise UsageError(f"limit: {shown(limit)} is below 1")
    sessions = sessions_of(store)
    with sessions.steady():
        session = known(sessions, session_id)
        found = sessions.archive.search(whole("query", query), session, limit) if session else []
    back = None
    if found and query.strip() and isinstance(policy(session), Hybrid):
        back = restore(store, session_id, found[0].id, now)
    return Recalled(query, tuple(map(memory_of, found)), len(found), back)


@call
def restore(store: Store, session_id: str, memory_id: str, now: datetime) -> Restored:
    """A cold item is in the set again with the content, number and age that it had, and lives as a new one does.

    Others may have to leave, and under some policies it may itself: `restored` is false then. One that is in the set
    already stays there. Raises NotFoundError.
    """
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session = known(sessions, session_id)
        item = sessions.items.find(session, named("memory_id", memory_id)) if session else None
        if session is None or item is None or item.state is State.PURGED:
            raise NotFoundError(f"session {shown(session_id)} never had a memory {shown(memory_id)}")
        if item.state is not State.ARCHIVED:
            return Restored(
                restored=True, memory=memory_of(item), evicted=(), count=session.held, token_count=session.tokens
            )
        if not sessions.archive.holds(session, item):
            raise NotFoundError(f"memory {shown(memory_id)} became a long-term record", "'memory_search' finds it")
        session = opened(sessions, session_id, now)
        decides = policy(session)
        lifetime = decides.lifetime(item)
        item = replace(
            item,
            expires_at=after(now, lifetime) if lifetime is not None else None,
            step_index=max(item.step_index, session.step),
        )
        item = sessions.items.restore(session, item, now)
        done = carried(store, sessions, session, decides.admit(item, sessions.shelf(session), now), now)
        if session.due_at is None and decides.tick_seconds is not None:
            sessions.set_due(session, after(now, decides.tick_seconds))
        gone = [*done.archived, *(step for step in done.promoted if step.leaves)]
        kept = all(step.item.id != item.id for step in gone)
        back = sessions.items.find(session, item.id) or item
        shelf = sessions.shelf(session)
        answer = Restored(kept, memory_of(back), tuple(map(departure, gone)), shelf.count, shelf.tokens)
    if done.promoted:
        deliver_soon(store, now)
    return answer
