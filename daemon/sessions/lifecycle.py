"""Lifecycle: opens, clears, closes and lists sessions, and shows their events."""

from collections.abc import Mapping
from datetime import datetime

from daemon.sessions.answers import Cleared, Closed, Opened, SessionSummary
from daemon.sessions.call import call, checked_name, find_session, policy, refuse_secret, sessions_of
from daemon.workspace.stores import Store
from state.errors import NotFoundError, UsageError
from state.sessions.page import ALL, Page, Wanted, page
from state.sessions.policies.by_name import DEFAULT, policy_of, settings_of
from state.sessions.policies.settings import shown
from state.stores.database.connection import transaction
from state.stores.sessions.events import Event, EventKind
from state.stores.sessions.rows import Session
from state.stores.sessions.sessions import Sessions

_NO_CONFIG: Mapping[str, object] = {}
_CLEARED = "cleared"
_CLOSED = "session closed"


@call
def session_open(
    store: Store, session_id: str, now: datetime, policy: str = DEFAULT, config: Mapping[str, object] = _NO_CONFIG
) -> Opened:
    """Open a session with a policy, which it keeps for its life; once more with the same changes nothing.

    One that was closed begins a new life. Raises UsageError for an unknown policy, an impossible setting, or a
    session that is open with another policy.
    """
    sessions = sessions_of(store)
    settings = settings_of(policy_of(policy, config))
    checked_name("session_id", session_id)
    refuse_secret(store, sessions, session_id)
    with transaction(sessions.connection):
        before = sessions.find(session_id)
        is_open = before is not None and before.closed_at is None
        session = sessions.open(session_id, policy, settings, now)
    if (session.policy, policy_of(session.policy, session.config)) != (policy, policy_of(policy, config)):
        raise UsageError(
            f"session {shown(session_id)} is open with the {session.policy} policy and its settings, for its life",
            "end it with 'session_close' first, or use another session_id",
        )
    return Opened(session_id, session.policy, session.config, session.opened_at, new=not is_open)


@call
def clear_session(store: Store, session_id: str, now: datetime) -> Cleared:
    """Everything in the set leaves it for the cold archive; the session can be used on. Crystals are not touched."""
    sessions = sessions_of(store)
    archived = 0
    with transaction(sessions.connection):
        session = find_session(sessions, session_id)
        if session is not None:
            archived = _archive_all(sessions, session, _CLEARED, now)
            sessions.events.add(session, EventKind.CLEARED, now)
    return Cleared(success=True, message=f"Session cleared: {session_id}", archived=archived)


@call
def close_session(store: Store, session_id: str, now: datetime) -> Closed:
    """The session is over; what was in it is handed to the dream by way of the cold archive.

    Raises NotFoundError when it was never opened. Closing it again changes nothing.
    """
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session = _require_session(sessions, session_id)
        if session.closed_at is not None:
            return Closed(session_id, session.closed_at, 0)
        archived = _archive_all(sessions, session, _CLOSED, now)
        sessions.close(session, now)
    return Closed(session_id, now, archived)


@call
def session_list(store: Store, wanted: Wanted = ALL) -> Page[SessionSummary]:
    """The sessions that were ever opened, the latest first."""
    sessions = sessions_of(store)
    summaries = (_summary(sessions, one) for one in sessions.all())
    return page(summaries, wanted, lambda one: one.session_id, lambda one: len(one.session_id))


@call
def session_summary(store: Store, session_id: str) -> SessionSummary:
    """One session, as the list has it. Raises NotFoundError when it was never opened."""
    sessions = sessions_of(store)
    return _summary(sessions, _require_session(sessions, session_id))


@call
def session_events(
    store: Store, session_id: str, limit: int = 100, after: int | None = None, memory_id: str | None = None
) -> tuple[Event, ...]:
    """What happened in a session, the latest first, or to one of its items, from the beginning.

    `after` is the key of the last event that the caller has; the events behind it in this order are returned. Raises
    NotFoundError.
    """
    sessions = sessions_of(store)
    session = _require_session(sessions, session_id)
    if memory_id is None:
        return tuple(sessions.events.of_session(session, limit, after))
    item = sessions.items.find(session, checked_name("memory_id", memory_id))
    if item is None:
        raise NotFoundError(f"session {shown(session_id)} has no memory {shown(memory_id)}")
    return tuple(sessions.events.of_item(session, item.seq, limit, after))


def _require_session(sessions: Sessions, session_id: str) -> Session:
    session = find_session(sessions, session_id)
    if session is None:
        raise NotFoundError(f"there is no session {shown(session_id)}", "adding a memory or session_open makes one")
    return session


def _archive_all(sessions: Sessions, session: Session, reason: str, now: datetime) -> int:
    items = sessions.items.held(session)
    sessions.items.leave(session, [(item, reason, False) for item in items], now)
    sessions.set_due(session, None)
    return len(items)


def _summary(sessions: Sessions, session: Session) -> SessionSummary:
    usage = policy(session).usage(session.held, session.tokens)
    return SessionSummary(
        session_id=session.id,
        policy=session.policy,
        opened_at=session.opened_at,
        closed_at=session.closed_at,
        count=session.held,
        token_count=session.tokens,
        step=session.step,
        utilisation=usage.utilisation,
        status=usage.status,
        max_items=usage.max_items,
        max_tokens=usage.max_tokens,
        last_active_at=sessions.events.last_at(session) or session.opened_at,
    )
