"""Forgetting in working memory: what items say, hot or cold; one of which nothing is left is purged."""

import json
import sqlite3
from collections.abc import Callable
from datetime import datetime

from state.crystal import Origin, crystal_id
from state.sessions.content import tokens_of
from state.sessions.ids import promoted_id, working_id
from state.sessions.item import Item, State
from state.stores import lexical
from state.stores.database import from_text
from state.stores.erasing import Erasure
from state.stores.session_items import SessionItems
from state.stores.session_rows import COLUMNS, Session, item_of, key_of, session_of


def erase_items(connection: sqlite3.Connection, erasure: Erasure, now: datetime) -> int:
    """Take it out of every item's content; how many items held it. In the caller's transaction.

    An item that changes gets a new id, and so does the record that it became: both begin with its content.
    """
    items = SessionItems(connection)
    sessions = {row["id"]: session_of(row) for row in connection.execute("SELECT * FROM sessions").fetchall()}
    rows = connection.execute(f"SELECT {COLUMNS} FROM items WHERE content <> ''").fetchall()
    found = [item for row in rows if erasure.holds((item := item_of(row)).content) or erasure.holds(item.id)]
    buried = _buried(connection)
    for item in found:
        session = sessions[item.session]
        content = erasure.prose(item.content)
        if content:
            _rewrite(connection, session, item, content, erasure)
        else:
            items.purge(session, [item], "forgotten", now)
            _unrelated(connection, item.id)
    # A purge buries an item as a whole. What is to be forgotten is buried by itself, and may be lifted again.
    connection.executemany("DELETE FROM forgotten WHERE digest = ?", [(one,) for one in _buried(connection) - buried])
    return len(found)


def _buried(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT digest FROM forgotten")}


def _rewrite(connection: sqlite3.Connection, session: Session, item: Item, content: str, erasure: Erasure) -> None:
    key, count = key_of(session, item), tokens_of(content)
    id_ = working_id(item.session, content, item.created_at, _taken(connection, key))
    if erasure.holds(id_):  # in the name of its session
        id_ = f"forgotten-{key}"
    cold = connection.execute("SELECT cold FROM items WHERE key = ?", (key,)).fetchone()["cold"]
    connection.execute(
        "UPDATE items SET content = ?, token_count = ?, pairs = ?, id = ? WHERE key = ?",
        (content, count, lexical.pairs(content) if cold else "", id_, key),
    )
    connection.execute("UPDATE item_words SET folded = ? WHERE key = ?", (content.casefold(), key))
    if item.state in (State.LIVE, State.HIDDEN):
        connection.execute(
            "UPDATE sessions SET tokens = tokens + ? WHERE key = ?", (count - item.token_count, session.key)
        )
    connection.execute("UPDATE item_relations SET target = ? WHERE target = ?", (id_, item.id))
    _related(connection, item.id, id_)
    row = connection.execute("SELECT at FROM promotions WHERE item = ?", (key,)).fetchone()
    if row is not None:
        record = promoted_id(id_, from_text(row["at"]))
        connection.execute(
            "UPDATE promotions SET id = ?, crystal = ?, record = replace(record, ?, ?) WHERE item = ?",
            (record, crystal_id(Origin.WORKING, content), item.id, id_, key),
        )
        connection.execute("UPDATE items SET promoted_to = ? WHERE key = ? AND promoted_to <> ''", (record, key))


def _unrelated(connection: sqlite3.Connection, id_: str) -> None:
    """Nothing is related to an item that is gone: its id begins with what it said."""
    connection.execute("DELETE FROM item_relations WHERE target = ?", (id_,))
    _related(connection, id_, None)


def _related(connection: sqlite3.Connection, old: str, new: str | None) -> None:
    """The same in what became long-term records, which say what they were related to then."""
    for row in connection.execute("SELECT item, record FROM promotions").fetchall():
        record = json.loads(row["record"])
        before = record.get("relations", [])  # as they were kept until they were read from the item
        named = [
            [kind, new if to == old else to, *more] for kind, to, *more in before if to != old or new is not None
        ]
        if named != before:
            left = json.dumps({**record, "relations": named})
            connection.execute("UPDATE promotions SET record = ? WHERE item = ?", (left, row["item"]))


def _taken(connection: sqlite3.Connection, key: int) -> Callable[[str], bool]:
    query = "SELECT 1 FROM items WHERE id = ? AND key <> ?"
    return lambda id_: connection.execute(query, (id_, key)).fetchone() is not None
