"""Changing what is in a session: how long it lives, what it is related to, and what is forgotten of it."""

from collections.abc import Mapping
from datetime import datetime

from daemon.absorbing import redacted
from daemon.compose import Store
from daemon.sessions.entry import call, in_set, known, looked_at, metadata_of, named, policy, sessions_of
from daemon.sessions.values import Done, Extended, Forgot
from state.errors import UsageError
from state.sessions.forgetting import Mode, instruction_of, meant, mode_of
from state.sessions.item import Item
from state.sessions.moments import after
from state.sessions.settings import shown
from state.stores.database import transaction
from state.stores.session_events import Deed
from state.stores.session_relations import Relation
from state.stores.session_rows import Session

_NO_METADATA: Mapping[str, str] = {}


@call
def expire(store: Store, session_id: str, memory_id: str, now: datetime) -> Done:
    """The item's time has come: the next cleanup takes it.

    Raises NotFoundError; UsageError where the policy has no time to live.
    """
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session, item = in_set(sessions, session_id, memory_id)
        _lifetime(session, item)
        sessions.items.set_expiry(session, item, now, Deed.EXPIRED, now)
    return Done(success=True, message=f"Memory expired: {memory_id}")


@call
def extend_ttl(store: Store, session_id: str, memory_id: str, now: datetime) -> Extended:
    """The item lives one more time to live, from its expiry on, or from now when that is past.

    Raises NotFoundError; UsageError where the policy has no time to live.
    """
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session, item = in_set(sessions, session_id, memory_id)
        lifetime = _lifetime(session, item)
        expires_at = after(max(now, item.expires_at or now), lifetime)
        sessions.items.set_expiry(session, item, expires_at, Deed.EXTENDED, now)
    return Extended(success=True, message=f"TTL extended for memory: {memory_id}", new_expires_at=expires_at)


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
    """The item has this relation; it is handed on when the item is promoted. Raises NotFoundError, UsageError."""
    secrets = store.config.secrets.redaction
    relation = Relation(
        named("relation_type", relation_type),
        secrets.of(named("target_element_id", target_element_id)),
        secrets.of_table(metadata_of(metadata)),
        now,
    )
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session, item = in_set(sessions, session_id, memory_id)
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
) -> Forgot:
    """Forget what the instruction means: softly (hidden, first to leave), or hard (purged, never learnt again).

    Raises UnsupportedInstructionError, NotFoundError for what is out of range, ConfirmRequiredError; nothing has
    changed then.
    """
    how = mode_of(mode, confirm=confirm)
    wanted = instruction_of(instruction)
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        _, shelf = looked_at(sessions, session_id)
        items = meant(wanted, shelf, how)
        session = known(sessions, session_id)
        assert session is not None  # it has items
        if how is Mode.SOFT:
            sessions.items.hide(session, items, instruction, now)
        else:
            # What a note or a transcript says is compared without its secrets.
            sessions.forgotten.bury((redacted(store, item.content) for item in items), now)
            sessions.items.purge(session, items, instruction, now)
        rest = sessions.shelf(session)
    done = "Forgotten for good" if how is Mode.HARD else "Hidden"
    return Forgot(
        success=True,
        mode=how.value,
        forgotten=tuple(item.id for item in items),
        count=rest.count,
        token_count=rest.tokens,
        message=f"{done}: {len(items)}",
    )


def _lifetime(session: Session, item: Item) -> float:
    lifetime = policy(session).lifetime(item)
    if lifetime is None:
        raise UsageError(
            f"session {shown(session.id)} has the {session.policy} policy, in which no memory expires",
            "'memory_forget' lets one go",
        )
    return lifetime
