"""How every call begins: the stores of sessions, what was given checked, and errors in words."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from inspect import signature
from typing import Concatenate, ParamSpec, TypeVar

from daemon.observability import logs
from daemon.workspace.stores import Store
from state.errors import DreamdError, NotFoundError, UsageError
from state.sessions.item import MAX_CONTENT_BYTES, Item, State
from state.sessions.policies.by_name import DEFAULT, policy_of, settings_of
from state.sessions.policies.policy import ItemView, Plan, Policy
from state.sessions.policies.settings import shown
from state.stores.database.connection import explained
from state.stores.sessions.apply import Applied, apply_plan
from state.stores.sessions.rows import Session
from state.stores.sessions.sessions import Sessions
from state.stores.sessions.view import EmptyItemView

MAX_NAME_BYTES = 16_384
_SUBJECTS = ("session_id", "memory_id")

_P = ParamSpec("_P")
_R = TypeVar("_R")
_LOG = logs.get()


def call(function: Callable[Concatenate[Store, _P], _R]) -> Callable[Concatenate[Store, _P], _R]:
    """A call of working memory: its errors say which session and memory they are about, SQLite's what they mean."""
    parameters = signature(function)

    def about(error: DreamdError, given: tuple[object, ...], named: Mapping[str, object]) -> DreamdError:
        words = parameters.bind_partial(None, *given, **named).arguments
        error.details = error.details or {name: words[name] for name in _SUBJECTS if isinstance(words.get(name), str)}
        return error

    @wraps(function)
    def told(store: Store, /, *given: _P.args, **named: _P.kwargs) -> _R:
        try:
            return function(store, *given, **named)
        except sqlite3.Error as error:
            raise about(explained(error, store.workspace.database), given, named) from error
        except DreamdError as error:
            about(error, given, named)
            raise

    return told


def sessions_of(store: Store) -> Sessions:
    """The sessions of the workspace."""
    return Sessions(store.crystals.connection)


def without_secret(store: Store, sessions: Sessions, session_id: str) -> None:
    """Raises UsageError for the id of a new session that holds a secret: it is shown, sent and searched."""
    kinds = store.config.secrets.redaction.kinds(session_id)
    if kinds and sessions.find(session_id) is None:
        raise UsageError(f"session_id: it holds a secret ({', '.join(kinds)})", "give the session another name")


def known(sessions: Sessions, session_id: str) -> Session | None:
    """The session; None: it was never opened, and so is an empty one of the default policy."""
    return sessions.find(named("session_id", session_id))


def opened(sessions: Sessions, session_id: str, now: datetime) -> Session:
    """The session, opened with the default policy when it never was, and again when it was closed."""
    session = known(sessions, session_id)
    if session is None:
        return sessions.open(session_id, DEFAULT, settings_of(policy_of(DEFAULT, {})), now)
    return session if session.closed_at is None else sessions.open(session_id, session.policy, session.config, now)


def policy(session: Session | None) -> Policy:
    """Who decides in it."""
    return policy_of(session.policy, session.config) if session else policy_of(DEFAULT, {})


def looked_at(sessions: Sessions, session_id: str) -> tuple[Policy, ItemView]:
    """Who decides in a session, and its set."""
    session = known(sessions, session_id)
    return policy(session), sessions.view(session) if session else EmptyItemView()


def in_set(sessions: Sessions, session_id: str, memory_id: str) -> tuple[Session, Item]:
    """An item that is in this session's set. Raises NotFoundError."""
    session = known(sessions, session_id)
    item = sessions.items.find(session, named("memory_id", memory_id)) if session else None
    if item is not None and item.state is State.ARCHIVED:
        raise NotFoundError(
            f"memory {shown(memory_id)} left the session ({item.state_reason})",
            "'memory_recall' finds it, 'memory_restore' puts it back",
        )
    return _there(session, item, session_id, memory_id)


def in_reach(sessions: Sessions, session_id: str, memory_id: str) -> tuple[Session, Item]:
    """An item that is in this session's set, or left it as a long-term record. Raises NotFoundError."""
    session = known(sessions, session_id)
    item = sessions.items.find(session, named("memory_id", memory_id)) if session else None
    if session is not None and item is not None and sessions.outbox.of(session, item) is not None:
        return session, item
    return in_set(sessions, session_id, memory_id)


def ever_in(sessions: Sessions, session_id: str, memory_id: str) -> tuple[Session, Item]:
    """An item that this session has or had, wherever it is now. Raises NotFoundError, also for a purged one."""
    session = known(sessions, session_id)
    item = sessions.items.find(session, named("memory_id", memory_id)) if session else None
    return _there(session, item, session_id, memory_id)


def _there(session: Session | None, item: Item | None, session_id: str, memory_id: str) -> tuple[Session, Item]:
    if session is None or item is None or item.state is State.PURGED:
        raise NotFoundError(
            f"session {shown(session_id)} has no memory {shown(memory_id)}",
            "'working_memory_list' shows what it has, 'memory_recall' what left it",
        )
    return session, item


def carried(store: Store, sessions: Sessions, session: Session, plan: Plan, now: datetime) -> Applied:
    """A plan carried out and logged, in the caller's transaction."""
    from daemon.sessions.promotion import bar

    if plan.log:
        log = {"debug": _LOG.debug, "info": _LOG.info, "warning": _LOG.warning}[plan.level]
        log("session_checked", session=session.id, policy=session.policy, said=plan.log)
    return apply_plan(sessions, session, plan, now, bar(store, sessions))


def named(key: str, value: str) -> str:
    """A name from outside: not empty, whole Unicode, not too long. Raises UsageError."""
    if not isinstance(value, str) or not value:
        raise UsageError(f"{key}: {shown(value)} is no name", "give at least one character")
    if len(whole(key, value).encode()) > MAX_NAME_BYTES:
        raise UsageError(f"{key}: it has more than {MAX_NAME_BYTES} bytes", "give a shorter one")
    return value


def whole(key: str, value: str) -> str:
    """A text from outside that can be written. Raises UsageError."""
    if not isinstance(value, str):
        raise UsageError(f"{key}: {shown(value)} is not a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{key}: it holds half a character (a lone surrogate)", "send whole Unicode text") from error
    return value


def tags_of(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags, each once. Raises UsageError."""
    if isinstance(tags, str) or not all(isinstance(tag, str) and tag for tag in tags):
        raise UsageError(f"tags: {shown(tags)} is not a list of texts, none of them empty")
    return _small("tags", tuple(dict.fromkeys(whole("tags", tag) for tag in tags)))


def metadata_of(metadata: Mapping[str, str]) -> dict[str, str]:
    """Names and texts. Raises UsageError."""
    if not isinstance(metadata, Mapping):
        raise UsageError(f"metadata: {shown(metadata)} is not a table of texts")
    found = {whole("metadata", key): whole(f"metadata.{key}", value) for key, value in metadata.items()}
    _small("metadata", (*found, *found.values()))
    return found


def _small(key: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    if sum(len(text.encode()) for text in texts) > MAX_CONTENT_BYTES:
        raise UsageError(f"{key}: together they have more than {MAX_CONTENT_BYTES} bytes")
    return texts
