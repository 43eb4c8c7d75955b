"""Read: gets, lists, searches, summarizes and previews the items of a session; only `get` counts as an access."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from operator import attrgetter

from daemon.sessions import answers
from daemon.sessions.call import call, find_kept, reading, writing
from daemon.sessions.promotion import apply_plan, crystal_of, scored_at
from daemon.workspace.stores import Store
from state.errors import ExpiredError
from state.search.ranking import Filters
from state.sessions import selection
from state.sessions.checks import checked_text, shown
from state.sessions.item import PLACES, WEIGHTS, Item, State
from state.sessions.page import ALL, Wanted, page
from state.sessions.policies import Bounded, Plan, View
from state.stores.sessions.rows import IN_SET, Session
from state.stores.sessions.sessions import Sessions

_NEXT = Wanted(10)
_LEAVERS = 5
_by_age = attrgetter("created_at", "id")
_KEPT = f"({IN_SET} OR promoted_to_id IS NOT NULL)"
_NO_FILTERS: Mapping[str, object] = {}


@call
def get(store: Store, session_id: str, memory_id: str, now: datetime) -> Item:
    """Return one item, its access counted, which may promote it.

    Of one that left the set as a long-term record no access is counted. Raise NotFoundError, and ExpiredError
    without counting.
    """
    with writing(store, session_id) as (sessions, session):
        item = find_kept(sessions, session, memory_id)
        if item.state == State.ARCHIVED:
            return item
        if item.is_expired(now):
            raise ExpiredError(
                f"memory {shown(memory_id)} expired at {item.expires_at}", "'working_memory_extend_ttl' revives it"
            )
        accesses = item.access_count + 1
        score = scored_at(replace(item, access_count=accesses), session, now)
        item = sessions.change(session, item, access_count=accesses, last_accessed_at=now, importance_score=score)
        earned = session.rules.earned(View([item], session.step, now))
        apply_plan(store, sessions, session, Plan(earned), now)
        return (sessions.item(session, item.id) or item) if earned else item


# ------------------------------------------------------------------------------------------------ lists


@call
def list_memories(
    store: Store,
    session_id: str,
    now: datetime,
    *,
    include_expired: bool = False,
    include_promoted: bool = False,
    wanted: Wanted = ALL,
) -> answers.Memories:
    """Return the set by age, without expired and promoted items."""
    return _listed(store, session_id, IN_SET, _included(now, include_expired, include_promoted), wanted)


@call
def export(store: Store, session_id: str, wanted: Wanted = ALL) -> answers.Memories:
    """Return the whole set, and what left it as a long-term record."""
    return _listed(store, session_id, _KEPT, lambda _: True, wanted)


@call
def list_expired(store: Store, session_id: str, now: datetime, wanted: Wanted = ALL) -> answers.Memories:
    """Return what has expired and waits for the cleanup."""
    return _listed(store, session_id, IN_SET, lambda item: item.is_expired(now), wanted)


@call
def list_promoted(store: Store, session_id: str, wanted: Wanted = ALL) -> answers.Memories:
    """Return what is a long-term record too, in the set or no more."""
    return _listed(store, session_id, _KEPT, lambda item: item.promoted_to_id is not None, wanted)


@call
def list_pending(store: Store, session_id: str, now: datetime, wanted: Wanted = ALL) -> answers.Pending:
    """Return what would be promoted at its next access or cleanup."""
    with reading(store, session_id) as (sessions, session):
        earned = session.rules.earned(sessions.view(session, now))
    part = page(sorted((step.item for step in earned), key=_by_age), wanted)
    items = tuple(answers.extended(answers.Eligible, one) for one in part.items)
    return answers.Pending(items, len(items), session_id, part.next_cursor)


@call
def archive(store: Store, session_id: str, wanted: Wanted = ALL) -> answers.Memories:
    """Return what left the set and can be restored, the latest to come first."""
    with reading(store, session_id) as (sessions, session):
        return answers.Memories.of(session_id, sessions.archived((), session), wanted)


def _listed(
    store: Store, session_id: str, condition: str, passes: Callable[[Item], bool], wanted: Wanted
) -> answers.Memories:
    with reading(store, session_id) as (sessions, session):
        items = sessions.items(session, condition)
    return answers.Memories.of(session_id, sorted(filter(passes, items), key=_by_age), wanted)


def _included(now: datetime, expired: bool, promoted: bool) -> Callable[[Item], bool]:  # noqa: FBT001
    return lambda item: (expired or not item.is_expired(now)) and (promoted or not item.promoted_to_id)


# ------------------------------------------------------------------------------------------------ queries


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
) -> answers.SearchResult:
    """Return the items whose content holds the query in any case, with any of the tags, the most relevant first."""
    given = {"tags": tags, **({} if priority is None else {"priority": priority})}
    fits, passes = selection.filters_of(given), _included(now, include_expired, include_promoted)
    with reading(store, session_id) as (sessions, session):
        items = sessions.holding(session, checked_text("query", query))
    found = [
        answers.extended(answers.Relevant, item, relevance_score=relevant)
        for item in items
        if passes(item) and fits(item) and (relevant := selection.relevance(item, query)) is not None
    ]
    found.sort(key=lambda one: (-one.relevance_score, one.created_at, one.id))
    part = page(found, wanted)
    return answers.SearchResult(part.items, len(part.items), query, part.next_cursor)


@call
def remember(
    store: Store,
    session_id: str,
    now: datetime,
    prompt: str = "",
    filters: Mapping[str, object] = _NO_FILTERS,
    wanted: Wanted = ALL,
) -> answers.Memories:
    """Return what the prompt is about (empty: everything), by importance, then the newest; nothing hidden or expired.

    Filters: tags, priority, agent_id, source. Raise UsageError.
    """
    passes, about = selection.filters_of(filters), selection.is_about(prompt)
    with reading(store, session_id) as (sessions, session):
        items = selection.standing(sessions.held(session), now)
    return answers.Memories.of(session_id, (item for item in items if passes(item) and about(item)), wanted)


@call
def summarize(
    store: Store, session_id: str, now: datetime, scope: str = "all", token_limit: int = 500
) -> answers.Summary:
    """Summarize the items of the scope (all, recent, important, by_tag:x) within the limit, in whole sentences.

    The same session gives the same summary. Raise UsageError.
    """
    with reading(store, session_id) as (sessions, session):
        items = sessions.held(session)
    bounded = rules if isinstance(rules := session.rules, Bounded) else Bounded()
    made = selection.summary_of(items, scope, token_limit, session.step, bounded, now)
    return answers.Summary(made.text, made.token_count, tuple(item.id for item in made.items), scope)


@call
def context(
    store: Store, session_id: str, now: datetime, strategy: str = "balanced", max_tokens: int | None = None
) -> answers.WorkingContext:
    """Return items in the strategy's order (recent, important, balanced), up to the first that does not fit.

    Without a number of tokens the whole session's are taken. Raise UsageError.
    """
    with reading(store, session_id) as (sessions, session):
        made = selection.context_of(sessions.held(session), strategy, max_tokens, now)
    return answers.WorkingContext(made.text, made.token_count, tuple(item.id for item in made.items), strategy)


def left_behind(store: Store, query: str, limit: int, filters: Filters, now: datetime) -> tuple[Item, ...]:
    """Return what left any session, was not kept and holds a word of the query, the best first, if it passes."""
    found = departed(Sessions(store.crystals.connection), query)
    passing = (item for item in found if not item.promoted_to_id and filters.let(crystal_of(store, item, now)))
    return tuple(islice(passing, limit))


def departed(sessions: Sessions, query: str, session: Session | None = None) -> Iterator[Item]:
    """Return what left this session (None: any) and holds a word of the query; for an empty one the latest first."""
    words = selection.query_words(query)
    return sessions.archived(words, session) if words or not query.strip() else iter(())


# ------------------------------------------------------------------------------------------------ figures


@call
def capacity(store: Store, session_id: str) -> answers.Capacity:
    """Return how full the session is, by its policy."""
    with reading(store, session_id) as (sessions, session):
        return answers.Capacity.of(session, *sessions.fill(session))


@call
def stats(store: Store, session_id: str, now: datetime) -> answers.SessionStats:
    """Return how a session stands."""
    with reading(store, session_id) as (sessions, session):
        view, rules = sessions.view(session, now), session.rules
    items, count = view.items, view.count
    expired = sum(item.is_expired(now) for item in items)
    return answers.SessionStats(
        session_id=session_id,
        total_count=count,
        active_count=count - expired,
        expired_count=expired,
        hidden_count=count - len(view.live),
        promoted_count=sum(item.promoted_to_id is not None for item in items),
        pending_promotion=len(rules.earned(view)),
        avg_access_count=round(sum(item.access_count for item in items) / max(1, count), PLACES),
        avg_importance=round(sum(item.importance_score for item in items) / max(1, count), PLACES),
        by_priority={**dict.fromkeys(WEIGHTS, 0), **Counter(item.priority for item in items)},
        step=view.step,
        capacity=answers.Capacity.of(session, count, view.tokens),
        next_to_leave=tuple(
            answers.Leaver(one.item.id, one.action.value, one.reason) for one in islice(rules.order(view), _LEAVERS)
        ),
    )


@call
def preview(store: Store, session_id: str, now: datetime, wanted: Wanted = _NEXT) -> answers.Preview:
    """Return who would leave next, in order, with why; nothing leaves."""
    with reading(store, session_id) as (sessions, session):
        order = session.rules.order(sessions.view(session, now))
    part = page(order, wanted, attrgetter("item.id"), attrgetter("item.content"))
    return answers.Preview(session_id, tuple(map(answers.Departure.of, part.items)), part.next_cursor)
