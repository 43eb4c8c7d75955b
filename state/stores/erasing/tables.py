"""Table erasure: finds what must go from state.db (`planned`), erases it from every table, then from the disk.

Every text in every table is checked, except columns of dreamd's own names and of the owner's file names. Other values
of a row may follow from its text: a crystal that keeps a rest gets another digest, a line keeps its place in the
ledger without a word. Items come first, because their ids begin with their words.
"""

import json
import re
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from state.crystals.crystal import Origin, crystal_digest, folded_digest, new_id
from state.document.operations import Why
from state.errors import BusyError
from state.forgetting.cutting import Cut
from state.forgetting.known import Target, spans, without
from state.sessions.item import State, working_id
from state.stores.crystals import full_text, skills
from state.stores.database.table import Kind, Layout, layouts_of, packed, unpacked
from state.stores.database.tables import REST, content_of
from state.stores.erasing.plan import INTENTION, Erasure, erased_document
from state.stores.history.lineage import digest_of
from state.stores.sessions.sessions import Sessions, key_of
from state.text.words import terms

Row = dict[str, Any]

_CHECKPOINT_SECONDS = 10.0
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+Z-]+|[0-9a-f]{64}|\[\]|\{\}|")
# Columns with these kinds of text are not checked; all others are.
_NAMES = (Kind.CODE, Kind.FILE)


def planned(connection: sqlite3.Connection, targets: tuple[Target, ...], cut: Cut) -> Erasure:
    """Return the erasure of these targets from state.db; nothing is written."""
    rows = connection.execute("SELECT id, text FROM crystals")
    left = {id_: without(text, targets, cut) for id_, text in map(tuple, rows) if spans(text, targets)}
    keywords = {
        row["keywords"]
        for row in connection.execute("SELECT keywords, topic, crystal FROM pointers")
        if spans(row["keywords"], targets)
        or spans(row["topic"], targets)
        or (row["crystal"] in left and not set(terms(row["keywords"])) <= set(terms(left[row["crystal"]])))
    }
    gone = frozenset(id_ for id_, text in left.items() if not text)
    return Erasure(targets, cut, frozenset(left), frozenset(keywords), gone)


def made_from(connection: sqlite3.Connection, erasure: Erasure) -> list[str]:
    """Return the texts of current lines and crystals that rest on erased crystals alone, but have other words."""
    if not erasure.gone:
        return []
    rests: dict[str, tuple[str, set[str]]] = {}
    rows = connection.execute(
        "SELECT 'L' || l.id, l.text, evidence.crystal FROM lines l JOIN evidence ON line = l.id WHERE died_in IS NULL"
        " UNION ALL SELECT c.id, text, value FROM crystals c, json_each(parents) WHERE parents <> '[]'"
        " UNION ALL SELECT c.id, c.text, s.id FROM crystals c JOIN crystals s ON s.key = c.merged_into"
    )
    for id_, text, source in map(tuple, rows):
        rests.setdefault(id_, (text, set()))[1].add(source)
    return [
        text
        for id_, (text, sources) in rests.items()
        if sources <= erasure.gone and id_ not in erasure.crystals and not spans(text, erasure.targets)
    ]


def erase(connection: sqlite3.Connection, erasure: Erasure, now: datetime) -> Counter[str]:
    """Erase the targets from every table; return how many rows changed, by place. In the caller's transaction."""
    changed: Counter[str] = Counter()
    changed["sessions"] += _sessions(connection, erasure)
    leading_nowhere = json.dumps(sorted(erasure.keywords))
    statement = "DELETE FROM pointers WHERE keywords IN (SELECT value FROM json_each(?))"
    changed["pointers"] += connection.execute(statement, (leading_nowhere,)).rowcount
    changed["items"] += _items(connection, erasure, now)
    asked = [(row["folded"],) for row in connection.execute("SELECT * FROM gaps") if erasure.asks(row["question"])]
    changed["gaps"] += len(asked)
    connection.executemany("DELETE FROM gaps WHERE folded = ?", asked)
    layouts = layouts_of(connection)
    for name in sorted(layouts, key=lambda name: name != "crystals"):  # first, because other tables refer to its ids
        changed[name] += _swept(connection, layouts[name], erasure, now)
    if changed["crystals"]:
        skills.expect_more(connection)
    if changed["items"]:
        full_text.rebuild(connection, "cold_words")
    return Counter({f"state.db: {name}": count for name, count in changed.items() if count})


def texts(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, str]]:
    """Yield (column, value) of every text in the table."""
    for row in connection.execute(f'SELECT * FROM "{table}"'):
        for column in row.keys():  # noqa: SIM118 - a Row is no mapping
            value = unpacked(row[column]) if content_of(table, column).is_packed else row[column]
            if isinstance(value, str):
                yield column, value


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
    for number, name in enumerate(matching):
        row = connection.execute("SELECT key FROM sessions WHERE id = ?", (name,)).fetchone()
        new = f"forgotten-{row['key']}" if row else f"forgotten-{number}-{secrets.token_hex(4)}"
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
                id_ = working_id(item.session_id, content, item.created_at)
                id_ = f"forgotten-{key_of(session, item)}" if erasure.holds(id_) else ""  # its session's name has one
                pairs = full_text.pairs(content) if item.state == State.ARCHIVED else ""
                store.reword(session, item, content, id_, pairs=pairs)
            else:
                store.purge(session, [item], "forgotten", now)
    return count


def _swept(connection: sqlite3.Connection, table: Layout, erasure: Erasure, now: datetime) -> int:
    """Erase the targets from the table's remaining texts, each according to the kind of its column."""
    keys = table.key
    contents = {one: content_of(table.name, one) for one in table.columns}
    kinds = {one: content.kind for one, content in contents.items()}
    named = [one for one, kind in kinds.items() if kind not in _NAMES]
    packing = [one for one in named if contents[one].is_packed]
    if not named:
        return 0
    wanted = ", ".join(f'"{name}"' for name in (*keys, *named))
    updates = []
    for row in connection.execute(f'SELECT {wanted} FROM "{table.name}"').fetchall():
        if table.name == "meta" and row["name"] == INTENTION:
            continue
        old = dict(zip(named, tuple(row)[len(keys) :], strict=True))
        old |= {name: unpacked(old[name]) for name in packing}
        new = {name: _erased(kinds[name], value, erasure) for name, value in old.items()}
        if new := {name: value for name, value in new.items() if value != old[name]}:
            updates.append((tuple(row[: len(keys)]), old, new))
    follow, is_searched = _FOLLOWING.get(table.name), table.name == "crystals"
    where = " AND ".join(f'"{name}" IS ?' for name in keys)
    with _triggers_off(connection, table.name if updates else ""):
        for place, old, new in updates:
            if any(not value and (name in keys or kinds[name] is Kind.WHOLE) for name, value in new.items()):
                connection.execute(f'DELETE FROM "{table.name}" WHERE {where}', place)
                continue
            if is_searched:
                full_text.remove(connection, *place)
            values = new | (follow(connection, place, old, new, now) if follow else {})
            values |= {name: packed(new[name]) for name in packing if name in new}
            if is_searched and not values.get("text", True):
                connection.execute("DELETE FROM crystals WHERE key = ?", place)
                continue
            setting = ", ".join(f'"{name}" = ?' for name in values)
            update = f'UPDATE OR REPLACE "{table.name}" SET {setting} WHERE {where}'
            connection.execute(update, (*values.values(), *place))
            if is_searched:
                full_text.add(connection, *place)
    return len(updates)


def _erased(kind: Kind, value: Any, erasure: Erasure) -> Any:  # noqa: ANN401 - SQLite has no better type
    """Return a value from a column of this kind without the targets."""
    if not isinstance(value, str) or _MOMENT.fullmatch(value):
        return value
    if kind is Kind.DOCUMENT:
        return erased_document(value, erasure)
    if kind in (Kind.PROSE, Kind.LINE):
        return erasure.line(value) if kind is Kind.LINE else erasure.prose(value)
    if kind is Kind.WHOLE:
        return "" if erasure.holds(value) else value
    if kind not in (Kind.JSON, Kind.RECORD) or value[:1] not in ("{", "["):
        return erasure.json(value)
    old = json.loads(value)
    new = erasure.record(old, lines=kind is Kind.RECORD)
    return value if new == old else json.dumps(new, ensure_ascii=False, separators=(",", ":"))


def _crystal(connection: sqlite3.Connection, place: tuple[Any, ...], old: Row, new: Row, _: datetime) -> Row:
    """Return a changed crystal's new digest, and drop its vector; if it goes, show its hidden duplicates."""
    left = old | new
    if (left["text"], left["context"], left["speaker"]) == (old["text"], old["context"], old["speaker"]):
        return {}
    digest, origin = connection.execute("SELECT digest, origin FROM crystals WHERE key = ?", place).fetchone()
    if not left["text"]:
        statement = "UPDATE crystals SET merged_into = NULL, lifecycle = 'activated' WHERE merged_into = ?"
        connection.execute(statement, place)
        return {}
    is_distinct = old["speaker"] and digest == crystal_digest(Origin(origin), old["text"], old["speaker"])
    digest = crystal_digest(Origin(origin), left["text"], left["speaker"] if is_distinct else "")
    if connection.execute("SELECT 1 FROM crystals WHERE digest = ? AND key <> ?", (digest, *place)).fetchone():
        digest = REST + new_id()  # two crystals have this text now: they are compared like any two
    connection.execute("UPDATE occurrences SET digest = '' WHERE crystal = ?", place)
    # A digest of the old note would confirm a guess of it; if the note is filed again, it gets a new digest.
    connection.execute("UPDATE notes SET digest = hex(randomblob(32)) WHERE crystal = ?", place)
    connection.execute("DELETE FROM supersessions WHERE ?1 IN (older, newer)", place)
    connection.execute("INSERT OR IGNORE INTO to_compare (crystal) VALUES (?)", place)
    said = f"{left['context']}: {left['text']}" if left["context"] else left["text"]
    folded = folded_digest(left["text"], left["speaker"])
    return {"digest": digest, "folded": folded, "pairs": full_text.pairs(said), "vector": None}


def _line(connection: sqlite3.Connection, place: tuple[Any, ...], _: Row, new: Row, __: datetime) -> Row:
    """End a line of which nothing remains; it keeps its id, so that no other line gets it."""
    if new.get("text") != "":
        return {}
    connection.execute("DELETE FROM evidence WHERE line = ?", place)
    died = "SELECT coalesce(died_in, (SELECT max(number) FROM versions), 0) FROM lines WHERE id = ?"
    died_in = connection.execute(died, place).fetchone()[0]
    return {"crystal": "", "successor": "", "fate": Why.DELETED.value, "died_in": died_in}


def _version(connection: sqlite3.Connection, place: tuple[Any, ...], _: Row, new: Row, __: datetime) -> Row:
    """Return the digests: a MEMORY.md that git brings back with what was forgotten is known again as this version."""
    if "text" not in new:
        return {}
    row = connection.execute("SELECT digest, former_digests FROM versions WHERE number = ?", place).fetchone()
    former = f"{row['former_digests']} {row['digest']}".strip()
    return {"digest": digest_of(new["text"]), "former_digests": former, "characters": len(new["text"])}


# The columns that must change with a changed row, by table.
_FOLLOWING: Mapping[str, Callable[[sqlite3.Connection, tuple[Any, ...], Row, Row, datetime], Row]] = {
    "crystals": _crystal, "lines": _line, "versions": _version,
}  # fmt: skip


@contextmanager
def _triggers_off(connection: sqlite3.Connection, table: str) -> Iterator[None]:
    """Drop the triggers that keep the table append-only, and create them again at the end."""
    statement = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
    triggers = connection.execute(statement, (table,)).fetchall()
    for trigger in triggers:
        connection.execute(f'DROP TRIGGER "{trigger["name"]}"')
    yield
    for trigger in triggers:
        connection.execute(trigger["sql"])
