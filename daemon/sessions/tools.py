"""Session tools: add, get, list, search, summarize, change, forget and recall the items of a session.

An item is stored, and its policy decides what leaves for it, in one transaction. Only `get` counts as an access.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from operator import attrgetter
from sqlite3 import Connection
from typing import Literal

from daemon.sessions import answers
from daemon.sessions.call import find_anywhere, find_in_set, find_kept, reading, writing
from daemon.sessions.crystals import apply_plan, crystal_of, digest_of, score_at
from daemon.workspace.stores import Store
from state.crystals.crystal import Origin, crystal_digest
from state.errors import ConfirmRequiredError, ExpiredError, UsageError
from state.search.ranking import Filters as SearchFilters
from state.secrets.policy import Redaction
from state.sessions import selection
from state.sessions.checks import MAX_CONTENT_BYTES, shown
from state.sessions.item import PLACES, WEIGHTS, Item, Related, State, after, hash_of, tokens_of, working_id
from state.sessions.page import page
from state.sessions.policies import Bounded, Hybrid, Plan, Ttl, View
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.hormones import Feelings
from state.stores.database.moments import to_text
from state.stores.disk.workspace import Workspace
from state.stores.history.originals import Originals
from state.stores.sessions.sessions import IN_SET, Session, Sessions

_LEAVERS = 5
_KEPT = f"({IN_SET} OR promoted_to_id IS NOT NULL)"
_NO_METADATA: Mapping[str, str] = {}
_NO_FILTERS = selection.Filters()
_by_age = attrgetter("created_at", "id")
# Which items of a session a list has.
Which = Literal["set", "expired", "kept", "promoted", "left"]
# Returns the places beside working memory that contain a text, with the number of occurrences.
Traces = Callable[[Store, str, datetime], Mapping[str, int]]


# ------------------------------------------------------------------------------------------------ adding


@dataclass(frozen=True, slots=True)
class Draft:
    """An item to be stored. None means: importance by priority, the session's step, tokens counted.

    Under `bounded`, which measures age in steps, a new item starts a new step unless one is given.
    """

    content: str
    priority: str = "medium"
    tags: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    agent_id: str = ""
    source: str = ""
    importance: float | None = None
    step_index: int | None = None
    token_count: int | None = None


def add(store: Store, session_id: str, draft: Draft, now: datetime) -> answers.Added:
    """Store a new item, durable when this returns, and say what left to make room for it. Raise UsageError."""
    done = memorize(store, session_id, draft, now)
    return answers.extended(answers.Added, done.memory, stored=done.stored, evicted=done.evicted)


def memorize(store: Store, session_id: str, draft: Draft, now: datetime) -> answers.Memorized:
    """Store a new item as `add` does; the reply also has its position and how full the session is."""
    new = _item(store.workspace, store.config.redaction, session_id, draft, now)
    with writing(store.connection, session_id) as (sessions, before):
        refuse_secret(store.config.redaction, before)
        session = sessions.open(session_id, now)
        rules = session.rules
        _, most = rules.limits
        if most is not None and new.token_count > most:
            problem = f"content: it has {new.token_count} tokens and the session holds {most}"
            raise UsageError(problem, "nothing was evicted for it")
        lifetime = rules.lifetime(new.priority)
        step = new.step_index if draft.step_index is not None else session.step + isinstance(rules, Bounded)
        new = replace(new, step_index=step, expires_at=None if lifetime is None else after(now, lifetime))
        new = sessions.add(session, replace(new, importance_score=score_at(new, session, now)))
        done = _admit(store, sessions, replace(session, step=max(step, session.step)), new, now)
    position = done.count - 1 if done.restored else None  # every other item is older
    return answers.Memorized(done.restored, done.memory, position, done.evicted, done.count, done.token_count)


def _admit(store: Store, sessions: Sessions, session: Session, item: Item, now: datetime) -> answers.Restored:
    """Let the policy make room for an item that is in the set now, in the caller's transaction."""
    rules, fill = session.rules, sessions.fill(session)
    plan = rules.admit(sessions.view(session, now), item.id) if rules.is_full(*fill) else Plan(log=rules.fits(*fill))
    steps, _ = apply_plan(store, sessions, session, plan, now)
    if session.due_at is None and rules.tick_seconds is not None:
        sessions.change_session(session, due_at=after(now, rules.tick_seconds))
    if steps:
        item, fill = sessions.item(session, item.id) or item, sessions.fill(session)
    kept = item.state not in (State.ARCHIVED, State.PURGED)
    return answers.Restored(kept, item, tuple(answers.Departure.of(step) for step in steps if step.leaves), *fill)


def _item(workspace: Workspace, redaction: Redaction, session_id: str, draft: Draft, now: datetime) -> Item:
    """Return the draft as an item without a number and without secrets. Raise UsageError if it is too long."""
    if (size := len(draft.content.encode())) > MAX_CONTENT_BYTES:
        raise UsageError(f"content: it has {size} bytes and may have {MAX_CONTENT_BYTES}", "give a shorter one")
    content = Originals(workspace).redacted(draft.content, redaction, "session", now)
    return Item(
        id=working_id(session_id, content, now),
        session_id=session_id,
        content=content,
        priority=draft.priority,
        expires_at=None,
        created_at=now,
        access_count=1,
        importance_score=0.0,
        tags=tuple(dict.fromkeys(map(redaction.of, draft.tags))),
        metadata=redaction.of_table(dict(draft.metadata)),
        agent_id=redaction.of(draft.agent_id),
        source=redaction.of(draft.source),
        seq=-1,
        importance=WEIGHTS[draft.priority] if draft.importance is None else draft.importance,
        token_count=tokens_of(content) if draft.token_count is None else draft.token_count,
        step_index=draft.step_index or 0,
        last_accessed_at=now,
        content_hash=hash_of(content),
    )


def refuse_secret(redaction: Redaction, session: Session) -> None:
    """Raise UsageError if the id of a new session contains a secret: ids are shown, sent and searched."""
    if not session.is_known and (kinds := redaction.kinds(session.id)):
        raise UsageError(f"session_id: it holds a secret ({', '.join(kinds)})", "give the session another name")


# ------------------------------------------------------------------------------------------------ reading


def get(store: Store, session_id: str, memory_id: str, now: datetime) -> Item:
    """Return one item, its access counted, which may promote it.

    No access is counted for an item that left the set as a long-term record. Raise NotFoundError, and ExpiredError
    without counting.
    """
    with writing(store.connection, session_id) as (sessions, session):
        item = find_kept(sessions, session, memory_id)
        if item.state == State.ARCHIVED:
            return item
        if item.is_expired(now):
            raise ExpiredError(
                f"memory {shown(memory_id)} expired at {item.expires_at}", "'working_memory_extend_ttl' revives it"
            )
        accesses = item.access_count + 1
        score = score_at(replace(item, access_count=accesses), session, now)
        item = sessions.change(session, item, access_count=accesses, last_accessed_at=now, importance_score=score)
        earned = session.rules.earned(View([item], session.step, now))
        apply_plan(store, sessions, session, Plan(earned), now)
        return (sessions.item(session, item.id) or item) if earned else item


def list_memories(
    connection: Connection,
    session_id: str,
    now: datetime,
    which: Which = "set",
    *,
    include_expired: bool = False,
    include_promoted: bool = False,
    limit: int | None = None,
    cursor: str = "",
) -> answers.Memories:
    """Return the set by age, without expired and promoted items.

    `which` else: what of the set has `expired` and waits for the cleanup; the whole set and what left it as a
    long-term record (`kept`), or of these what is `promoted`; what `left` and can be restored, the latest first.
    """
    with reading(connection, session_id) as (sessions, session):
        if which == "left":
            return answers.Memories.of(session_id, sessions.archived((), session), limit, cursor)
        items = sessions.items(session, IN_SET if which in ("set", "expired") else _KEPT)
    passes: dict[Which, Callable[[Item], bool]] = {
        "set": _included(now, include_expired, include_promoted),
        "expired": lambda item: item.is_expired(now),
        "promoted": lambda item: item.promoted_to_id is not None,
        "kept": lambda _: True,
    }
    return answers.Memories.of(session_id, sorted(filter(passes[which], items), key=_by_age), limit, cursor)


def list_pending(
    connection: Connection, session_id: str, now: datetime, limit: int | None = None, cursor: str = ""
) -> answers.Pending:
    """Return what would be promoted at its next access or cleanup."""
    with reading(connection, session_id) as (sessions, session):
        earned = session.rules.earned(sessions.view(session, now))
    part, following = page(sorted((step.item for step in earned), key=_by_age), limit, cursor)
    items = tuple(answers.extended(answers.Eligible, one) for one in part)
    return answers.Pending(items, len(items), session_id, following)


def _included(now: datetime, expired: bool, promoted: bool) -> Callable[[Item], bool]:  # noqa: FBT001
    return lambda item: (expired or not item.is_expired(now)) and (promoted or not item.promoted_to_id)


def search(
    connection: Connection,
    session_id: str,
    now: datetime,
    query: str = "",
    tags: Sequence[str] = (),
    priority: str | None = None,
    *,
    include_expired: bool = False,
    include_promoted: bool = False,
    limit: int | None = None,
    cursor: str = "",
) -> answers.SearchResult:
    """Return the items whose content holds the query in any case, with any of the tags, the most relevant first."""
    passes = _included(now, include_expired, include_promoted)
    with reading(connection, session_id) as (sessions, session):
        items = sessions.holding(session, query)
    found = [
        answers.extended(answers.Relevant, item, relevance_score=relevant)
        for item in items
        if passes(item)
        and (not tags or not set(tags).isdisjoint(item.tags))
        and priority in (None, item.priority)
        and (relevant := selection.relevance(item, query)) is not None
    ]
    found.sort(key=lambda one: (-one.relevance_score, one.created_at, one.id))
    part, following = page(found, limit, cursor)
    return answers.SearchResult(part, len(part), query, following)


def remember(
    connection: Connection,
    session_id: str,
    now: datetime,
    prompt: str = "",
    filters: selection.Filters = _NO_FILTERS,
    limit: int | None = None,
    cursor: str = "",
) -> answers.Memories:
    """Return what the prompt is about (empty: everything), by importance, then the newest; nothing hidden or expired.

    Raise UsageError.
    """
    about = selection.is_about(prompt)
    with reading(connection, session_id) as (sessions, session):
        items = selection.visible_items(sessions.held(session), now)
    return answers.Memories.of(session_id, (one for one in items if filters.let(one) and about(one)), limit, cursor)


def summarize(
    connection: Connection, session_id: str, now: datetime, scope: str = "all", token_limit: int = 500
) -> answers.Summary:
    """Summarize the items of the scope (all, recent, important, by_tag:x) within the limit, in whole sentences.

    The same session gives the same summary. Raise UsageError.
    """
    with reading(connection, session_id) as (sessions, session):
        items = sessions.held(session)
    bounded = rules if isinstance(rules := session.rules, Bounded) else Bounded()
    made = selection.summary_of(items, scope, token_limit, session.step, bounded, now)
    return answers.Summary(made.text, made.token_count, tuple(item.id for item in made.items), scope)


def context(
    connection: Connection, session_id: str, now: datetime, strategy: str = "balanced", max_tokens: int | None = None
) -> answers.WorkingContext:
    """Return items in the strategy's order (recent, important, balanced), up to the first that does not fit.

    Without a number of tokens the whole session's are taken.
    """
    with reading(connection, session_id) as (sessions, session):
        made = selection.context_of(sessions.held(session), strategy, max_tokens, now)
    return answers.WorkingContext(made.text, made.token_count, tuple(item.id for item in made.items), strategy)


def stats(connection: Connection, session_id: str, now: datetime) -> answers.SessionStats:
    """Return how a session stands."""
    with reading(connection, session_id) as (sessions, session):
        view, rules = sessions.view(session, now), session.rules
    items, count = view.items, view.count
    expired = sum(item.is_expired(now) for item in items)
    return answers.SessionStats(
        session_id=session_id,
        total_count=count,
        active_count=count - expired,
        expired_count=expired,
        hidden_count=count - len(view.live),
        promoted_count=sum(item.promoted_to_id is not None for item in items),
        pending_promotion=len(rules.earned(view)),
        avg_access_count=round(sum(item.access_count for item in items) / max(1, count), PLACES),
        avg_importance=round(sum(item.importance_score for item in items) / max(1, count), PLACES),
        by_priority={**dict.fromkeys(WEIGHTS, 0), **Counter(item.priority for item in items)},
        step=view.step,
        capacity=answers.Capacity.of(session, count, view.tokens),
        next_to_leave=tuple(
            answers.Leaver(one.item.id, one.action.value, one.reason) for one in islice(rules.order(view), _LEAVERS)
        ),
    )


def preview(
    connection: Connection, session_id: str, now: datetime, limit: int | None = 10, cursor: str = ""
) -> answers.Preview:
    """Return who would leave next, in order, with why; nothing leaves."""
    with reading(connection, session_id) as (sessions, session):
        order = session.rules.order(sessions.view(session, now))
    part, following = page(order, limit, cursor, attrgetter("item.id"), attrgetter("item.content"))
    return answers.Preview(session_id, tuple(map(answers.Departure.of, part)), following)


# ------------------------------------------------------------------------------------------------ changing


def expire(connection: Connection, session_id: str, memory_id: str, now: datetime) -> answers.Done:
    """Let the item's time be over: the next cleanup takes it.

    Raise NotFoundError; UsageError if items do not expire under this policy.
    """
    with writing(connection, session_id) as (sessions, session):
        item = find_in_set(sessions, session, memory_id)
        _ttl_policy(session)
        sessions.change(session, item, expires_at=now)
        sessions.log(session, "expired", now, item, expires_at=to_text(now))
    return answers.Done(success=True, message=f"Memory expired: {memory_id}")


def extend_ttl(connection: Connection, session_id: str, memory_id: str, now: datetime) -> answers.Extended:
    """Let the item live one more time to live, from its expiry on, or from now when that is past.

    Raise NotFoundError; UsageError if items do not expire under this policy.
    """
    with writing(connection, session_id) as (sessions, session):
        item = find_in_set(sessions, session, memory_id)
        lifetime = _ttl_policy(session).lifetime(item.priority) or 0.0
        expires_at = after(max(now, item.expires_at or now), lifetime)
        sessions.change(session, item, expires_at=expires_at)
        sessions.log(session, "extended", now, item, expires_at=to_text(expires_at))
    message = f"TTL extended for memory: {memory_id}"
    return answers.Extended(success=True, message=message, new_expires_at=expires_at)


def _ttl_policy(session: Session) -> Ttl:
    """Return the policy of the session. Raise UsageError if items do not expire under it."""
    if not isinstance(rules := session.rules, Ttl):
        policy = f"session {shown(session.id)} has the {session.policy} policy, in which no memory expires"
        raise UsageError(policy, "'memory_forget' lets one go")
    return rules


def reassess(connection: Connection, session_id: str, memory_id: str, importance: float, now: datetime) -> Item:
    """Set how much the item matters from now on. Raise NotFoundError."""
    with writing(connection, session_id) as (sessions, session):
        item = find_in_set(sessions, session, memory_id)
        sessions.log(session, "reassessed", now, item, before=item.importance, importance=importance)
        return sessions.change(session, item, importance=importance)


def relation_add(
    store: Store,
    session_id: str,
    memory_id: str,
    relation_type: str,
    target_element_id: str,
    now: datetime,
    metadata: Mapping[str, str] = _NO_METADATA,
) -> answers.Done:
    """Relate the item, and the long-term record that it is, to something else. Raise NotFoundError.

    A relation of this type to the same target is replaced.
    """
    secrets = store.config.redaction
    new = Related(relation_type, secrets.of(target_element_id), secrets.of_table(dict(metadata)))
    named = (new.relation_type, new.target_element_id)
    with writing(store.connection, session_id) as (sessions, session):
        item = find_kept(sessions, session, memory_id)
        others = [one for one in item.relations if (one.relation_type, one.target_element_id) != named]
        sessions.change(session, item, relations=(*others, new))
        sessions.log(session, "related", now, item)
    return answers.Done(success=True, message="Relation added successfully")


def forget(
    store: Store,
    session_id: str,
    instruction: str,
    now: datetime,
    mode: str = "soft",
    *,
    confirm: bool = False,
    traces: Traces = lambda *_: {},
) -> answers.Forgot:
    """Forget what the instruction means: softly (hidden, first to leave), or hard (purged, never learnt again).

    A hard one also removes the crystals that the items became. Texts made from those, such as a line of MEMORY.md,
    are the owner's to erase: `traces` is called for each text, and the reply says where it remains. Raise
    UnsupportedInstructionError, NotFoundError if nothing is selected, ConfirmRequiredError: nothing has changed.
    """
    if mode == "hard" and not confirm:
        raise ConfirmRequiredError("mode 'hard' removes for good", "say confirm=true, or use mode 'soft'")
    id_ = instruction.removeprefix("id:") if instruction.startswith("id:") else ""
    why = "id" if id_ else instruction  # the log keeps no id, because that begins with the item's text
    texts: tuple[str, ...] = ()
    with writing(store.connection, session_id) as (sessions, session):
        if id_:
            items = [(find_anywhere if mode == "hard" else find_in_set)(sessions, session, id_)]
        else:
            items = selection.select_items(instruction, sessions.held(session), mode)
        if mode == "soft":
            for item in items:
                sessions.change(session, item, state=State.HIDDEN, state_reason=why)
                sessions.log(session, "hidden", now, item, why)
        else:
            texts = _purge(store.crystals, store.config.redaction, sessions, session, items, why, now)
        count, tokens = sessions.fill(session)
    if texts:
        store.index.drop(store.crystals)
    left: Counter[str] = Counter()
    for text in texts:
        left.update(traces(store, text, now))
    message = f"{'Forgotten for good' if mode == 'hard' else 'Hidden'}: {len(items)}"
    if left:
        places = ", ".join(f"{place} ({number})" for place, number in sorted(left.items()))
        message += f"; its words still stand in {places}: its owner erases them everywhere with 'dreamd forget TEXT'"
    return answers.Forgot(True, mode, tuple(item.id for item in items), count, tokens, message, dict(left))  # noqa: FBT003


def _purge(
    crystals: Crystals,
    redaction: Redaction,
    sessions: Sessions,
    session: Session,
    items: Sequence[Item],
    why: str,
    now: datetime,
) -> tuple[str, ...]:
    """Purge items and their crystals, and block equal texts; return the texts, without secrets."""
    # Notes and transcripts are compared without secrets.
    texts = tuple(redaction.of(item.content) for item in items)
    sessions.forgotten.block_texts((*texts, *(item.content for item in items)), now)
    sessions.purge(session, items, why, now)
    digests = {crystal_digest(Origin.WORKING, text) for text in texts}.union(map(digest_of, items))
    crystals.remove(crystals.ids_of(digests).values())
    return texts


# ------------------------------------------------------------------------------------------------ what left


def recall(
    store: Store, session_id: str, query: str, now: datetime, limit: int | None = 10, cursor: str = ""
) -> answers.Recalled:
    """Return what left this session and holds a word of the query, best first.

    Under the `hybrid` policy the best one comes back into the set, and makes room for itself. Raise UsageError.
    """
    with reading(store.connection, session_id) as (sessions, session):
        part, following = page(_archived_items(sessions, query, session), limit, cursor)
    back = None
    if part and query.strip() and not cursor and isinstance(session.rules, Hybrid):
        back = restore(store, session_id, part[0].id, now)
    return answers.Recalled(query, part, len(part), back, following)


def restore(store: Store, session_id: str, memory_id: str, now: datetime) -> answers.Restored:
    """Put an archived item back into the set as it was; it lives as long as a new one does.

    A softly forgotten item is remembered again. Others may have to leave, and under some policies the item itself:
    `restored` is then false. An item that is in the set stays there. Raise NotFoundError.
    """
    with writing(store.connection, session_id) as (sessions, before):
        item = find_anywhere(sessions, before, memory_id)
        if item.state == State.HIDDEN:
            item = sessions.restore(before, item, now)
        if item.state == State.LIVE:
            return answers.Restored(True, item, (), *sessions.fill(before))  # noqa: FBT003
        session = sessions.open(session_id, now)
        lifetime = session.rules.lifetime(item.priority)
        expires_at = after(now, lifetime) if lifetime is not None else None
        step = max(item.step_index, session.step)
        item = sessions.restore(session, item, now, expires_at=expires_at, step_index=step)
        return _admit(store, sessions, session, item, now)


def left_behind(
    connection: Connection, feelings: Feelings, query: str, limit: int, filters: SearchFilters, now: datetime
) -> tuple[Item, ...]:
    """Return items that left any session, were not promoted, contain a word of the query and match, best first."""
    found = _archived_items(Sessions(connection), query)
    passing = (
        item for item in found if not item.promoted_to_id and filters.let(crystal_of(connection, feelings, item, now))
    )
    return tuple(islice(passing, limit))


def _archived_items(sessions: Sessions, query: str, session: Session | None = None) -> Iterator[Item]:
    """Return what left this session (None: any) and contains a word of the query; without one, the latest first."""
    words = selection.query_words(query)
    return sessions.archived(words, session) if words or not query.strip() else iter(())
