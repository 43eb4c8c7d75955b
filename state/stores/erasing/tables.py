"""Table erasure: finds what was made of a text in state.db, takes it from every table, then from the disk.

Every column that holds somebody's words is checked. A row that holds a target is deleted, unless `_CUT` says what
stays of it. Items come first, because their ids begin with their words.
"""

import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from state.crystals.crystal import Origin, crystal_digest, folded_digest, new_id
from state.document.operations import Why
from state.document.pointer import render_pointer
from state.errors import BusyError
from state.sessions.item import State
from state.sessions.policies import FORGOTTEN
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.database.table import Layout, layouts_of, packed, unpacked
from state.stores.database.tables import REST, content_of
from state.stores.erasing.plan import Erasure
from state.stores.history.lineage import digest_of
from state.stores.sessions.sessions import Sessions
from state.text.words import terms

Row = dict[str, Any]
Place = tuple[Any, ...]
Cutter = Callable[[sqlite3.Connection, Place, Row, Erasure], Row]

_CHECKPOINT_SECONDS = 10.0


def made_from(connection: sqlite3.Connection, erasure: Erasure) -> list[str]:
    """Return the texts of current lines and crystals that rest on erased crystals alone, but have other words."""
    crystals = connection.execute("SELECT id, text FROM crystals")
    gone = {id_ for id_, text in crystals if erasure.holds(text) and not erasure.prose(text)}
    rests: dict[str, tuple[str, set[str]]] = {}
    rows = connection.execute(
        "SELECT 'L' || l.id, l.text, evidence.crystal FROM lines l JOIN evidence ON line = l.id WHERE died_in IS NULL"
        " UNION ALL SELECT c.id, text, value FROM crystals c, json_each(parents) WHERE parents <> '[]'"
        " UNION ALL SELECT c.id, c.text, s.id FROM crystals c JOIN crystals s ON s.key = c.merged_into"
    )
    for id_, text, source in map(tuple, rows):
        rests.setdefault(id_, (text, set()))[1].add(source)
    return [text for text, sources in rests.values() if sources <= gone and not erasure.holds(text)]


def leading_nowhere(connection: sqlite3.Connection, erasure: Erasure) -> list[str]:
    """Return the texts of pointers that hold a target, or whose keywords are not in the rest of an erased crystal."""
    rows = connection.execute(
        "SELECT topic, keywords, text FROM pointers LEFT JOIN crystals ON crystal = crystals.id"
    )
    return [
        render_pointer(topic, keywords)
        for topic, keywords, text in map(tuple, rows)
        if erasure.holds(topic)
        or erasure.holds(keywords)
        or (erasure.holds(text or "") and not set(terms(keywords)) <= set(terms(erasure.prose(text))))
    ]


def erase(connection: sqlite3.Connection, erasure: Erasure, now: datetime) -> Counter[str]:
    """Erase the targets from every table; return how many rows held one, by place. In the caller's transaction."""
    changed = Counter(sessions=_sessions(connection, erasure), items=_items(connection, erasure, now))
    appended = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'item_events'"
    triggers = connection.execute(appended).fetchall()
    for trigger in triggers:
        connection.execute(f'DROP TRIGGER "{trigger["name"]}"')
    for name, layout in layouts_of(connection).items():
        changed[name] += _swept(connection, layout, erasure)
    for trigger in triggers:
        connection.execute(trigger["sql"])
    if any(changed.values()):  # what a model was told and said may quote a part of it
        connection.execute("UPDATE calls SET request = '', reply = ''")
    if changed["items"]:
        full_text.rebuild(connection, "cold_words")
    return Counter({f"state.db: {name}": count for name, count in changed.items() if count})


def scrub(connection: sqlite3.Connection) -> None:
    """Rewrite the full-text index and the whole file so that no free page keeps anything, and empty the log.

    Raise BusyError if another process keeps reading for 10 seconds.
    """
    full_text.compact(connection)
    connection.execute("VACUUM")
    empty_log(connection)


def empty_log(connection: sqlite3.Connection) -> None:
    """Empty the write-ahead log. Raise BusyError."""
    deadline = time.monotonic() + _CHECKPOINT_SECONDS
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        if time.monotonic() > deadline:
            raise BusyError(
                "another process reads state.db, so its log cannot be emptied", "run 'dreamd forget' to go on"
            )


def _sessions(connection: sqlite3.Connection, erasure: Erasure) -> int:
    """Rename each session whose id contains a target, in all tables alike; return how many."""
    names = connection.execute("SELECT session FROM occurrences UNION SELECT id FROM sessions").fetchall()
    matching = [row[0] for row in names if erasure.holds(row[0])]
    for name in matching:
        new = f"forgotten-{secrets.token_hex(8)}"
        connection.execute("UPDATE sessions SET id = ? WHERE id = ?", (new, name))
        connection.execute("UPDATE crystals SET session = ? WHERE session = ?", (new, name))
        connection.execute("UPDATE OR IGNORE occurrences SET session = ? WHERE session = ?", (new, name))
    return len(matching)


def _items(connection: sqlite3.Connection, erasure: Erasure, now: datetime) -> int:
    """Erase the targets from items; return how many contained one. Items of which nothing remains are purged."""
    store, count = Sessions(connection), 0
    for session in store.all():
        for item in store.items(session, "content <> ''"):
            if not (erasure.holds(item.content) or erasure.holds(item.id)):
                continue
            count += 1
            if content := erasure.prose(item.content):
                pairs = full_text.pairs(content) if item.state == State.ARCHIVED else ""
                store.reword(session, item, content, pairs=pairs)
            else:
                store.purge(session, [item], "" if erasure.holds(FORGOTTEN) else FORGOTTEN, now)
    return count


def rows_with(connection: sqlite3.Connection, table: Layout, erasure: Erasure) -> list[tuple[Place, Row]]:
    """Return the rows of a table in which somebody's words hold a target: their keys, and all of these words."""
    columns = {name: column for name in table.columns if (column := content_of(table.name, name)).is_words}
    wanted = ", ".join(f'"{name}"' for name in (*table.key, *columns))
    found = list[tuple[Place, Row]]()
    for row in connection.execute(f'SELECT {wanted} FROM "{table.name}"') if columns else ():
        values = zip(columns.items(), tuple(row)[len(table.key) :], strict=True)
        words = {name: unpacked(value) if column.is_packed else value or "" for (name, column), value in values}
        if table.name == "pointers":
            words["line"] = render_pointer(words["topic"], words["keywords"])
        if any(_is_told(table.name, value, erasure) for value in words.values()):
            found.append((tuple(row[: len(table.key)]), words))
    return found


def _is_told(table: str, value: str, erasure: Erasure) -> bool:
    if table in ("versions", "document") and value[:1] not in ("{", "["):
        return erasure.document(value) != value  # its headings are dreamd's
    return erasure.holds(value) or (table in ("lines", "gaps") and erasure.asks(value))


def _swept(connection: sqlite3.Connection, table: Layout, erasure: Erasure) -> int:
    """Cut, empty or delete the rows of a table that hold a target; return how many there were."""
    held, cut = rows_with(connection, table, erasure), _CUT.get(table.name)
    where, is_searched = " AND ".join(f'"{name}" IS ?' for name in table.key), table.name == "crystals"
    for place, old in held:
        if is_searched:
            full_text.remove(connection, *place)
        new = cut(connection, place, old, erasure) if cut else {}
        if table.name in _EMPTIED:
            new = _emptied(table.name, old, erasure)
        if not new:
            connection.execute(f'DELETE FROM "{table.name}" WHERE {where}', place)
            continue
        new |= {name: packed(new[name]) for name in new if content_of(table.name, name).is_packed}
        setting = ", ".join(f'"{name}" = ?' for name in new)
        connection.execute(f'UPDATE "{table.name}" SET {setting} WHERE {where}', (*new.values(), *place))
        if is_searched:
            full_text.add(connection, *place)
            Crystals(connection).hide_duplicates(place)
    return len(held)


# What stays of a row that holds a target, by its table: the values to write, or none: the row is deleted. In the
# tables of `_EMPTIED`, the texts go that hold a target; the rows of all other tables are deleted.


def _emptied(table: str, old: Row, erasure: Erasure, *but: str) -> Row:
    """Return the values of a row that hold a target as the emptiest text that can be read in their place."""
    empty = {name: next(filter(content_of(table, name).holds, ("", "[]", "{}"))) for name in old}
    return {name: empty[name] for name, value in old.items() if name not in but and erasure.holds(value)}


def _crystal(connection: sqlite3.Connection, place: Place, old: Row, erasure: Erasure) -> Row:
    """Cut a crystal, and drop its vector; it gets another digest. If it goes, show its hidden duplicates."""
    if not (text := erasure.prose(old["text"])):
        statement = "UPDATE crystals SET merged_into = NULL, lifecycle = 'activated' WHERE merged_into = ?"
        connection.execute(statement, place)
        return {}
    new = _emptied("crystals", old, erasure, "text") | {"text": text}
    context, speaker = new.get("context", old["context"]), new.get("speaker", old["speaker"])
    digest, origin = connection.execute("SELECT digest, origin FROM crystals WHERE key = ?", place).fetchone()
    is_distinct = old["speaker"] and digest == crystal_digest(Origin(origin), old["text"], old["speaker"])
    digest = crystal_digest(Origin(origin), text, speaker if is_distinct else "")
    if connection.execute("SELECT 1 FROM crystals WHERE digest = ? AND key <> ?", (digest, *place)).fetchone():
        digest = REST + new_id()  # two crystals have this text now
    connection.execute("UPDATE occurrences SET digest = '' WHERE crystal = ?", place)
    # A digest of the old note would confirm a guess of it; if the note is filed again, it gets a new digest.
    connection.execute("UPDATE notes SET digest = hex(randomblob(32)) WHERE crystal = ?", place)
    connection.execute("DELETE FROM supersessions WHERE ?1 IN (older, newer)", place)
    return new | {
        "digest": digest,
        "folded": folded_digest(text, speaker or ""),
        "pairs": full_text.pairs(f"{context}: {text}" if context else text),
        "vector": None,
    }


def _line(connection: sqlite3.Connection, place: Place, old: Row, erasure: Erasure) -> Row:
    """Cut a line. One of which nothing remains ends; it keeps its id, so that no other line gets it."""
    if text := erasure.line(old["text"]):
        return {"text": text}
    connection.execute("DELETE FROM evidence WHERE line = ?", place)
    died = "SELECT coalesce(died_in, (SELECT max(number) FROM versions), 0) FROM lines WHERE id = ?"
    died_in = connection.execute(died, place).fetchone()[0]
    return {"text": "", "crystal": "", "successor": "", "fate": Why.DELETED.value, "died_in": died_in}


def _version(connection: sqlite3.Connection, place: Place, old: Row, erasure: Erasure) -> Row:
    """Cut the text, and empty the record. A MEMORY.md that git brings back is known again by its former digest."""
    text = erasure.document(old["text"])
    row: Row = {"characters": len(text)}
    if text != old["text"]:
        statement = "SELECT trim(former_digests || ' ' || digest) FROM versions WHERE number = ?"
        former = connection.execute(statement, place).fetchone()[0]
        row |= {"text": text, "digest": digest_of(text), "former_digests": former}
    return row | ({"record": ""} if erasure.holds(old["record"]) else {})


def _document(_: sqlite3.Connection, __: Place, old: Row, erasure: Erasure) -> Row:
    texts = {name: erasure.document(old[name]) for name in ("rendered", "wanted")}
    return texts | ({"edits": "[]"} if erasure.holds(old["edits"]) else {})


_CUT: Mapping[str, Cutter] = {"crystals": _crystal, "lines": _line, "versions": _version, "document": _document}
_EMPTIED = frozenset("acts calls dreams feelings item_events items notes rejections steps".split())
