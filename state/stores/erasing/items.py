"""Item erasure: takes forgotten texts out of working memory; an item of which nothing is left is purged."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from datetime import datetime

from state.crystals.crystal import Origin, crystal_id
from state.sessions.content import tokens_of
from state.sessions.ids import promoted_id, working_id
from state.sessions.item import Item, State
from state.stores.crystals import full_text
from state.stores.database.connection import from_text
from state.stores.erasing.plan import Erasure
from state.stores.sessions.items import SessionItems
from state.stores.sessions.rows import COLUMNS, Session, item_of, key_of, session_of


def erase_items(connection: sqlite3.Connection, erasure: Erasure, now: datetime) -> int:
    """Erase the targets from every item's content; returns how many items held them. In the caller's transaction.

    An item that changes gets a new id, and so does the record that it became: both begin with its content.
    """
    items = SessionItems(connection)
    sessions = {row["id"]: session_of(row) for row in connection.execute("SELECT * FROM sessions").fetchall()}
    rows = connection.execute(f"SELECT {COLUMNS} FROM items WHERE content <> ''").fetchall()
    found = [item for row in rows if erasure.holds((item := item_of(row)).content) or erasure.holds(item.id)]
    blocked_before = _digests(connection)
    named: dict[str, str] = {}
    for item in found:
        session = sessions[item.session]
        content = erasure.prose(item.content)
        if content:
            named[item.id] = _rewrite(connection, session, item, content, erasure)
        else:
            items.purge(session, [item], "forgotten", now)
            # Nothing is related to an item that is gone: its id begins with what it said.
            connection.execute("DELETE FROM item_relations WHERE target = ?", (item.id,))
            named[item.id] = ""
    _name_anew(connection, named)
    # A purge blocks an item as a whole. The targets are blocked by themselves, and may be unblocked.
    connection.executemany(
        "DELETE FROM forgotten WHERE digest = ?", [(one,) for one in _digests(connection) - blocked_before]
    )
    return len(found)


def _digests(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT digest FROM forgotten")}


def _rewrite(connection: sqlite3.Connection, session: Session, item: Item, content: str, erasure: Erasure) -> str:
    """Replace the item's content; returns its new id."""
    key, count = key_of(session, item), tokens_of(content)
    id_ = working_id(item.session, content, item.created_at, _taken(connection, key))
    if erasure.holds(id_):  # in the name of its session
        id_ = f"forgotten-{key}"
    cold = connection.execute("SELECT cold FROM items WHERE key = ?", (key,)).fetchone()["cold"]
    connection.execute(
        "UPDATE items SET content = ?, token_count = ?, pairs = ?, id = ? WHERE key = ?",
        (content, count, full_text.pairs(content) if cold else "", id_, key),
    )
    connection.execute("UPDATE item_words SET folded = ? WHERE key = ?", (content.casefold(), key))
    if item.state in (State.LIVE, State.HIDDEN):
        connection.execute(
            "UPDATE sessions SET tokens = tokens + ? WHERE key = ?", (count - item.token_count, session.key)
        )
    connection.execute("UPDATE item_relations SET target = ? WHERE target = ?", (id_, item.id))
    row = connection.execute("SELECT at FROM promotions WHERE item = ?", (key,)).fetchone()
    if row is not None:
        record = promoted_id(id_, from_text(row["at"]))
        connection.execute(
            "UPDATE promotions SET id = ?, crystal = ?, record = replace(record, ?, ?) WHERE item = ?",
            (record, crystal_id(Origin.WORKING, content), item.id, id_, key),
        )
        connection.execute("UPDATE items SET promoted_to = ? WHERE key = ? AND promoted_to <> ''", (record, key))
    return id_


def _name_anew(connection: sqlite3.Connection, named: Mapping[str, str]) -> None:
    """Update the relations in the promoted items' records: new ids, and no relation to an item that is gone."""
    if not named:
        return
    for row in connection.execute("SELECT item, record FROM promotions").fetchall():
        record = json.loads(row["record"])
        before = record.get("relations", [])  # as they were kept until they were read from the item
        left = [[kind, named.get(to, to), *more] for kind, to, *more in before if named.get(to, to)]
        if left != before:
            changed = json.dumps({**record, "relations": left})
            connection.execute("UPDATE promotions SET record = ? WHERE item = ?", (changed, row["item"]))


def _taken(connection: sqlite3.Connection, key: int) -> Callable[[str], bool]:
    query = "SELECT 1 FROM items WHERE id = ? AND key <> ?"
    return lambda id_: connection.execute(query, (id_, key)).fetchone() is not None
