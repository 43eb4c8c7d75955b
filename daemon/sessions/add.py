"""Add: writes a new item into a session; its policy decides what leaves for it, in the same transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from daemon.sessions.answers import Added, Departure, Memorized, extended
from daemon.sessions.call import call, refuse_secret, writing
from daemon.sessions.promotion import apply_plan, scored_at
from daemon.workspace.stores import Store
from state.errors import UsageError
from state.sessions.checks import (
    MAX_CONTENT_BYTES,
    MAX_NAME_BYTES,
    Number,
    NumberOrNone,
    Priority,
    checked_importance,
    checked_metadata,
    checked_tags,
    checked_text,
    checked_value,
)  # fmt: skip
from state.sessions.item import Item, State, after, hash_of, tokens_of, working_id
from state.sessions.policies import Bounded, Plan
from state.stores.history.originals import Originals
from state.stores.sessions.rows import Session
from state.stores.sessions.sessions import Sessions


@dataclass(frozen=True, slots=True)
class Draft:
    """An item that is to be stored. None: the importance that its priority gives, the session's step, counted tokens.

    Under `bounded`, where age is counted in steps, a new item is a step of its own unless one is given.
    """

    content: str
    priority: str = "medium"
    tags: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    agent_id: str = ""
    source: str = ""
    importance: float | str | None = None
    step_index: int | None = None
    token_count: int | None = None


class Admission(NamedTuple):
    """An item and its session after the policy has made room; `kept` is false when it was its own victim."""

    kept: bool
    item: Item
    evicted: tuple[Departure, ...]
    items: int
    tokens: int


@call
def add(store: Store, session_id: str, draft: Draft, now: datetime) -> Added:
    """Store a new item, durable when this returns, and say what left to make room for it. Raise UsageError."""
    done = _take_in(store, session_id, draft, now)
    return extended(Added, done.item, stored=done.kept, evicted=done.evicted)


@call
def memorize(store: Store, session_id: str, draft: Draft, now: datetime) -> Memorized:
    """Store a new item as `add` does; the reply also has its position and how full the session is."""
    done = _take_in(store, session_id, draft, now)
    position = done.items - 1 if done.kept else None  # every other item is older
    return Memorized(done.kept, done.item, position, *done[2:])


def _take_in(store: Store, session_id: str, draft: Draft, now: datetime) -> Admission:
    new = _item(store, session_id, draft, now)
    with writing(store, session_id) as (sessions, before):
        refuse_secret(store, before)
        session = sessions.open(session_id, now)
        rules = session.rules
        _, most = rules.limits
        if most is not None and new.token_count > most:
            problem = f"content: it has {new.token_count} tokens and the session holds {most}"
            raise UsageError(problem, "nothing was evicted for it")
        lifetime = rules.lifetime(new.priority)
        step = new.step_index if draft.step_index is not None else session.step + isinstance(rules, Bounded)
        new = replace(new, step_index=step, expires_at=None if lifetime is None else after(now, lifetime))
        new = sessions.add(session, replace(new, importance_score=scored_at(new, session, now)))
        return admit(store, sessions, replace(session, step=max(step, session.step)), new, now)


def admit(store: Store, sessions: Sessions, session: Session, item: Item, now: datetime) -> Admission:
    """Have the policy make room for an item that is in the set now, in the caller's transaction."""
    rules, fill = session.rules, sessions.fill(session)
    plan = rules.admit(sessions.view(session, now), item.id) if rules.is_full(*fill) else Plan(log=rules.fits(*fill))
    done = apply_plan(store, sessions, session, plan, now)
    if session.due_at is None and rules.tick_seconds is not None:
        sessions.change_session(session, due_at=after(now, rules.tick_seconds))
    if done.steps:
        item, fill = sessions.item(session, item.id) or item, sessions.fill(session)
    kept = item.state not in (State.ARCHIVED, State.PURGED)
    return Admission(kept, item, tuple(Departure.of(step) for step in done.steps if step.leaves), *fill)


def _item(store: Store, session_id: str, draft: Draft, now: datetime) -> Item:
    """Return the draft as an item that has no number yet, checked, and without its secrets.

    What is long or no text is refused before it is looked through.
    """
    checked_text("session_id", session_id, MAX_NAME_BYTES)
    secrets, originals = store.config.secrets.redaction, Originals(store.workspace, store.disk)
    content = originals.redacted(checked_text("content", draft.content, MAX_CONTENT_BYTES), secrets, "session", now)
    count, step, priority = draft.token_count, draft.step_index, checked_value("priority", Priority, draft.priority)
    return Item(
        id=working_id(session_id, content, now),
        session_id=session_id,
        content=checked_text("content", content, MAX_CONTENT_BYTES),
        priority=priority,
        expires_at=None,
        created_at=now,
        access_count=1,
        importance_score=0.0,
        tags=checked_tags([secrets.of(tag) for tag in checked_tags(draft.tags)]),
        metadata=checked_metadata(secrets.of_table(checked_metadata(draft.metadata))),
        agent_id=secrets.of(checked_text("agent_id", draft.agent_id)),
        source=secrets.of(checked_text("source", draft.source)),
        seq=-1,
        importance=checked_importance(priority, draft.importance),
        token_count=tokens_of(content) if count is None else checked_value("token_count", Number, count),
        step_index=0 if step is None else checked_value("step_index", NumberOrNone, step),
        last_accessed_at=now,
        content_hash=hash_of(content),
    )
