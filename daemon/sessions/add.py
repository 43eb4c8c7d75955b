"""Add: writes a new item into a session; its policy decides what leaves for it, in the same transaction."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime

from daemon.sessions.answers import Added, Departure, Memorized, departure, fields_of, memory_of
from daemon.sessions.call import (
    apply_logged,
    call,
    checked_text,
    metadata_of,
    open_session,
    policy,
    refuse_secret,
    sessions_of,
    tags_of,
)
from daemon.sessions.group_commit import Level, group_of
from daemon.sessions.promotion import deliver_soon
from daemon.workspace.stores import Store
from state.errors import UsageError
from state.sessions.content import checked, tokens_of
from state.sessions.ids import working_id
from state.sessions.importance import assigned, score
from state.sessions.item import Item, Priority
from state.sessions.moments import after
from state.sessions.policies.bounded import Bounded
from state.sessions.policies.settings import Number, NumberOrNone, checked_value, shown
from state.stores.database.connection import transaction
from state.stores.history.originals import Originals
from state.stores.sessions.rows import Session
from state.stores.sessions.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Draft:
    """An item that is to be stored. None: the importance that its priority gives, the session's step, counted tokens.

    Under `bounded`, where age is counted in steps, a new item is a step of its own unless one is given.
    """

    content: str
    priority: str = Priority.MEDIUM.value
    tags: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    agent_id: str = ""
    source: str = ""
    importance: float | str | None = None
    step_index: int | None = None
    token_count: int | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """An item and its session after the policy has made room; `kept` is false when it was its own victim."""

    item: Item
    kept: bool
    evicted: tuple[Departure, ...]
    session: Session
    promoted: bool


@call
def add(store: Store, session_id: str, draft: Draft, now: datetime) -> Added:
    """Store a new item, durable when this returns, and say what left to make room for it. Raises UsageError."""
    done = _take_in(store, session_id, draft, now)
    return Added(**fields_of(done.item), stored=done.kept, evicted=done.evicted)


@call
def memorize(store: Store, session_id: str, draft: Draft, now: datetime) -> Memorized:
    """Like `add`, but the reply also has the item's position and how full the session is."""
    done = _take_in(store, session_id, draft, now)
    return Memorized(
        stored=done.kept,
        memory=memory_of(done.item),
        position=done.session.held - 1 if done.kept else None,  # every other item is older
        evicted=done.evicted,
        count=done.session.held,
        token_count=done.session.tokens,
    )


def _take_in(store: Store, session_id: str, draft: Draft, now: datetime) -> Admission:
    """Together with what other threads add now; in a transaction of the caller's, as a part of it."""
    if store.crystals.connection.in_transaction:
        return _taken_in(store, session_id, draft, now)
    group = group_of(store.workspace.database, Level.STORES)
    return group.write(lambda: nullcontext(store), lambda given: _taken_in(given, session_id, draft, now))


def _taken_in(store: Store, session_id: str, draft: Draft, now: datetime) -> Admission:
    new = _item(session_id, _clean(store, draft, now), now)
    sessions = sessions_of(store)
    refuse_secret(store, sessions, session_id)
    with transaction(sessions.connection):
        session = open_session(sessions, session_id, now)
        decides = policy(session)
        if reason := decides.fits(new.token_count):
            raise UsageError(f"content: {reason}", "nothing was evicted for it")
        lifetime = decides.lifetime(new)
        if lifetime is not None:
            new = replace(new, expires_at=after(now, lifetime))
        if draft.step_index is None:
            new = replace(new, step_index=session.step + isinstance(decides, Bounded))
        new = replace(new, importance_score=score(new, now, lifetime))
        new = sessions.items.add(session, new, lambda used: working_id(session.id, new.content, now, used))
        done = admit(store, sessions, session, new, now)
    if done.promoted:
        deliver_soon(store, now)
    return done


def admit(store: Store, sessions: Sessions, session: Session, item: Item, now: datetime) -> Admission:
    """Have the policy make room for an item that is in the set now, in the caller's transaction."""
    decides = policy(session)
    done = apply_logged(store, sessions, session, decides.admit(item, sessions.view(session), now), now)
    if session.due_at is None and decides.tick_seconds is not None:
        sessions.set_due(session, after(now, decides.tick_seconds))
    gone = [*done.archived, *(step for step in done.promoted if step.leaves)]
    return Admission(
        item=sessions.items.find(session, item.id) or item,
        kept=all(step.item.id != item.id for step in gone),
        evicted=tuple(map(departure, gone)),
        session=sessions.find(session.id) or session,
        promoted=bool(done.promoted),
    )


def _clean(store: Store, draft: Draft, now: datetime) -> Draft:
    """The draft without its secrets, checked: what is long or no text is refused before it is looked through."""
    secrets, originals = store.config.secrets.redaction, Originals(store.workspace, store.disk)
    return replace(
        draft,
        content=originals.redacted(checked(draft.content), secrets, "session", now),
        tags=tuple(secrets.of(tag) for tag in tags_of(draft.tags)),
        metadata=secrets.of_table(metadata_of(draft.metadata)),
        agent_id=secrets.of(checked_text("agent_id", draft.agent_id)),
        source=secrets.of(checked_text("source", draft.source)),
    )


def _item(session_id: str, draft: Draft, now: datetime) -> Item:
    """The draft, checked, as an item that has no number yet."""
    content = checked(draft.content)
    priority = priority_of(draft.priority)
    count, step = draft.token_count, draft.step_index
    return Item(
        id="",
        session=session_id,
        seq=-1,
        content=content,
        priority=priority,
        importance=assigned(priority, draft.importance),
        token_count=tokens_of(content) if count is None else checked_value("token_count", Number, count),
        created_at=now,
        last_accessed_at=now,
        step_index=0 if step is None else checked_value("step_index", NumberOrNone, step),
        agent=checked_text("agent_id", draft.agent_id),
        source=checked_text("source", draft.source),
        tags=tags_of(draft.tags),
        metadata=metadata_of(draft.metadata),
    )


def priority_of(name: str) -> Priority:
    """The priority of this name. Raises UsageError."""
    names = [priority.value for priority in Priority]
    if name not in names:
        raise UsageError(f"priority: {shown(name)} is none of {', '.join(names)}")
    return Priority(name)
