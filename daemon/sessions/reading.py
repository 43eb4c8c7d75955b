"""Looking at a session. Only `get` counts as an access; nothing else here writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from daemon.compose import Store
from daemon.sessions.adding import priority_of
from daemon.sessions.entry import call, carried, in_set, known, looked_at, policy, sessions_of, tags_of, whole
from daemon.sessions.promoting import deliver_soon
from daemon.sessions.values import (
    Memories,
    Memory,
    Pending,
    Preview,
    SearchResult,
    departure,
    eligible,
    memories_of,
    memory_of,
    relevant,
)
from state.errors import ExpiredError, UsageError
from state.sessions.importance import score
from state.sessions.item import Item
from state.sessions.matching import Filters
from state.sessions.matching import search as matching
from state.sessions.policy import Action
from state.sessions.settings import shown
from state.sessions.standing import Standing, standing
from state.stores.database import transaction
from state.stores.session_relations import Relation

_NEXT = 10


@call
def get(store: Store, session_id: str, memory_id: str, now: datetime) -> Memory:
    """One item of the set, its access counted; one that has earned it becomes a long-term record by that.

    Raises NotFoundError, and ExpiredError without counting.
    """
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session, item = in_set(sessions, session_id, memory_id)
        if item.expired(now):
            raise ExpiredError(f"memory {shown(memory_id)} expired at {item.expires_at}", "'extend_ttl' revives it")
        item = replace(item, access_count=item.access_count + 1, last_accessed_at=now)
        decides = policy(session)
        item = replace(item, importance_score=score(item, now, decides.lifetime(item)))
        sessions.items.accessed(session, item)
        done = carried(store, sessions, session, decides.on_access(item, now), now)
    if done.promoted:
        deliver_soon(store, now)
    with sessions.steady():
        relations = sessions.relations.of(session, [item]).get(item.seq, ())
        return memory_of(sessions.items.find(session, item.id) or item, relations)


@call
def list_memories(
    store: Store, session_id: str, now: datetime, *, include_expired: bool = False, include_promoted: bool = False
) -> Memories:
    """The set by age, without what is expired and what is a long-term record unless it is asked for."""
    return _listed(store, session_id, lambda item: _shown(item, now, include_expired, include_promoted))


@call
def export(store: Store, session_id: str) -> Memories:
    """The whole set, whatever became of it."""
    return _listed(store, session_id, lambda _: True)


@call
def list_expired(store: Store, session_id: str, now: datetime) -> Memories:
    """What is expired and waits to be cleaned."""
    return _listed(store, session_id, lambda item: item.expired(now))


@call
def list_promoted(store: Store, session_id: str) -> Memories:
    """What is in the set and a long-term record too."""
    return _listed(store, session_id, lambda item: item.promoted)


@call
def list_pending(store: Store, session_id: str, now: datetime) -> Pending:
    """What would be promoted at its next access or cleanup."""
    decides = policy(known(sessions_of(store), session_id))

    def pending(item: Item) -> bool:
        return any(step.action is Action.PROMOTE for step in decides.on_access(item, now).steps)

    items, relations = _sorted(store, session_id, pending)
    found = tuple(eligible(item, relations.get(item.seq, ())) for item in items)
    return Pending(found, len(found), session_id)


@call
def search(
    store: Store,
    session_id: str,
    now: datetime,
    query: str = "",
    tags: Sequence[str] = (),
    priority: str | None = None,
    *,
    include_expired: bool = False,
    include_promoted: bool = False,
) -> SearchResult:
    """The items whose content holds the query in any case, with any of the tags, the most relevant first."""
    sessions, wanted = sessions_of(store), tags_of(tags)
    filters = Filters(tags=wanted, priority=priority_of(priority) if priority is not None else None)
    with sessions.steady():
        session = known(sessions, session_id)
        items = sessions.items.holding(session, whole("query", query), wanted, priority) if session else []
    seen = [item for item in items if _shown(item, now, include_expired, include_promoted)]
    found = tuple(relevant(one.item, one.relevance) for one in matching(seen, query, filters))
    return SearchResult(found, len(found), query)


@call
def stats(store: Store, session_id: str, now: datetime) -> Standing:
    """How a session stands."""
    sessions = sessions_of(store)
    with sessions.steady():
        decides, shelf = looked_at(sessions, session_id)
        return standing(session_id, decides, shelf, now)


@call
def preview(store: Store, session_id: str, now: datetime, limit: int = _NEXT) -> Preview:
    """Who would leave next, in order, with why; nothing leaves."""
    if limit < 1:
        raise UsageError(f"limit: {shown(limit)} is below 1")
    sessions = sessions_of(store)
    with sessions.steady():
        decides, shelf = looked_at(sessions, session_id)
        leaving = tuple(departure(step) for step in islice(decides.order(shelf, now), limit))
    return Preview(session_id, leaving)


def _listed(store: Store, session_id: str, wanted: Callable[[Item], bool]) -> Memories:
    return memories_of(session_id, *_sorted(store, session_id, wanted))


def _sorted(
    store: Store, session_id: str, wanted: Callable[[Item], bool]
) -> tuple[list[Item], Mapping[int, Sequence[Relation]]]:
    """The items of the set that are wanted, by age, and the relations of each."""
    sessions = sessions_of(store)
    with sessions.steady():
        session = known(sessions, session_id)
        if session is None:
            return [], {}
        items = [item for item in sessions.items.held(session) if wanted(item)]
        relations = sessions.relations.of(session, items)
    return sorted(items, key=lambda item: (item.created_at, item.id)), relations


def _shown(item: Item, now: datetime, include_expired: bool, include_promoted: bool) -> bool:  # noqa: FBT001
    return (include_expired or not item.expired(now)) and (include_promoted or not item.promoted)
