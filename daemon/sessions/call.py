"""Session calls: what every session tool needs: its session and item, checked arguments, and errors with details."""

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
from state.sessions.policies.policy import Plan, Policy
from state.sessions.policies.settings import shown
from state.sessions.stats import CountedView
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
    """Decorate a session tool: its errors get the session and memory as details, SQLite's become StorageErrors."""
    parameters = signature(function)

    def with_subjects(error: DreamdError, args: tuple[object, ...], kwargs: Mapping[str, object]) -> DreamdError:
        arguments = parameters.bind_partial(None, *args, **kwargs).arguments
        error.details = error.details or {
            name: arguments[name] for name in _SUBJECTS if isinstance(arguments.get(name), str)
        }
        return error

    @wraps(function)
    def wrapper(store: Store, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(store, *args, **kwargs)
        except sqlite3.Error as error:
            raise with_subjects(explained(error, store.workspace.database), args, kwargs) from error
        except DreamdError as error:
            with_subjects(error, args, kwargs)
            raise

    return wrapper


def sessions_of(store: Store) -> Sessions:
    """The sessions of the workspace."""
    return Sessions(store.crystals.connection)


def refuse_secret(store: Store, sessions: Sessions, session_id: str) -> None:
    """Raise UsageError when the id of a new session holds a secret: ids are shown, sent and searched."""
    kinds = store.config.secrets.redaction.kinds(session_id)
    if kinds and sessions.find(session_id) is None:
        raise UsageError(f"session_id: it holds a secret ({', '.join(kinds)})", "give the session another name")


def find_session(sessions: Sessions, session_id: str) -> Session | None:
    """The session; None: it was never opened, and so is an empty one of the default policy."""
    return sessions.find(checked_name("session_id", session_id))


def open_session(sessions: Sessions, session_id: str, now: datetime) -> Session:
    """The session, opened with the default policy when it never was, and again when it was closed."""
    session = find_session(sessions, session_id)
    if session is None:
        return sessions.open(session_id, DEFAULT, settings_of(policy_of(DEFAULT, {})), now)
    return session if session.closed_at is None else sessions.open(session_id, session.policy, session.config, now)


def policy(session: Session | None) -> Policy:
    """The policy of the session; of one that was never opened, the default."""
    return policy_of(session.policy, session.config) if session else policy_of(DEFAULT, {})


def policy_and_items(sessions: Sessions, session_id: str) -> tuple[Policy, CountedView]:
    """The policy of a session, and its items."""
    session = find_session(sessions, session_id)
    return policy(session), sessions.view(session) if session else EmptyItemView()


def find_in_set(sessions: Sessions, session_id: str, memory_id: str) -> tuple[Session, Item]:
    """An item that is in this session's set. Raises NotFoundError."""
    session, item = _find(sessions, session_id, memory_id)
    if item is not None and item.state is State.ARCHIVED:
        raise NotFoundError(
            f"memory {shown(memory_id)} left the session ({item.state_reason})",
            "'memory_recall' finds it, 'memory_restore' puts it back",
        )
    return _require_item(session, item, session_id, memory_id)


def find_kept(sessions: Sessions, session_id: str, memory_id: str) -> tuple[Session, Item]:
    """An item that is in this session's set, or left it as a long-term record. Raises NotFoundError."""
    session, item = _find(sessions, session_id, memory_id)
    if session is not None and item is not None and sessions.outbox.of(session, item) is not None:
        return session, item
    return find_in_set(sessions, session_id, memory_id)


def find_anywhere(sessions: Sessions, session_id: str, memory_id: str) -> tuple[Session, Item]:
    """An item that this session has or had, wherever it is now. Raises NotFoundError, also for a purged one."""
    return _require_item(*_find(sessions, session_id, memory_id), session_id, memory_id)


def _find(sessions: Sessions, session_id: str, memory_id: str) -> tuple[Session | None, Item | None]:
    session = find_session(sessions, session_id)
    return session, sessions.items.find(session, checked_name("memory_id", memory_id)) if session else None


def _require_item(
    session: Session | None, item: Item | None, session_id: str, memory_id: str
) -> tuple[Session, Item]:
    if session is None or item is None or item.state is State.PURGED:
        raise NotFoundError(
            f"session {shown(session_id)} has no memory {shown(memory_id)}",
            "'working_memory_list' shows what it has, 'memory_recall' what left it",
        )
    return session, item


def apply_logged(store: Store, sessions: Sessions, session: Session, plan: Plan, now: datetime) -> Applied:
    """Apply the plan of a policy in the caller's transaction, and log what it says."""
    from daemon.sessions.promotion import promotion_veto

    if plan.log:
        log = {"debug": _LOG.debug, "info": _LOG.info, "warning": _LOG.warning}[plan.level]
        log("session_checked", session=session.id, policy=session.policy, said=plan.log)
    return apply_plan(sessions, session, plan, now, promotion_veto(store, sessions))


def checked_name(key: str, value: str) -> str:
    """A name from outside: not empty, whole Unicode, not too long. Raises UsageError."""
    if not isinstance(value, str) or not value:
        raise UsageError(f"{key}: {shown(value)} is no name", "give at least one character")
    if len(checked_text(key, value).encode()) > MAX_NAME_BYTES:
        raise UsageError(f"{key}: it has more than {MAX_NAME_BYTES} bytes", "give a shorter one")
    return value


def checked_text(key: str, value: str) -> str:
    """A text from outside that can be written. Raises UsageError."""
    if not isinstance(value, str):
        raise UsageError(f"{key}: {shown(value)} is not a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{key}: it holds half a character (a lone surrogate)", "send whole Unicode text") from error
    return value


def tags_of(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags, each once. Raises UsageError for what is no list of texts."""
    if isinstance(tags, str) or not all(isinstance(tag, str) and tag for tag in tags):
        raise UsageError(f"tags: {shown(tags)} is not a list of texts, none of them empty")
    return _small("tags", tuple(dict.fromkeys(checked_text("tags", tag) for tag in tags)))


def metadata_of(metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata as a table of texts. Raises UsageError for anything else."""
    if not isinstance(metadata, Mapping):
        raise UsageError(f"metadata: {shown(metadata)} is not a table of texts")
    texts = {checked_text("metadata", key): checked_text(f"metadata.{key}", value) for key, value in metadata.items()}
    _small("metadata", (*texts, *texts.values()))
    return texts


def _small(key: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    if sum(len(text.encode()) for text in texts) > MAX_CONTENT_BYTES:
        raise UsageError(f"{key}: together they have more than {MAX_CONTENT_BYTES} bytes")
    return texts
