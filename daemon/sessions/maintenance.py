"""Maintenance: ticks the sessions that are due and delivers the outbox; cheap when nothing is due."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from daemon.sessions.call import apply_logged, call, find_session, policy, sessions_of
from daemon.sessions.promotion import deliver
from daemon.workspace.stores import Store
from state.sessions.moments import after
from state.sessions.policies.by_name import POLICIES
from state.stores.database.connection import transaction
from state.stores.sessions.apply import Applied
from state.stores.sessions.rows import Session
from state.stores.sessions.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Maintained:
    """What maintenance did: sessions that were due, items that went to the outbox or the archive, and crystals."""

    sessions: int = 0
    promoted: int = 0
    archived: int = 0
    refused: int = 0
    delivered: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything moved."""
        return any((self.promoted, self.archived, self.refused, self.delivered))


@call
def maintain(store: Store, now: datetime) -> Maintained:
    """Tick the sessions whose moment has come (each policy says how often), then deliver the outbox.

    Each session is a transaction of its own. Raises StorageError when crystals could not be written; they wait.
    """
    sessions = sessions_of(store)
    done = [_tick(store, sessions, session, now) for session in sessions.due(now, _horizon())]
    ticked = [one for one in done if one is not None]
    return Maintained(
        sessions=len(ticked),
        promoted=sum(len(one.promoted) for one in ticked),
        archived=sum(len(one.archived) for one in ticked),
        refused=sum(len(one.refused) for one in ticked),
        delivered=deliver(store, now),
    )


def next_due(store: Store, now: datetime) -> datetime | None:
    """When the first session is due, as far as the clock can be believed; None when none is.

    What could not be delivered is due now: it was promoted, and is no crystal yet.
    """
    sessions = sessions_of(store)
    if sessions.outbox.waiting(1):
        return now
    moment = sessions.next_due()
    return min(moment, after(now, _horizon().total_seconds())) if moment is not None else None


@call
def sweep(store: Store, session_id: str, now: datetime) -> Maintained:
    """Tick this session now, whatever its policy: what has outlived its time leaves."""
    sessions = sessions_of(store)
    session = find_session(sessions, session_id)
    if session is None:
        return Maintained()
    with transaction(sessions.connection):
        done = _ticked(store, sessions, session, now)
    return Maintained(1, len(done.promoted), len(done.archived), len(done.refused), deliver(store, now))


def _tick(store: Store, sessions: Sessions, session: Session, now: datetime) -> Applied | None:
    with transaction(sessions.connection):
        current = find_session(sessions, session.id)
        if current is None or current.due_at != session.due_at:  # another process was quicker
            return None
        return _ticked(store, sessions, current, now)


def _ticked(store: Store, sessions: Sessions, session: Session, now: datetime) -> Applied:
    decides = policy(session)
    view = sessions.view(session)
    done = apply_logged(store, sessions, session, decides.tick(view, now), now)
    every = decides.tick_seconds
    goes_on = every is not None and sessions.view(session).count > 0
    sessions.set_due(session, after(now, every) if goes_on and every is not None else None)
    return done


def _horizon() -> timedelta:
    """The longest that any session waits."""
    return timedelta(seconds=max(one.tick_seconds for one in POLICIES.values() if one.tick_seconds is not None))
