"""Lifecycle: opens, clears, closes, lists and ticks sessions, and shows their events."""

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from sqlite3 import Connection

from daemon.sessions.answers import Cleared, Closed, Events, Maintained, Opened, SessionList, SessionSummary
from daemon.sessions.call import reading, require_known, write_transaction, writing
from daemon.sessions.crystals import apply_plan
from daemon.sessions.tools import refuse_secret
from daemon.workspace.stores import Store
from state.dream import Dream
from state.errors import NotFoundError, UsageError
from state.sessions.checks import shown
from state.sessions.item import State, after
from state.sessions.page import page
from state.sessions.policies import DEFAULT, LONGEST_TICK_SECONDS, Action, policy_of
from state.stores.database.moments import from_text, to_text
from state.stores.sessions.sessions import Session, Sessions

_NO_CONFIG: Mapping[str, object] = {}
_WRONG = "its owner calls it wrong"


def session_open(
    store: Store, session_id: str, now: datetime, policy: str = DEFAULT, config: Mapping[str, object] = _NO_CONFIG
) -> Opened:
    """Open a session with a policy, which it keeps for its life; once more with the same changes nothing.

    A closed session starts a new life. Raise UsageError for an unknown policy, an invalid setting, or a session that
    is open with another policy or other settings.
    """
    rules = policy_of(policy, config)
    with writing(store.connection, session_id) as (sessions, before):
        refuse_secret(store.config.redaction, before)
        is_open = before.is_known and before.closed_at is None
        session = sessions.open(session_id, now, policy, config)
        if session.rules != rules:
            held = f"with the {session.policy} policy and its settings, for its life"
            raise UsageError(
                f"session {shown(session_id)} is open {held}",
                "end it with 'session_close' first, or use another session_id",
            )
    return Opened(session_id, session.policy, session.config, session.opened_at, new=not is_open)


def clear_session(connection: Connection, session_id: str, now: datetime) -> Cleared:
    """Archive everything in the set; the session can be used on. Crystals are not touched."""
    archived = 0
    with writing(connection, session_id) as (sessions, session):
        if session.is_known:
            archived = _archive_all(sessions, session, "cleared", now)
            sessions.log(session, "cleared", now)
    return Cleared(success=True, message=f"Session cleared: {session_id}", archived=archived)


def close_session(connection: Connection, session_id: str, now: datetime) -> Closed:
    """End the session; what was in it is handed to the dream by way of the archive.

    Raise NotFoundError if it was never opened. Closing it again changes nothing.
    """
    with writing(connection, session_id) as (sessions, session):
        closed_at = require_known(session).closed_at
        if closed_at is not None:
            return Closed(session_id, closed_at, 0)
        archived = _archive_all(sessions, session, "session closed", now)
        sessions.change_session(session, closed_at=now)
        sessions.log(session, "closed", now)
    return Closed(session_id, now, archived)


def _archive_all(sessions: Sessions, session: Session, reason: str, now: datetime) -> int:
    items = sessions.held(session)
    for item in items:
        sessions.leave(session, item, reason, now)
    sessions.change_session(session, due_at=None)
    return len(items)


def session_list(connection: Connection, limit: int | None = None, cursor: str = "") -> SessionList:
    """Return the sessions that were ever opened, the latest first."""
    sessions = Sessions(connection)
    summaries = (_summary(sessions, one) for one in sessions.all())
    return SessionList(*page(summaries, limit, cursor, attrgetter("session_id"), attrgetter("session_id")))


def session_summary(connection: Connection, session_id: str) -> SessionSummary:
    """Return one session, as the list has it. Raise NotFoundError when it was never opened."""
    with reading(connection, session_id) as (sessions, session):
        return _summary(sessions, require_known(session))


def _summary(sessions: Sessions, session: Session) -> SessionSummary:
    fill, rules = sessions.fill(session), session.rules
    last = next(iter(sessions.events(session, limit=1)), None)
    return SessionSummary(
        session.id,
        session.policy,
        session.opened_at,
        session.closed_at,
        *fill,
        session.step,
        *rules.usage(*fill),
        *rules.limits,
        last.at if last else session.opened_at,
    )


def session_events(
    connection: Connection, session_id: str, memory_id: str | None = None, limit: int = 100, cursor: int | None = None
) -> Events:
    """Return what entered and left a session, when and why.

    Events of a session are returned latest first, those of one of its items from the beginning. `cursor` is the key
    of the caller's last event; the events after it in this order are returned. Raise NotFoundError.
    """
    with reading(connection, session_id) as (sessions, session):
        require_known(session)
        item = None
        if memory_id is not None and (item := sessions.item(session, memory_id)) is None:
            raise NotFoundError(f"session {shown(session_id)} has no memory {shown(memory_id)}")
        return Events(tuple(sessions.events(session, item, limit, cursor)))


def mind_correction(store: Store, dream: Dream, now: datetime) -> None:
    """Hide the items that a version calls wrong, and remember those of which it takes that back."""
    for state, corrected in ((State.LIVE, dream.corrected), (State.HIDDEN, dream.uncorrected)):
        for key in (key for one in corrected for key in one.items):
            with write_transaction(store.connection):
                sessions = Sessions(store.connection)
                for session, item in sessions.in_row(key):
                    if item.state == State.LIVE == state:
                        sessions.change(session, item, state=State.HIDDEN, state_reason=_WRONG)
                        sessions.log(session, "hidden", now, item, _WRONG)
                    elif item.state == State.HIDDEN == state and item.state_reason == _WRONG:
                        sessions.restore(session, item, now)


# ------------------------------------------------------------------------------------------------ maintenance


def maintain(store: Store, now: datetime) -> Maintained:
    """Tick the sessions that are due (each policy says how often), each in a transaction of its own."""
    sessions, done = Sessions(store.connection), Maintained()
    # A session that is due later than any policy allows was scheduled by a wrong clock.
    horizon = to_text(after(now, LONGEST_TICK_SECONDS))
    for due in sessions.all("WHERE due_at <= ? OR due_at > ?", to_text(now), horizon):
        with write_transaction(store.connection):
            current = sessions.find(due.id)
            if current is not None and current.due_at == due.due_at:  # otherwise another process has ticked it
                done += _ticked(store, sessions, current, now)
    return done


def sweep(store: Store, session_id: str, now: datetime) -> Maintained:
    """Tick this session now, whatever its policy: what has outlived its time leaves."""
    with writing(store.connection, session_id) as (sessions, session):
        return _ticked(store, sessions, session, now) if session.is_known else Maintained()


def next_due(connection: Connection, now: datetime) -> datetime | None:
    """Return when the next session is due, capped in case of a wrong clock; None if none is."""
    (due,) = connection.execute("SELECT min(due_at) FROM sessions").fetchone()
    return min(from_text(due), after(now, LONGEST_TICK_SECONDS)) if due is not None else None


def _ticked(store: Store, sessions: Sessions, session: Session, now: datetime) -> Maintained:
    rules = session.rules
    steps, refused = apply_plan(store, sessions, session, rules.tick(sessions.view(session, now)), now)
    count, _ = sessions.fill(session)
    goes_on = rules.tick_seconds is not None and count > 0
    sessions.change_session(session, due_at=after(now, rules.tick_seconds or 0.0) if goes_on else None)
    promoted = sum(step.action is Action.PROMOTE for step in steps)
    return Maintained(1, promoted, len(steps) - promoted, refused)
