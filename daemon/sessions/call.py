"""Session calls: what every session tool needs: its session, its item, a transaction, and errors with details."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import cache, wraps
from inspect import signature
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from daemon.workspace.stores import Store
from state.errors import DreamdError, NotFoundError, UsageError
from state.sessions.checks import MAX_NAME_BYTES, checked_text, shown
from state.sessions.item import Item, State
from state.sessions.policies import DEFAULT
from state.stores.database.connection import explained, transaction
from state.stores.sessions.rows import Session
from state.stores.sessions.sessions import Sessions

_SUBJECTS = ("session_id", "memory_id")
_NOT_OPENED = -1  # the key of a session that was never opened
_P = ParamSpec("_P")
_R = TypeVar("_R")


def call(function: Callable[Concatenate[Store, _P], _R]) -> Callable[Concatenate[Store, _P], _R]:
    """Decorate a session tool: its errors get the session and memory as details, SQLite's become StorageErrors."""
    parameters = signature(function)

    @wraps(function)
    def wrapper(store: Store, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(store, *args, **kwargs)
        except (sqlite3.Error, DreamdError) as error:
            told = error if isinstance(error, DreamdError) else explained(error, store.workspace.database)
            given = parameters.bind_partial(None, *args, **kwargs).arguments
            subjects = {name: given[name] for name in _SUBJECTS if isinstance(given.get(name), str)}
            told.details = told.details or subjects
            if told is error:
                raise
            raise told from error

    return wrapper


def reading(store: Store, session_id: str) -> AbstractContextManager[tuple[Sessions, Session]]:
    """Open a context in which everything of a session is read as of one moment."""
    return _in_session(store, session_id, steady)


def writing(store: Store, session_id: str) -> AbstractContextManager[tuple[Sessions, Session]]:
    """Open a transaction with a session."""
    return _in_session(store, session_id, one_writer)


@contextmanager
def _in_session(
    store: Store, session_id: str, within: Callable[[Store], AbstractContextManager[None]]
) -> Iterator[tuple[Sessions, Session]]:
    """Open a context with a session: one that was never opened is empty, and has the default policy."""
    sessions = Sessions(store.crystals.connection)
    checked_text("session_id", session_id, MAX_NAME_BYTES)
    with within(store):
        unopened = Session(_NOT_OPENED, session_id, DEFAULT, {}, datetime.min.replace(tzinfo=UTC))
        yield sessions, sessions.find(session_id) or unopened


@contextmanager
def steady(store: Store) -> Iterator[None]:
    """Open a context in which everything is read as of one moment."""
    connection = store.crystals.connection
    is_inner = connection.in_transaction
    if not is_inner:
        connection.execute("BEGIN")
    try:
        yield
    finally:
        if not is_inner and connection.in_transaction:
            connection.execute("ROLLBACK")  # nothing was written


@contextmanager
def one_writer(store: Store) -> Iterator[None]:
    """Open a transaction, after waiting for the other threads that write to sessions of this workspace.

    SQLite polls while it waits, which is slower and not fair. A transaction of the caller's is used as it is.
    """
    connection = store.crystals.connection
    lock = nullcontext() if connection.in_transaction else _lock(store.workspace.database)
    with lock, transaction(connection):
        yield


@cache
def _lock(database: Path) -> threading.Lock:  # noqa: ARG001 - one for each
    return threading.Lock()


def is_known(session: Session) -> bool:
    """Return whether the session was ever opened."""
    return session.key != _NOT_OPENED


def require_known(session: Session) -> Session:
    """Return the session. Raise NotFoundError if it was never opened."""
    if not is_known(session):
        raise NotFoundError(f"there is no session {shown(session.id)}", "adding a memory or session_open makes one")
    return session


def refuse_secret(store: Store, session: Session) -> None:
    """Raise UsageError if the id of a new session holds a secret: ids are shown, sent and searched."""
    if not is_known(session) and (kinds := store.config.secrets.redaction.kinds(session.id)):
        raise UsageError(f"session_id: it holds a secret ({', '.join(kinds)})", "give the session another name")


def find_in_set(sessions: Sessions, session: Session, memory_id: str) -> Item:
    """Return an item of the set. Raise NotFoundError."""
    item = find_anywhere(sessions, session, memory_id)
    if item.state == State.ARCHIVED:
        raise NotFoundError(
            f"memory {shown(memory_id)} left the session ({item.state_reason})",
            "'memory_recall' finds it, 'memory_restore' puts it back",
        )
    return item


def find_kept(sessions: Sessions, session: Session, memory_id: str) -> Item:
    """Return an item of the set, or one that left it as a long-term record. Raise NotFoundError."""
    item = find_anywhere(sessions, session, memory_id)
    return item if item.promoted_to_id else find_in_set(sessions, session, memory_id)


def find_anywhere(sessions: Sessions, session: Session, memory_id: str) -> Item:
    """Return an item that the session has or had. Raise NotFoundError, also for a purged one."""
    item = sessions.item(session, checked_text("memory_id", memory_id, MAX_NAME_BYTES))
    if item is None or item.state == State.PURGED:
        raise NotFoundError(
            f"session {shown(session.id)} has no memory {shown(memory_id)}",
            "'working_memory_list' shows what it has, 'memory_recall' what left it",
        )
    return item
