"""Promotion: which items may become crystals, and their delivery from the outbox.

A promotion is written with its item in one transaction; delivering it is another one. A kill between the two leaves
it in the outbox, and the next delivery writes the crystal: its id is made of the content, so it is written once.
"""

import re
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime

from daemon.observability import logs
from daemon.sessions.answers import BulkPromoted, LongTerm, PromotedOne, related
from daemon.sessions.call import call, find_kept, sessions_of
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, Origin
from state.crystals.salience import salience
from state.crystals.supersession import Cause, Supersession
from state.errors import AlreadyPromotedError, DreamdError, StorageError, UsageError
from state.sessions.item import Item, State
from state.sessions.policies.settings import shown
from state.signals.hormones import valence
from state.stores.crystals.neighbours import heard_before
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import explained, transaction
from state.stores.sessions.apply import MANUAL, put_in_outbox
from state.stores.sessions.events import EventKind
from state.stores.sessions.items import FORGOTTEN
from state.stores.sessions.outbox import Promotion
from state.stores.sessions.relations import Relation
from state.stores.sessions.rows import Session, key_of
from state.stores.sessions.sessions import Sessions
from state.trust import Trust, is_web, least_trust

# Relations of an item that say that what they name holds no longer.
_SUPERSEDING = frozenset(("supersedes", "replaces", "updates", "corrects"))
_BATCH = 64
_FAILURES = (sqlite3.Error, OSError, DreamdError)
# What a caller may name a source in, and by which words it is a page's or a program's.
_NAMED = ("origin", "source", "tool", "trust", "url")
_OF_TOOLS = re.compile(
    r"(?<![^\W_])(?:tool|function|shell|bash|terminal|command|output|stdout|stderr|api|mcp|search|result|file|document|"
    r"pdf|database)s?(?![^\W_])",
    re.IGNORECASE,
)
_LOG = logs.get()


def promotion_veto(store: Store, sessions: Sessions) -> Callable[[Item, Sequence[Relation]], str]:
    """A function that says why an item may not become a crystal (the kind of a secret, never the secret), or ""."""
    secrets = store.config.secrets.redaction

    def veto(item: Item, relations: Sequence[Relation]) -> str:
        if not item.content.strip():
            return "it is blank"
        texts = _texts(item, relations)
        if any(map(sessions.forgotten.tombstones().found, texts)):
            return FORGOTTEN
        kinds = dict.fromkeys(kind for text in texts for kind in secrets.kinds(text))
        return f"it holds a secret ({', '.join(kinds)})" if kinds else ""

    return veto


@call
def promote(store: Store, session_id: str, memory_id: str, now: datetime) -> LongTerm:
    """Make an item of the set a long-term record; asked again, the same record, also when the item has left.

    Raises NotFoundError, UsageError for what may not be remembered, AlreadyPromotedError when its record was
    forgotten since, StorageError when it cannot be delivered: the item stays unpromoted then.
    """
    sessions = sessions_of(store)
    with transaction(sessions.connection):
        session, item = find_kept(sessions, session_id, memory_id)
        waited = sessions.outbox.of(session, item)
        if waited is None:
            why = put_in_outbox(sessions, session, item, MANUAL, MANUAL, now, promotion_veto(store, sessions))
        promotion = waited or sessions.outbox.of(session, item)
    if promotion is None:
        raise UsageError(f"memory {shown(memory_id)} is not promoted: {why}")
    if promotion.delivered_at is None:
        _deliver_now(store, sessions, session, item, promotion, now, ours=waited is None)
    return _record(store, item, promotion, sessions.relations.of(session, [item]).get(item.seq, ()))


@call
def bulk_promote(store: Store, session_id: str, memory_ids: Sequence[str], now: datetime) -> BulkPromoted:
    """Promote each of these, in this order; one that fails does not keep the others."""
    results = []
    for memory_id in memory_ids:
        try:
            record = promote(store, session_id, memory_id, now)
            results.append(PromotedOne(memory_id, success=True, long_term_id=record.id))
        except DreamdError as error:
            results.append(PromotedOne(memory_id, success=False, error=str(error), code=error.code))
    done = sum(result.success for result in results)
    return BulkPromoted(done, len(results) - done, tuple(results))


@call
def deliver(store: Store, now: datetime) -> int:
    """Make crystals of what waits in the outbox; returns how many. Doing it twice is doing it once.

    Raises StorageError when some could not be written: they wait, the others are crystals.
    """
    sessions = sessions_of(store)
    done, after, failure = 0, -1, None
    while batch := sessions.outbox.waiting(_BATCH, after):
        after = batch[-1][0]
        try:
            with transaction(sessions.connection):
                done += sum(_write(store, sessions, key, promotion, now) for key, promotion in batch)
        except _FAILURES:
            for key, promotion in batch:  # one that fails does not keep the others
                try:
                    with transaction(sessions.connection):
                        done += _write(store, sessions, key, promotion, now)
                except _FAILURES as error:
                    failure = error
    if failure is not None:
        waiting, _ = sessions.outbox.counts()
        raise StorageError(f"{waiting} promoted items wait to be crystals: {_message(store, failure)}") from failure
    return done


def deliver_soon(store: Store, now: datetime) -> None:
    """Like `deliver`, for a call that was about something else: a failure is logged, and maintenance tries again."""
    try:
        deliver(store, now)
    except StorageError as error:
        _LOG.warning("session_delivery_failed", error=error)


def _deliver_now(
    store: Store, sessions: Sessions, session: Session, item: Item, promotion: Promotion, now: datetime, *, ours: bool
) -> None:
    """Somebody waits for it. When it fails, a promotion that was asked for here is taken back."""
    try:
        with transaction(sessions.connection):
            _write(store, sessions, key_of(session, item), promotion, now)
    except _FAILURES as error:
        reason = _message(store, error)
        if ours:
            try:
                with transaction(sessions.connection):
                    sessions.outbox.withdraw([key_of(session, item)])
                    sessions.events.add(
                        session, EventKind.WITHDRAWN, now, [(item.seq, "the long-term memory failed", {})]
                    )
            except sqlite3.Error:
                reason += " (it is tried again with the next maintenance)"
        raise StorageError(f"memory {shown(item.id)} is not promoted: {reason}") from error


def _write(store: Store, sessions: Sessions, key: int, promotion: Promotion, now: datetime) -> bool:
    """Write one crystal in the caller's transaction; False when it was written before, or was forgotten since."""
    if not sessions.outbox.delivered(key, now):
        return False
    session, item = sessions.in_row(key)
    if sessions.forgotten.holds(item.content):  # since it was promoted
        sessions.outbox.withdraw([key])
        sessions.events.add(session, EventKind.REFUSED, now, [(item.seq, FORGOTTEN, {})])
        if item.state is State.ARCHIVED:  # with what is forgotten in it
            sessions.items.archive_rest(session, item, FORGOTTEN, now)
        return False
    crystal = crystal_of(store, item, now)
    store.crystals.upsert([crystal])
    sessions.items.promoted(session, item, promotion, now)
    _supersede(store, sessions, session, item, crystal)
    return True


def _supersede(store: Store, sessions: Sessions, session: Session, item: Item, crystal: Crystal) -> None:
    """Record what the item supersedes by its relations: crystals, or items of its session that are crystals."""
    relations = sessions.relations.of(session, [item]).get(item.seq, ())
    ids = [one.target for one in relations if one.type.casefold() in _SUPERSEDING]
    items = [found for id_ in ids if (found := sessions.items.find(session, id_)) is not None]
    promoted = [waited.crystal for one in items if (waited := sessions.outbox.of(session, one)) is not None]
    keys = store.crystals.keys([*ids, *promoted, crystal.id])
    newer = keys.pop(crystal.id, None)
    older = store.crystals.by_keys(keys.values())
    if newer is not None:
        Supersessions(store.crystals).record(
            Supersession(key, newer, item.created_at, crystal.trust, Cause.SESSION)
            for key, one in older.items()
            if one.trust.rank <= crystal.trust.rank
        )


def trust_of(item: Item) -> Trust:
    """The trust of an item: the agent's, or less when its source names a tool or a web page."""
    sources = [item.source, *(value for name, value in item.metadata.items() if name.casefold() in _NAMED)]
    trusts = [
        Trust.WEB if is_web(one, "") else Trust.TOOL for one in sources if is_web(one, "") or _OF_TOOLS.search(one)
    ]
    return least_trust([Trust.AGENT, *trusts])


def crystal_of(store: Store, item: Item, now: datetime) -> Crystal:
    """The crystal of an item."""
    trust = trust_of(item)
    return Crystal(
        text=item.content,
        origin=Origin.WORKING,
        created_at=item.created_at,
        kind=salience(item.content, trust).kind,
        importance=item.importance,
        trust=trust,
        context=", ".join(item.tags),
        session=item.session,
        position=item.seq,
        valence=valence(store.feelings.levels(now)),
        heard=heard_before(store.crystals.connection, item.created_at) if trust is Trust.AGENT else "",
    )


def _record(store: Store, item: Item, promotion: Promotion, relations: Sequence[Relation]) -> LongTerm:
    if not store.crystals.get([promotion.crystal]):
        raise AlreadyPromotedError(
            f"memory {shown(item.id)} was promoted, and {promotion.id} was forgotten since", "add it anew to keep it"
        )
    return LongTerm(
        id=promotion.id,
        content=item.content,
        tags=item.tags,
        metadata=dict(promotion.metadata),
        relations=related(relations),
        crystal_id=promotion.crystal,
        created_at=promotion.at,
    )


def _texts(item: Item, relations: Sequence[Relation]) -> list[str]:
    named = [*item.metadata.items(), *(pair for one in relations for pair in one.metadata.items())]
    return [
        item.content,
        item.session,
        *item.tags,
        *(f"{name}: {value}" for name, value in named),
        *(one.target for one in relations),
    ]


def _message(store: Store, error: Exception) -> str:
    return str(explained(error, store.workspace.database)) if isinstance(error, sqlite3.Error) else str(error)
