"""Change: expires, extends, reassesses, relates, forgets, recalls and restores the items of a session."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from daemon.sessions.add import admit
from daemon.sessions.answers import Done, Extended, Forgot, Recalled, Restored
from daemon.sessions.call import call, find_anywhere, find_in_set, find_kept, reading, writing
from daemon.sessions.promotion import digest_of
from daemon.sessions.read import departed
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import Store
from state.crystals.crystal import Origin, crystal_digest
from state.errors import UsageError
from state.sessions.checks import MAX_NAME_BYTES, checked_importance, checked_metadata, checked_text, shown
from state.sessions.item import Item, Related, State, after
from state.sessions.page import Wanted, page
from state.sessions.policies import Hybrid, Ttl
from state.sessions.selection import checked_mode, meant
from state.stores.database.connection import to_text
from state.stores.sessions.rows import Session
from state.stores.sessions.sessions import Sessions

_NO_METADATA: Mapping[str, str] = {}
_FIRST = Wanted(10)
# Where a text stands beside working memory, and how often.
Traces = Callable[[Store, str, datetime], Mapping[str, int]]


def _no_traces(_: Store, __: str, ___: datetime) -> Mapping[str, int]:
    return {}


@call
def expire(store: Store, session_id: str, memory_id: str, now: datetime) -> Done:
    """Let the item's time be over: the next cleanup takes it.

    Raise NotFoundError; UsageError where the policy has no time to live.
    """
    with writing(store, session_id) as (sessions, session):
        item = find_in_set(sessions, session, memory_id)
        _ttl_policy(session)
        sessions.change(session, item, expires_at=now)
        sessions.log(session, "expired", now, item, expires_at=to_text(now))
    return Done(success=True, message=f"Memory expired: {memory_id}")


@call
def extend_ttl(store: Store, session_id: str, memory_id: str, now: datetime) -> Extended:
    """Let the item live one more time to live, from its expiry on, or from now when that is past.

    Raise NotFoundError; UsageError where the policy has no time to live.
    """
    with writing(store, session_id) as (sessions, session):
        item = find_in_set(sessions, session, memory_id)
        lifetime = _ttl_policy(session).lifetime(item.priority) or 0.0
        expires_at = after(max(now, item.expires_at or now), lifetime)
        sessions.change(session, item, expires_at=expires_at)
        sessions.log(session, "extended", now, item, expires_at=to_text(expires_at))
    return Extended(success=True, message=f"TTL extended for memory: {memory_id}", new_expires_at=expires_at)


def _ttl_policy(session: Session) -> Ttl:
    """Return the policy of the session. Raise UsageError where no memory expires."""
    rules = session.rules
    if not isinstance(rules, Ttl):
        raise UsageError(
            f"session {shown(session.id)} has the {session.policy} policy, in which no memory expires",
            "'memory_forget' lets one go",
        )
    return rules


@call
def reassess(store: Store, session_id: str, memory_id: str, importance: float | str, now: datetime) -> Item:
    """Set how much the item matters from now on. Raise NotFoundError, UsageError."""
    with writing(store, session_id) as (sessions, session):
        item = find_in_set(sessions, session, memory_id)
        new = checked_importance(item.priority, importance)
        sessions.log(session, "reassessed", now, item, before=item.importance, importance=new)
        return sessions.change(session, item, importance=new)


@call
def relation_add(
    store: Store,
    session_id: str,
    memory_id: str,
    relation_type: str,
    target_element_id: str,
    now: datetime,
    metadata: Mapping[str, str] = _NO_METADATA,
) -> Done:
    """Relate the item, and the long-term record that it is, to something else. Raise NotFoundError, UsageError.

    A relation of this type to the same target is replaced.
    """
    secrets = store.config.secrets.redaction
    kind = checked_text("relation_type", relation_type, MAX_NAME_BYTES)
    target = secrets.of(checked_text("target_element_id", target_element_id, MAX_NAME_BYTES))
    new = Related(kind, target, secrets.of_table(checked_metadata(metadata)))
    with writing(store, session_id) as (sessions, session):
        item = find_kept(sessions, session, memory_id)
        others = [one for one in item.relations if (one.relation_type, one.target_element_id) != (kind, target)]
        sessions.change(session, item, relations=(*others, new))
        sessions.log(session, "related", now, item)
    return Done(success=True, message="Relation added successfully")


# ------------------------------------------------------------------------------------------------ forgetting


@call
def forget(
    store: Store,
    session_id: str,
    instruction: str,
    now: datetime,
    mode: str = "soft",
    *,
    confirm: bool = False,
    traces: Traces = _no_traces,
) -> Forgot:
    """Forget what the instruction means: softly (hidden, first to leave), or hard (purged, never learnt again).

    A hard one takes the crystals with it that the items became. What was made of those, such as a line of MEMORY.md,
    is the owner's to erase: `traces` is asked for each text, and where it stands is in the answer. Raise
    UnsupportedInstructionError, NotFoundError for what is out of range, ConfirmRequiredError: nothing has changed.
    """
    checked_mode(mode, confirm=confirm)
    id_ = instruction.removeprefix("id:") if instruction.startswith("id:") else ""
    why = "id" if id_ else instruction  # the log keeps no id: it begins with the item's text
    texts: tuple[str, ...] = ()
    with writing(store, session_id) as (sessions, session):
        if id_:
            items = [(find_anywhere if mode == "hard" else find_in_set)(sessions, session, id_)]
        else:
            items = meant(instruction, sessions.held(session), mode)
        if mode == "soft":
            for item in items:
                sessions.change(session, item, state=State.HIDDEN, state_reason=why)
                sessions.log(session, "hidden", now, item, why)
        else:
            texts = _purge(store, sessions, session, items, why, now)
        count, tokens = sessions.fill(session)
    if texts:
        store.indexing.drop(store.crystals)
    left: Counter[str] = Counter()
    for text in texts:
        left.update(traces(store, text, now))
    done = "Forgotten for good" if mode == "hard" else "Hidden"
    message = f"{done}: {len(items)}{_advice(left)}"
    return Forgot(True, mode, tuple(item.id for item in items), count, tokens, message, dict(left))  # noqa: FBT003


def _purge(
    store: Store, sessions: Sessions, session: Session, items: Sequence[Item], why: str, now: datetime
) -> tuple[str, ...]:
    """Purge items and their crystals, and block what says the same; return the texts, without their secrets."""
    # What a note or a transcript says is compared without its secrets.
    texts = tuple(redacted(store, item.content) for item in items)
    sessions.forgotten.block_texts((*texts, *(item.content for item in items)), now)
    sessions.purge(session, items, why, now)
    digests = {crystal_digest(Origin.WORKING, text) for text in texts}.union(map(digest_of, items))
    store.crystals.remove(store.crystals.ids_of(digests).values())
    store.embedding.forget_texts()
    return texts


def _advice(left: Mapping[str, int]) -> str:
    if not left:
        return ""
    places = ", ".join(f"{place} ({count})" for place, count in sorted(left.items()))
    return f"; its words still stand in {places}: its owner erases them everywhere with 'dreamd forget TEXT'"


# ------------------------------------------------------------------------------------------------ what left


@call
def recall(store: Store, session_id: str, query: str, now: datetime, wanted: Wanted = _FIRST) -> Recalled:
    """Return what left this session and holds a word of the query, best first.

    Under the `hybrid` policy the best one comes back into the set, and makes room for itself. Raise UsageError.
    """
    checked_text("query", query)
    with reading(store, session_id) as (sessions, session):
        part = page(departed(sessions, query, session), wanted)
    back = None
    is_first = query.strip() and not wanted.cursor
    if part.items and is_first and isinstance(session.rules, Hybrid):
        back = restore(store, session_id, part.items[0].id, now)
    return Recalled(query, part.items, len(part.items), back, part.next_cursor)


@call
def restore(store: Store, session_id: str, memory_id: str, now: datetime) -> Restored:
    """Put an archived item back into the set as it was; it lives as long as a new one does.

    One that was softly forgotten is remembered again. Others may have to leave, and under some policies it may
    itself: `restored` is false then. One that is in the set already stays there. Raise NotFoundError.
    """
    with writing(store, session_id) as (sessions, before):
        item = find_anywhere(sessions, before, memory_id)
        if item.state == State.HIDDEN:
            item = sessions.restore(before, item, now)
        if item.state == State.LIVE:
            return Restored(True, item, (), *sessions.fill(before))  # noqa: FBT003
        session = sessions.open(session_id, now)
        lifetime = session.rules.lifetime(item.priority)
        expires_at = after(now, lifetime) if lifetime is not None else None
        step = max(item.step_index, session.step)
        item = sessions.restore(session, item, now, expires_at=expires_at, step_index=step)
        return Restored(*admit(store, sessions, session, item, now))
