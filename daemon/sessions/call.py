"""Session calls: what every session tool needs: the session, a transaction, and the requested item."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from sqlite3 import Connection

from state.errors import NotFoundError
from state.sessions.checks import shown
from state.sessions.item import Item, State
from state.stores.database.connection import transaction
from state.stores.sessions.sessions import Session, Sessions


@contextmanager
def reading(connection: Connection, session_id: str) -> Iterator[tuple[Sessions, Session]]:
    """Open a context with a session in which all reads see one moment."""
    with read_transaction(connection):
        sessions = Sessions(connection)
        yield sessions, sessions.session(session_id)


@contextmanager
def writing(connection: Connection, session_id: str) -> Iterator[tuple[Sessions, Session]]:
    """Open a transaction with a session."""
    with write_transaction(connection):
        sessions = Sessions(connection)
        yield sessions, sessions.session(session_id)


@contextmanager
def read_transaction(connection: Connection) -> Iterator[None]:
    """Open a context in which all reads see one moment."""
    is_inner = connection.in_transaction
    if not is_inner:
        connection.execute("BEGIN")
    try:
        yield
    finally:
        if not is_inner and connection.in_transaction:
            connection.execute("ROLLBACK")  # nothing was written


@contextmanager
def write_transaction(connection: Connection) -> Iterator[None]:
    """Open a transaction once no other thread writes to sessions of this workspace.

    SQLite polls while it waits, which is slower and unfair. An open transaction of the caller is used as it is.
    """
    lock = nullcontext() if connection.in_transaction else _lock(_file_of(connection))
    with lock, transaction(connection):
        yield


def _file_of(connection: Connection) -> str:
    (_, _, file), *_ = connection.execute("PRAGMA database_list")
    return str(file)


@cache
def _lock(database: str) -> threading.Lock:  # noqa: ARG001 - one for each
    return threading.Lock()


def require_known(session: Session) -> Session:
    """Return the session. Raise NotFoundError if it was never opened."""
    if not session.is_known:
        raise NotFoundError(f"there is no session {shown(session.id)}", "adding a memory or session_open makes one")
    return session


def find_in_set(sessions: Sessions, session: Session, memory_id: str) -> Item:
    """Return an item of the set. Raise NotFoundError."""
    item = find_anywhere(sessions, session, memory_id)
    if item.state == State.ARCHIVED:
        raise NotFoundError(
            f"memory {shown(memory_id)} left the session ({item.state_reason})",
            "'memory_recall' finds it and puts it back",
        )
    return item


def find_kept(sessions: Sessions, session: Session, memory_id: str) -> Item:
    """Return an item of the set, or one that left it as a long-term record. Raise NotFoundError."""
    item = find_anywhere(sessions, session, memory_id)
    return item if item.promoted_to_id else find_in_set(sessions, session, memory_id)


def find_anywhere(sessions: Sessions, session: Session, memory_id: str) -> Item:
    """Return an item that the session has or had. Raise NotFoundError, also for a purged item."""
    item = sessions.item(session, memory_id)
    if item is None or item.state == State.PURGED:
        raise NotFoundError(
            f"session {shown(session.id)} has no memory {shown(memory_id)}",
            "'working_memory_list' shows what it has, 'memory_recall' what left it",
        )
    return item
