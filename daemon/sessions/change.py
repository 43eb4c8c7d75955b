"""Change: expires, extends, reassesses, relates and forgets the items of a session."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime

from daemon.sessions.answers import Done, Extended, Forgot, Memory, memory_of
from daemon.sessions.call import (
    call,
    checked_name,
    find_anywhere,
    find_in_set,
    find_kept,
    find_session,
    metadata_of,
    policy,
    policy_and_items,
    sessions_of,
)
from daemon.workspace.redaction import redacted
from daemon.workspace.stores import Store
from state.crystals.crystal import Origin, crystal_id
from state.errors import UsageError
from state.sessions.forgetting import Instruction, Mode, OfId, instruction_of, mode_of, selected_items
from state.sessions.importance import assigned
from state.sessions.item import Item
from state.sessions.policies.settings import shown
from state.sessions.policies.ttl import Ttl
from state.stores.database.connection import transaction
from state.stores.sessions.events import EventKind
from state.stores.sessions.relations import Relation
from state.stores.sessions.rows import Session
from state.stores.sessions.sessions import Sessions

_NO_METADATA: Mapping[str, str] = {}
# Where a text stands beside working memory, and how often.
Traces = Callable[[Store, str, datetime], Mapping[str, int]]


def _no_traces(_: Store, __: str, ___: datetime) -> Mapping[str, int]:
    return {}


@call
def expire(store: Store, session_id: str, memory_id: str, now: datetime) -> Done:
    """The item's time has come: the next cleanup takes it.

    Raises NotFoundError; UsageError where the policy has no time to live.
    """
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session, item = find_in_set(sessions, session_id, memory_id)
        _ttl_policy(session)
        sessions.items.set_expiry(session, item, now, EventKind.EXPIRED, now)
    return Done(success=True, message=f"Memory expired: {memory_id}")


@call
def extend_ttl(store: Store, session_id: str, memory_id: str, now: datetime) -> Extended:
    """The item lives one more time to live, from its expiry on, or from now when that is past.

    Raises NotFoundError; UsageError where the policy has no time to live.
    """
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session, item = find_in_set(sessions, session_id, memory_id)
        expires_at = _ttl_policy(session).extended(item, now)
        sessions.items.set_expiry(session, item, expires_at, EventKind.EXTENDED, now)
    return Extended(success=True, message=f"TTL extended for memory: {memory_id}", new_expires_at=expires_at)


@call
def reassess(store: Store, session_id: str, memory_id: str, importance: float | str, now: datetime) -> Memory:
    """The item matters so much from now on. Raises NotFoundError, UsageError."""
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session, item = find_in_set(sessions, session_id, memory_id)
        item = sessions.items.reassess(session, item, assigned(item.priority, importance), now)
        return memory_of(item, sessions.relations.of(session, [item]).get(item.seq, ()))


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
    """The item has this relation, and so has the long-term record that it is. Raises NotFoundError, UsageError."""
    secrets = store.config.secrets.redaction
    relation = Relation(
        checked_name("relation_type", relation_type),
        secrets.of(checked_name("target_element_id", target_element_id)),
        secrets.of_table(metadata_of(metadata)),
        now,
    )
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session, item = find_kept(sessions, session_id, memory_id)
        sessions.relations.add(session, item, relation)
    return Done(success=True, message="Relation added successfully")


@call
def forget(
    store: Store,
    session_id: str,
    instruction: str,
    now: datetime,
    mode: str = Mode.SOFT.value,
    *,
    confirm: bool = False,
    traces: Traces = _no_traces,
) -> Forgot:
    """Forget what the instruction means: softly (hidden, first to leave), or hard (purged, never learnt again).

    A hard one takes the crystals with it that the items became. What was made of those, such as a line of MEMORY.md,
    is the owner's to erase: `traces` is asked for each text, and where it stands is in the answer. Raises
    UnsupportedInstructionError, NotFoundError for what is out of range, ConfirmRequiredError: nothing has changed.
    """
    how = mode_of(mode, confirm=confirm)
    wanted = instruction_of(instruction)
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        items = _selected(sessions, session_id, wanted, how)
        session = find_session(sessions, session_id)
        assert session is not None  # it has items
        texts: tuple[str, ...] = ()
        if how is Mode.SOFT:
            sessions.items.hide(session, items, _recorded(instruction), now)
        else:
            texts = _purge(store, sessions, session, items, instruction, now)
        rest = sessions.view(session)
    if texts:
        store.indexing.drop(store.crystals)
    left: Counter[str] = Counter()
    for text in texts:
        left.update(traces(store, text, now))
    done = "Forgotten for good" if how is Mode.HARD else "Hidden"
    return Forgot(
        success=True,
        mode=how.value,
        forgotten=tuple(item.id for item in items),
        count=rest.count,
        token_count=rest.tokens,
        message=f"{done}: {len(items)}{_advice(left)}",
        left=dict(left),
    )


def _selected(sessions: Sessions, session_id: str, wanted: Instruction, how: Mode) -> tuple[Item, ...]:
    if not isinstance(wanted, OfId):
        return selected_items(wanted, policy_and_items(sessions, session_id)[1], how)
    find = find_anywhere if how is Mode.HARD else find_in_set
    return (find(sessions, session_id, wanted.id)[1],)


def _purge(
    store: Store, sessions: Sessions, session: Session, items: tuple[Item, ...], instruction: str, now: datetime
) -> tuple[str, ...]:
    """Items, their crystals, and nothing that says the same is learnt; returns the texts, without their secrets."""
    texts = tuple(redacted(store, item.content) for item in items)
    promotions = [sessions.outbox.of(session, item) for item in items]
    crystals = {crystal_id(Origin.WORKING, text) for text in texts} | {one.crystal for one in promotions if one}
    # What a note or a transcript says is compared without its secrets.
    sessions.forgotten.block_texts(texts, now)
    sessions.items.purge(session, items, _recorded(instruction), now)
    store.crystals.remove(crystals)
    store.embedding.forget_texts()
    return texts


def _recorded(instruction: str) -> str:
    """As the event log may keep it: the id of an item begins with its text."""
    return "id" if isinstance(instruction_of(instruction), OfId) else instruction


def _advice(left: Mapping[str, int]) -> str:
    if not left:
        return ""
    places = ", ".join(f"{place} ({count})" for place, count in sorted(left.items()))
    return f"; its words still stand in {places}: its owner erases them everywhere with 'dreamd forget TEXT'"


def _ttl_policy(session: Session) -> Ttl:
    """The policy of the session. Raises UsageError where no memory expires."""
    decides = policy(session)
    if not isinstance(decides, Ttl):
        raise UsageError(
            f"session {shown(session.id)} has the {session.policy} policy, in which no memory expires",
            "'memory_forget' lets one go",
        )
    return decides
