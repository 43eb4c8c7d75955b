"""Promotion: items become crystals, in the transaction in which that is decided.

What has earned promotion still has it at the next look, so an automatic one that fails is tried again then.
"""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from daemon.observability import logs
from daemon.sessions.answers import BulkPromoted, LongTerm, PromotedOne
from daemon.sessions.call import call, find_kept, writing
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, Origin, crystal_digest
from state.crystals.salience import salience
from state.crystals.supersession import Cause, Supersession
from state.errors import AlreadyPromotedError, DreamdError, StorageError, UsageError
from state.sessions.checks import shown
from state.sessions.item import Item, promoted_id, score
from state.sessions.policies import Action, Decision, Plan
from state.signals.hormones import valence
from state.stores.crystals.neighbours import heard_before
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import explained, transaction
from state.stores.sessions.rows import Session
from state.stores.sessions.sessions import FORGOTTEN, Sessions
from state.trust import Trust, is_web, least_trust

# Relations of an item that say that what they name holds no longer.
_SUPERSEDING = frozenset(("supersedes", "replaces", "updates", "corrects"))
_FAILURES = (sqlite3.Error, OSError, DreamdError)
# What a caller may name a source in, and by which words it is a page's or a program's.
_NAMED = ("origin", "source", "tool", "trust", "url")
_OF_TOOLS = re.compile(
    r"(?<![^\W_])(?:tool|function|shell|bash|terminal|command|output|stdout|stderr|api|mcp|search|result|file|document|"
    r"pdf|database)s?(?![^\W_])",
    re.IGNORECASE,
)
_LOG = logs.get()


class Applied(NamedTuple):
    """The result of a plan: the steps that were done, and how many items were refused promotion."""

    steps: tuple[Decision, ...] = ()
    refused: int = 0

    def count(self, action: Action) -> int:
        """Return how many items this became of."""
        return sum(step.action is action for step in self.steps)


def apply_plan(store: Store, sessions: Sessions, session: Session, plan: Plan, now: datetime) -> Applied:
    """Do what a policy decided, in the caller's transaction, and log what it says.

    An item that may not be a crystal stays, or is archived where it would leave. One whose crystal cannot be written
    stays as it is.
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
                if not sessions.connection.in_transaction:  # SQLite has given everything up
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
    return Applied(tuple(done), refused)


def promote_item(
    store: Store, sessions: Sessions, session: Session, item: Item, how: str, rule: str, now: datetime
) -> str:
    """Make an item a long-term record; return why it may not be one, or "".

    `how` is auto or manual, `rule` what it was promoted by.
    """
    if why := _veto(store, sessions, item):
        last = sessions.events(session, item)[-1]
        if (last.action, last.reason) != ("refused", why):  # it is asked for at every access
            sessions.log(session, "refused", now, item, why)
        return why
    with transaction(sessions.connection):
        (crystal,) = store.crystals.known([crystal_of(store, item, now)])
        store.crystals.upsert([crystal])
        _supersede(store, sessions, session, item, crystal)
        record = {
            "promoted_from_working": "true",
            "working_memory_id": item.id,
            "working_memory_session": item.session_id,
            "promotion_reason": how,
            "access_count_at_promotion": str(item.access_count),
            "importance_at_promotion": f"{scored_at(item, session, now):g}",
        }
        new = promoted_id(item.id, now)
        sessions.change(session, item, promoted_to_id=new, promoted_at=now, promotion_reason=how, record=record)
        sessions.log(session, "promoted", now, item, rule, accesses=item.access_count)
    return ""


def scored_at(item: Item, session: Session, now: datetime) -> float:
    """Return what its use makes of an item at this moment."""
    age = (now - item.created_at).total_seconds()
    return score(item.access_count, age, item.priority, len(item.content), session.rules.lifetime(item.priority))


def _veto(store: Store, sessions: Sessions, item: Item) -> str:
    """Return why an item may not become a crystal (the kind of a secret, never the secret), or ""."""
    if not item.content.strip():
        return "it is blank"
    named = [*item.metadata.items(), *(pair for one in item.relations for pair in one.metadata.items())]
    texts = [item.content, item.session_id, *item.tags, *(f"{name}: {value}" for name, value in named)]
    texts += [one.target_element_id for one in item.relations]
    if any(map(sessions.forgotten.tombstones().found, texts)):
        return FORGOTTEN
    kinds = dict.fromkeys(kind for text in texts for kind in store.config.secrets.redaction.kinds(text))
    return f"it holds a secret ({', '.join(kinds)})" if kinds else ""


def _supersede(store: Store, sessions: Sessions, session: Session, item: Item, crystal: Crystal) -> None:
    """Record what the item supersedes by its relations: crystals, or items of its session that are crystals."""
    ids = [one.target_element_id for one in item.relations if one.relation_type.casefold() in _SUPERSEDING]
    if not ids:
        return
    older_items = (one for one in sessions.named(session, ids) if one.promoted_to_id)
    older_ids = store.crystals.ids_of(map(digest_of, older_items)).values()
    keys = store.crystals.keys([*ids, *older_ids, crystal.id])
    newer = keys.pop(crystal.id, None)
    older = store.crystals.by_keys(keys.values())
    if newer is not None:
        Supersessions(store.crystals).record(
            Supersession(key, newer, item.created_at, crystal.trust, Cause.SESSION)
            for key, one in older.items()
            if one.trust.rank <= crystal.trust.rank
        )


def digest_of(item: Item) -> str:
    """Return the digest of the crystal that an item becomes."""
    return crystal_digest(Origin.WORKING, item.content)


def crystal_of(store: Store, item: Item, now: datetime) -> Crystal:
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
        valence=valence(store.feelings.levels(now)),
        heard=heard_before(store.crystals.connection, item.created_at) if trust is Trust.AGENT else "",
    )


def trust_of(item: Item) -> Trust:
    """Return the trust of an item: the agent's, or less if its source names a tool or a web page."""
    named = [item.source, *(value for name, value in item.metadata.items() if name.casefold() in _NAMED)]
    trusts = (Trust.WEB if is_web(one, "") else Trust.TOOL if _OF_TOOLS.search(one) else Trust.AGENT for one in named)
    return least_trust([Trust.AGENT, *trusts])


@call
def promote(store: Store, session_id: str, memory_id: str, now: datetime) -> LongTerm:
    """Make an item of the set a long-term record; asked again, the same record, also when the item has left.

    Raise NotFoundError, UsageError for what may not be remembered, AlreadyPromotedError when its record was forgotten
    since, StorageError when the crystal cannot be written: the item stays unpromoted then.
    """
    with writing(store, session_id) as (sessions, session):
        item, why = find_kept(sessions, session, memory_id), ""
        if not item.promoted_to_id:
            try:
                why = promote_item(store, sessions, session, item, "manual", "manual", now)
            except _FAILURES as error:
                told = explained(error, store.workspace.database) if isinstance(error, sqlite3.Error) else error
                raise StorageError(f"memory {shown(memory_id)} is not promoted: {told}") from error
        if not why:
            return _record(store, sessions, session, memory_id)
    raise UsageError(f"memory {shown(memory_id)} is not promoted: {why}")


def _record(store: Store, sessions: Sessions, session: Session, memory_id: str) -> LongTerm:
    item = find_kept(sessions, session, memory_id)
    digest, at = digest_of(item), item.promoted_at
    crystal = store.crystals.ids_of([digest]).get(digest)
    if crystal is None or at is None:
        raise AlreadyPromotedError(
            f"memory {shown(item.id)} was promoted, and {item.promoted_to_id} was forgotten since",
            "add it anew to keep it",
        )
    metadata = item.metadata | sessions.record(session, item)
    return LongTerm(item.promoted_to_id or "", item.content, item.tags, metadata, item.relations, crystal, at)


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
