"""Item erasure: takes forgotten texts out of working memory; an item of which nothing is left is purged."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from state.sessions.item import Item, Related, State, promoted_id, tokens_of, working_id
from state.stores.crystals import full_text
from state.stores.erasing.plan import Erasure
from state.stores.sessions.sessions import Session, Sessions, key_of


def erase_items(connection: sqlite3.Connection, erasure: Erasure, now: datetime) -> int:
    """Erase the targets from every item's content; return how many items held them. In the caller's transaction.

    An item that changes gets a new id, and so does the record that it became: both begin with its content. Other
    texts of the items, but for their relations, and the full-text index are left to the caller.
    """
    store = Sessions(connection)
    every = [(session, item) for session in store.all() for item in store.items(session, "content <> ''")]
    named: dict[str, str] = {}
    for session, item in every:
        if not (erasure.holds(item.content) or erasure.holds(item.id)):
            continue
        if content := erasure.prose(item.content):
            named[item.id] = _rewrite(store, session, item, content, erasure)
        else:
            store.purge(session, [item], "forgotten", now)
            named[item.id] = ""
    for session, item in every:
        relations = _relations(item, erasure, named)
        if relations != item.relations and named.get(item.id, item.id):
            store.change(session, item, relations=relations)
    return len(named)


def _rewrite(store: Sessions, session: Session, item: Item, content: str, erasure: Erasure) -> str:
    """Replace the item's content; return its new id."""
    new = working_id(item.session_id, content, item.created_at)
    if erasure.holds(new):  # in the name of its session
        new = f"forgotten-{key_of(session, item)}"
    id_ = item.id if new == item.id else store.free_id(new)
    record = {name: id_ if value == item.id else value for name, value in store.record(session, item).items()}
    promoted = promoted_id(id_, item.promoted_at) if item.promoted_to_id and item.promoted_at else None
    store.change(
        session,
        item,
        content=content,
        token_count=tokens_of(content),
        pairs=full_text.pairs(content) if item.state == State.ARCHIVED else "",
        id=id_,
        promoted_to_id=promoted,
        record=record,
    )
    return id_


def _relations(item: Item, erasure: Erasure, named: Mapping[str, str]) -> tuple[Related, ...]:
    """Return the relations without the targets: with new ids, and none to an item that is gone."""
    return tuple(
        replace(
            one,
            target_element_id=named.get(one.target_element_id, one.target_element_id),
            metadata=json.loads(erasure.json(json.dumps(one.metadata))),
        )
        for one in item.relations
        if not erasure.holds(one.relation_type)
        and (one.target_element_id in named or not erasure.holds(one.target_element_id))
        and named.get(one.target_element_id, one.target_element_id)
    )
