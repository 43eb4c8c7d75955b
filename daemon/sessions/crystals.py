"""Crystals of sessions: promotes items, and hands items that left a session over to the next dream.

A promotion belongs to the transaction that decides it. An automatic one that fails is retried at the next look,
because the item is still eligible. An item that left becomes a crystal of the origin `working`, which the next dream
takes in like any new one; one that was evicted although protected counts as important. The rest stays in the archive.
"""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from sqlite3 import Connection

from daemon.observability import logs
from daemon.sessions.answers import BulkPromoted, LongTerm, PromotedOne
from daemon.sessions.call import find_kept, read_transaction, writing
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, Origin, crystal_digest
from state.crystals.salience import salience
from state.crystals.supersession import Cause, Supersession
from state.errors import AlreadyPromotedError, DreamdError, StorageError, UsageError
from state.secrets.policy import Redaction
from state.sessions.checks import shown
from state.sessions.item import Item, promoted_id, score
from state.sessions.policies import Action, Decision, Plan
from state.sessions.selection import visible_items
from state.signals.hormones import valence
from state.stores.crystals.crystals import Crystals, Stored
from state.stores.crystals.hormones import Feelings
from state.stores.crystals.neighbours import heard_before
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import explained, transaction
from state.stores.sessions.sessions import FORGOTTEN, Session, Sessions
from state.trust import Trust, is_web, least_trust

# Types of relations which say that their target no longer holds.
_SUPERSEDING = frozenset(("supersedes", "replaces", "updates", "corrects"))
_FAILURES = (sqlite3.Error, OSError, DreamdError)
# Keys of metadata that may name a source, and the words that mark a source as a program; `is_web` recognises pages.
_NAMED = ("origin", "source", "tool", "trust", "url")
_OF_TOOLS = re.compile(
    r"(?<![^\W_])(?:tool|function|shell|bash|terminal|command|output|stdout|stderr|api|mcp|search|result|file|document|"
    r"pdf|database)s?(?![^\W_])",
    re.IGNORECASE,
)
# The least importance of an item that a hard limit evicted although it was protected.
RESCUED = 0.9
_AT_ONCE = 50
_OPEN_SESSIONS = 20
_ENOUGH = 100
_LOG = logs.get()


def apply_plan(
    store: Store, sessions: Sessions, session: Session, plan: Plan, now: datetime
) -> tuple[list[Decision], int]:
    """Carry out a policy's plan in the caller's transaction, and log its line.

    Return the steps that were done, and how many items were refused promotion. An item that may not become a crystal
    stays, or is archived if it would leave. An item whose crystal cannot be written stays as it is.
    """
    if plan.log:
        log = {"debug": _LOG.debug, "info": _LOG.info, "warning": _LOG.warning}[plan.level]
        log("session_checked", session=session.id, policy=session.policy, said=plan.log)
    done, refused = list[Decision](), 0
    for decided in plan.steps:
        step = decided
        if step.action is Action.PROMOTE:
            try:
                why = promote_item(store, sessions, session, step.item, "auto", step.reason, now)
            except _FAILURES as error:
                if not sessions.connection.in_transaction:  # SQLite has rolled everything back
                    raise
                _LOG.warning("session_promotion_failed", error=error)
                continue
            refused += bool(why)
            if why and not step.leaves:
                continue
            step = replace(step, action=Action.ARCHIVE, reason=why) if why else step
        if step.leaves:
            action = "archived" if step.action is Action.ARCHIVE else "left"
            sessions.leave(session, step.item, step.reason, now, rescue=step.rescue, action=action)
        done.append(step)
    return done, refused


def promote_item(
    store: Store, sessions: Sessions, session: Session, item: Item, how: str, rule: str, now: datetime
) -> str:
    """Make an item a long-term record; return why it may not be one, or "".

    `how` is auto or manual, `rule` the rule that promoted it.
    """
    if why := _refusal(store.config.redaction, sessions, item):
        last = sessions.events(session, item)[-1]
        if (last.action, last.reason) != ("refused", why):  # log it once: it is requested at every access
            sessions.log(session, "refused", now, item, why)
        return why
    with transaction(sessions.connection):
        (stored,) = store.crystals.learn([crystal_of(store.connection, store.feelings, item, now)])
        _supersede(store.crystals, sessions, session, item, stored)
        record = {
            "promoted_from_working": "true",
            "working_memory_id": item.id,
            "working_memory_session": item.session_id,
            "promotion_reason": how,
            "access_count_at_promotion": str(item.access_count),
            "importance_at_promotion": f"{score_at(item, session, now):g}",
        }
        new = promoted_id(item.id, now)
        sessions.change(session, item, promoted_to_id=new, promoted_at=now, promotion_reason=how, record=record)
        sessions.log(session, "promoted", now, item, rule, accesses=item.access_count)
    return ""


def score_at(item: Item, session: Session, now: datetime) -> float:
    """Return the current computed importance of an item."""
    age = (now - item.created_at).total_seconds()
    return score(item.access_count, age, item.priority, len(item.content), session.rules.lifetime(item.priority))


def _refusal(redaction: Redaction, sessions: Sessions, item: Item) -> str:
    """Return why an item may not become a crystal, or ""; of a secret only its kind is named."""
    if not item.content.strip():
        return "it is blank"
    named = [*item.metadata.items(), *(pair for one in item.relations for pair in one.metadata.items())]
    texts = [item.content, item.session_id, *item.tags, *(f"{name}: {value}" for name, value in named)]
    texts += [one.target_element_id for one in item.relations]
    if any(map(sessions.forgotten.tombstones().found, texts)):
        return FORGOTTEN
    kinds = dict.fromkeys(kind for text in texts for kind in redaction.kinds(text))
    return f"it holds a secret ({', '.join(kinds)})" if kinds else ""


def _supersede(crystals: Crystals, sessions: Sessions, session: Session, item: Item, stored: Stored) -> None:
    """Record what an item's relations supersede: crystals, or items of its session that became crystals."""
    ids = [one.target_element_id for one in item.relations if one.relation_type.casefold() in _SUPERSEDING]
    if not ids:
        return
    older_items = (one for one in sessions.named(session, ids) if one.promoted_to_id)
    older_ids = crystals.ids_of(map(digest_of, older_items)).values()
    older, trust = crystals.by_keys(crystals.keys([*ids, *older_ids]).values()), stored.crystal.trust
    if stored.key:
        Supersessions(crystals).record(
            Supersession(key, stored.key, item.created_at, trust, Cause.SESSION)
            for key, one in older.items()
            if one.trust.rank <= trust.rank
        )


def digest_of(item: Item) -> str:
    """Return the digest of an item's crystal."""
    return crystal_digest(Origin.WORKING, item.content)


def crystal_of(connection: Connection, feelings: Feelings, item: Item, now: datetime) -> Crystal:
    """Return the crystal of an item."""
    trust = trust_of(item)
    return Crystal(
        text=item.content,
        origin=Origin.WORKING,
        created_at=item.created_at,
        kind=salience(item.content, trust).kind,
        importance=item.importance,
        trust=trust,
        context=", ".join(item.tags),
        session=item.session_id,
        position=item.seq,
        valence=valence(feelings.levels(now)),
        heard=heard_before(connection, item.created_at, item.content) if trust is Trust.AGENT else "",
    )


def trust_of(item: Item) -> Trust:
    """Return the trust of an item: the agent's, or lower if its source names a tool or a web page."""
    named = [item.source, *(value for name, value in item.metadata.items() if name.casefold() in _NAMED)]
    trusts = (Trust.WEB if is_web(one, "") else Trust.TOOL if _OF_TOOLS.search(one) else Trust.AGENT for one in named)
    return least_trust([Trust.AGENT, *trusts])


def promote(store: Store, session_id: str, memory_id: str, now: datetime) -> LongTerm:
    """Make an item of the set a long-term record; asked again, the same record, also when the item has left.

    Raise NotFoundError; UsageError if the item may not be remembered; AlreadyPromotedError if its record has been
    forgotten since; StorageError if the crystal cannot be written, in which case the item stays unpromoted.
    """
    with writing(store.connection, session_id) as (sessions, session):
        item, why = find_kept(sessions, session, memory_id), ""
        if not item.promoted_to_id:
            try:
                why = promote_item(store, sessions, session, item, "manual", "manual", now)
            except _FAILURES as error:
                told = explained(error, store.workspace.database) if isinstance(error, sqlite3.Error) else error
                raise StorageError(f"memory {shown(memory_id)} is not promoted: {told}") from error
        if not why:
            return _record(store.crystals, sessions, session, find_kept(sessions, session, memory_id))
    raise UsageError(f"memory {shown(memory_id)} is not promoted: {why}")


def _record(crystals: Crystals, sessions: Sessions, session: Session, item: Item) -> LongTerm:
    digest, at = digest_of(item), item.promoted_at
    crystal = crystals.ids_of([digest]).get(digest)
    if crystal is None or at is None:
        raise AlreadyPromotedError(
            f"memory {shown(item.id)} was promoted, and {item.promoted_to_id} was forgotten since",
            "add it anew to keep it",
        )
    metadata = item.metadata | sessions.record(session, item)
    return LongTerm(item.promoted_to_id or "", item.content, item.tags, metadata, item.relations, crystal, at)


def bulk_promote(store: Store, session_id: str, memory_ids: Sequence[str], now: datetime) -> BulkPromoted:
    """Promote each of these, in order; a failure does not stop the others."""
    results = []
    for memory_id in memory_ids:
        try:
            record = promote(store, session_id, memory_id, now)
            results.append(PromotedOne(memory_id, success=True, long_term_id=record.id))
        except DreamdError as error:
            results.append(PromotedOne(memory_id, success=False, error=str(error), code=error.code))
    done = sum(result.success for result in results)
    return BulkPromoted(done, len(results) - done, tuple(results))


# ------------------------------------------------------------------------------------------------ for dreams


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An item of an open session as a dream may see it: without secrets."""

    text: str
    importance: float
    trust: Trust
    created_at: datetime


def hand_over(store: Store, now: datetime) -> int:
    """Make crystals of items that left a session and were not handed over yet, items evicted by a hard limit first.

    Return how many were new. Softly or permanently forgotten items are not among them.
    """
    sessions, done = Sessions(store.connection), 0
    version = store.lineage.last_version()
    while True:
        # Crystals and mark are one transaction: a kill repeats the batch, but never skips one.
        with transaction(sessions.connection):
            items = sessions.undreamt(_AT_ONCE)
            learnt = store.crystals.learn(
                replace(
                    crystal_of(store.connection, store.feelings, item, now),
                    text=store.config.redaction.of(item.content),
                    session=store.config.redaction.of(item.session_id),
                    importance=max(RESCUED, item.importance) if rescue else item.importance,
                )
                for item, rescue in items
                if item.content.strip()
            )
            done += sum(one.is_new for one in learnt)
            sessions.mark_dreamt((item for item, _ in items), version)
        if not items:
            return done


def waiting_count(connection: Connection) -> int:
    """Return how many items wait to be handed over, counted up to a hundred."""
    return Sessions(connection).undreamt_count(_ENOUGH)


def open_items(connection: Connection, redaction: Redaction, now: datetime, limit: int) -> tuple[OpenItem, ...]:
    """Return at most `limit` items of the open sessions, the most important first, then the oldest.

    Leave out items that are long-term records already, hidden, expired, or permanently forgotten.
    """
    sessions, items = Sessions(connection), list[Item]()
    with read_transaction(connection):
        for session in sessions.open_ones(_OPEN_SESSIONS):
            items += (item for item in visible_items(sessions.held(session), now) if not item.promoted_to_id)
    items.sort(key=lambda item: (-item.importance, item.created_at, item.id))
    chosen = islice((item for item in items if not sessions.forgotten.holds(item.content)), limit)
    return tuple(
        OpenItem(redaction.of(item.content), item.importance, trust_of(item), item.created_at) for item in chosen
    )
