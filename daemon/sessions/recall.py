"""Recall: finds items in the cold archive of a session, and restores them."""

from contextlib import closing
from dataclasses import replace
from datetime import datetime
from itertools import islice

from daemon.sessions.add import admit
from daemon.sessions.answers import Recalled, Restored, memories_of, memory_of, page_of
from daemon.sessions.call import (
    call,
    checked_text,
    find_anywhere,
    find_session,
    open_session,
    policy,
    sessions_of,
)
from daemon.sessions.promotion import crystal_of, deliver_soon
from daemon.workspace.stores import Store
from state.search.ranking import Filters
from state.sessions.item import Item, State
from state.sessions.moments import after
from state.sessions.page import Wanted
from state.sessions.policies.hybrid import Hybrid
from state.stores.database.connection import transaction

_FIRST = Wanted(10)


@call
def recall(store: Store, session_id: str, query: str, now: datetime, wanted: Wanted = _FIRST) -> Recalled:
    """What left this session and holds a word of the query, the best first; an empty query: the latest items.

    Under the `hybrid` policy the best one comes back into the set, and makes room for itself. Raises UsageError.
    """
    sessions, text = sessions_of(store), checked_text("query", query)
    session = find_session(sessions, session_id)
    if session is None:
        return Recalled(query, (), 0)
    with sessions.steady(), closing(sessions.archive.search(text, session)) as matches:
        part = page_of(matches, wanted)
        relations = sessions.relations.of(session, part.items)
    memories = memories_of(session_id, part, relations).memories
    back = None
    if memories and query.strip() and not wanted.cursor and isinstance(policy(session), Hybrid):
        back = restore(store, session_id, memories[0].id, now)
    return Recalled(query, memories, len(memories), back, part.next_cursor)


def left_behind(store: Store, query: str, limit: int, filters: Filters, now: datetime) -> tuple[Item, ...]:
    """What left any session, was not kept and holds a word of the query, the best first, if the filters let it."""

    def passes(item: Item) -> bool:
        return not item.promoted and filters.let(crystal_of(store, item, now))

    sessions = sessions_of(store)
    with sessions.steady(), closing(sessions.archive.search(query)) as matches:
        return tuple(islice(filter(passes, matches), limit))


@call
def restore(store: Store, session_id: str, memory_id: str, now: datetime) -> Restored:
    """A cold item is in the set again with the content, number and age that it had, and lives as a new one does.

    One that was softly forgotten is remembered again. Others may have to leave, and under some policies it may
    itself: `restored` is false then. One that is in the set already stays there. Raises NotFoundError.
    """
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session, item = find_anywhere(sessions, session_id, memory_id)
        if item.state is State.HIDDEN:
            item = sessions.items.show(session, item, now)
        if item.state is State.LIVE:
            return Restored(
                restored=True, memory=memory_of(item), evicted=(), count=session.held, token_count=session.tokens
            )
        session = open_session(sessions, session_id, now)
        lifetime = policy(session).lifetime(item)
        item = replace(
            item,
            expires_at=after(now, lifetime) if lifetime is not None else None,
            step_index=max(item.step_index, session.step),
        )
        done = admit(store, sessions, session, sessions.items.restore(session, item, now), now)
    if done.promoted:
        deliver_soon(store, now)
    return Restored(done.kept, memory_of(done.item), done.evicted, done.session.held, done.session.tokens)
