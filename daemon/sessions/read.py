"""Read: gets, lists, searches and previews the items of a session; only `get` counts as an access."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime

from daemon.sessions.add import priority_of
from daemon.sessions.answers import (
    Eligible,
    Memories,
    Memory,
    Pending,
    Preview,
    Relevant,
    SearchResult,
    departure,
    fields_of,
    memories_of,
    memory_of,
    page_of,
    related,
)
from daemon.sessions.call import (
    apply_logged,
    call,
    checked_text,
    find_kept,
    find_session,
    policy,
    policy_and_items,
    sessions_of,
    tags_of,
)
from daemon.sessions.promotion import deliver_soon
from daemon.workspace.stores import Store
from state.errors import ExpiredError
from state.sessions.importance import score
from state.sessions.item import Item, State
from state.sessions.page import ALL, Page, Wanted, page
from state.sessions.policies.policy import Action
from state.sessions.policies.settings import shown
from state.sessions.search import ItemFilters
from state.sessions.search import search as matching
from state.sessions.stats import SessionStats, session_stats
from state.stores.database.connection import transaction
from state.stores.sessions.relations import Relation

_NEXT = Wanted(10)


@call
def get(store: Store, session_id: str, memory_id: str, now: datetime) -> Memory:
    """One item of the set, its access counted; one that has earned it becomes a long-term record by that.

    Of one that left the set as a long-term record no access is counted. Raises NotFoundError, and ExpiredError
    without counting.
    """
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session, item = find_kept(sessions, session_id, memory_id)
        if item.state is State.ARCHIVED:
            return memory_of(item, sessions.relations.of(session, [item]).get(item.seq, ()))
        if item.expired(now):
            raise ExpiredError(
                f"memory {shown(memory_id)} expired at {item.expires_at}", "'working_memory_extend_ttl' revives it"
            )
        item = replace(item, access_count=item.access_count + 1, last_accessed_at=now)
        decides = policy(session)
        item = replace(item, importance_score=score(item, now, decides.lifetime(item)))
        sessions.items.accessed(session, item)
        done = apply_logged(store, sessions, session, decides.on_access(item, now), now)
    if done.promoted:
        deliver_soon(store, now)
    with sessions.steady():
        relations = sessions.relations.of(session, [item]).get(item.seq, ())
        return memory_of(sessions.items.find(session, item.id) or item, relations)


@call
def list_memories(
    store: Store,
    session_id: str,
    now: datetime,
    *,
    include_expired: bool = False,
    include_promoted: bool = False,
    wanted: Wanted = ALL,
) -> Memories:
    """The set by age, without what is expired and what is a long-term record unless it is wants for."""

    def wants(item: Item) -> bool:
        return item.state is not State.ARCHIVED and _is_included(item, now, include_expired, include_promoted)

    return _listed(store, session_id, wants, wanted)


@call
def export(store: Store, session_id: str, wanted: Wanted = ALL) -> Memories:
    """The whole set, and what left it as a long-term record."""
    return _listed(store, session_id, lambda _: True, wanted)


@call
def archive(store: Store, session_id: str, wanted: Wanted = ALL) -> Memories:
    """What left the set and can be restored, the latest to come first."""
    sessions = sessions_of(store)
    with sessions.steady():
        session = find_session(sessions, session_id)
        if session is None:
            return Memories((), 0, session_id)
        with closing(sessions.archive.search("", session)) as items:
            part = page_of(items, wanted)
        return memories_of(session_id, part, sessions.relations.of(session, part.items))


@call
def list_expired(store: Store, session_id: str, now: datetime, wanted: Wanted = ALL) -> Memories:
    """What is expired and waits to be cleaned."""
    return _listed(store, session_id, lambda item: item.state is not State.ARCHIVED and item.expired(now), wanted)


@call
def list_promoted(store: Store, session_id: str, wanted: Wanted = ALL) -> Memories:
    """What is a long-term record too, in the set or no more."""
    return _listed(store, session_id, lambda item: item.promoted, wanted)


@call
def list_pending(store: Store, session_id: str, now: datetime, wanted: Wanted = ALL) -> Pending:
    """What would be promoted at its next access or cleanup."""
    decides = policy(find_session(sessions_of(store), session_id))

    def pending(item: Item) -> bool:
        return any(step.action is Action.PROMOTE for step in decides.on_access(item, now).steps)

    part, relations = _sorted(store, session_id, pending, wanted)
    memories = tuple(
        Eligible(**fields_of(item), relations=related(relations.get(item.seq, ()))) for item in part.items
    )
    return Pending(memories, len(memories), session_id, part.next_cursor)


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
    wanted: Wanted = ALL,
) -> SearchResult:
    """The items whose content holds the query in any case, with any of the tags, the most relevant first."""
    sessions, any_of = sessions_of(store), tags_of(tags)
    filters = ItemFilters(tags=any_of, priority=priority_of(priority) if priority is not None else None)
    with sessions.steady():
        session = find_session(sessions, session_id)
        items = sessions.items.holding(session, checked_text("query", query), any_of, priority) if session else []
    seen = [item for item in items if _is_included(item, now, include_expired, include_promoted)]
    part = page(matching(seen, query, filters), wanted, lambda one: one.item.id, lambda one: len(one.item.content))
    memories = tuple(Relevant(**fields_of(one.item), relevance_score=one.relevance) for one in part.items)
    return SearchResult(memories, len(memories), query, part.next_cursor)


@call
def stats(store: Store, session_id: str, now: datetime) -> SessionStats:
    """How a session stands."""
    sessions = sessions_of(store)
    with sessions.steady():
        decides, view = policy_and_items(sessions, session_id)
        return session_stats(session_id, decides, view, now)


@call
def preview(store: Store, session_id: str, now: datetime, wanted: Wanted = _NEXT) -> Preview:
    """Who would leave next, in order, with why; nothing leaves."""
    sessions = sessions_of(store)
    with sessions.steady():
        decides, view = policy_and_items(sessions, session_id)
        steps = decides.order(view, now)
        part = page(steps, wanted, lambda step: step.item.id, lambda step: len(step.item.content))
    return Preview(session_id, tuple(map(departure, part.items)), part.next_cursor)


def _listed(store: Store, session_id: str, wants: Callable[[Item], bool], wanted: Wanted) -> Memories:
    part, relations = _sorted(store, session_id, wants, wanted)
    return memories_of(session_id, part, relations)


def _sorted(
    store: Store, session_id: str, wants: Callable[[Item], bool], wanted: Wanted
) -> tuple[Page[Item], Mapping[int, Sequence[Relation]]]:
    """Of the set and the long-term records those that are wants for, by age, and the relations of each."""
    sessions = sessions_of(store)
    with sessions.steady():
        session = find_session(sessions, session_id)
        items = [item for item in sessions.items.kept(session) if wants(item)] if session else []
        items.sort(key=lambda item: (item.created_at, item.id))
        part = page_of(items, wanted)
        return part, sessions.relations.of(session, part.items) if session else {}


def _is_included(item: Item, now: datetime, include_expired: bool, include_promoted: bool) -> bool:  # noqa: FBT001
    return (include_expired or not item.expired(now)) and (include_promoted or not item.promoted)
