"""Migration: brings a database of any older schema to the current one, in one transaction.

Every table is created anew and filled from the old one; what the schema has dropped disappears. A column that the old
table lacks gets its value from `_LACKING`, or its default. `_NEWS` lists further changes to rows.
"""

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from state.crystals.crystal import Origin, crystal_digest, faded_at
from state.stores.database.connection import from_text, to_text
from state.stores.database.schema import INDEXES, SCHEMA_VERSION, UNDECLARED
from state.stores.database.table import packed
from state.stores.database.tables import REST, TABLES
from state.stores.disk.disk import Disk
from state.text.words import normalise

ENTRIES_FILE = "entries.json"
ENTRIES_WRITTEN = "entries_written"
"""In `meta`: how many entries of programs the migration wrote to the file; removed once somebody was told."""

FORMER = ("entries", "item_relations", "promotions")
"""Tables of older schemas whose rows move elsewhere."""
_OLD = "before_"
_LACKING = {
    ("crystals", "digest"): "id",
    ("crystals", "fades_at"): "faded_at(importance, accesses, valence, created_at, last_accessed_at)",
}
# How to convert values of older schemas.
_READ = {
    ("versions", "text"): "packed(text)",
    ("versions", "record"): "packed(record)",
    ("hormones", "armed"): "replace(armed, '{}', '[]')",
    ("changes", "decision"): "iif(decision = 'doubtful', 'applied', decision)",
}
_ITEMS = f"""
INSERT INTO items SELECT i.key, i.session, i.id, i.seq, i.content, i.priority, i.importance, i.token_count,
    i.created_at, i.last_accessed_at, i.expires_at, i.importance_score, i.access_count, i.step_index, i.agent,
    i.source, i.tags, i.metadata, (SELECT json_group_array(json_array(type, target, json(iif(json_valid(metadata),
    metadata, '{{}}')))) FROM (SELECT * FROM item_relations WHERE item = i.key ORDER BY at, type, target)), i.state,
    i.state_reason, nullif(i.promoted_to, ''), i.promoted_at, nullif(i.promotion_reason, ''), iif(p.delivered_at
    IS NOT NULL AND json_valid(p.record), coalesce(json_extract(p.record, '$.metadata'), '{{}}'), '{{}}'), i.rescue,
    i.pairs, iif(p.item IS NOT NULL AND p.delivered_at IS NULL, NULL, i.dreamt_in) FROM {_OLD}items i LEFT JOIN
    promotions p ON p.item = i.key"""
_BY_CODE = """FROM supersessions WHERE cause = 'consolidation' OR cause = 'dream'
    AND coalesce((SELECT model FROM versions WHERE number = supersessions.version), '') IN ('', 'extractive')"""
_UNLIKE = """FROM crystals hidden JOIN crystals shown ON shown.key = hidden.merged_into
    WHERE normalised(hidden.text) <> normalised(shown.text)"""
# Statements for databases below the given schema, run when all rows are in their new tables.
_NEWS = (
    (6, "INSERT OR IGNORE INTO to_compare SELECT key FROM crystals"),
    # Only relations that somebody named remain. Those found by comparing texts are deleted.
    (12, f"DELETE FROM supersessions WHERE (older, newer) IN (SELECT older, newer {_BY_CODE})"),
    # 0 means that no dream had to see it, because a dream saw its canonical crystal.
    (12, f"""UPDATE crystals SET merged_into = NULL, lifecycle = 'activated', dreamt_in = nullif(dreamt_in, 0)
        WHERE key IN (SELECT hidden.key {_UNLIKE})"""),
    (12, "DELETE FROM gaps WHERE cause = 'contradiction'"),
    # Crystals without a vector are compared once they have one; all vectors are computed again.
    (13, "INSERT OR IGNORE INTO to_compare SELECT key FROM crystals"),
    (15, "DELETE FROM meta WHERE name IN ('vector_file', 'notes_read')"),
    (17, """UPDATE meta SET value = json_remove(json_set(value, '$.crystals',
        json((SELECT json_group_array(key) FROM json_each(meta.value, '$.renamed')))), '$.renamed')
        WHERE name = 'forgetting'"""),
    # A proposed dream is rejected and dreamt again: its notes are pending.
    (22, "UPDATE dreams SET outcome = 'rejected' WHERE outcome = 'proposed'"),
    # What used to be kept of a line when it left is the line's wording from its birth on.
    (23, f"""UPDATE crystals SET origin = 'line', digest = iif(digest GLOB '{REST}*', digest, line_digest(text))
        WHERE origin = 'evicted'"""),
    # No crystal has a vector in its row yet, so ChromaDB begins anew.
    (24, "DELETE FROM index_state"),
)  # fmt: skip


def make_schema(connection: sqlite3.Connection) -> None:
    """Create the current schema in an empty database, within the caller's transaction if there is one."""
    for table in TABLES.values():
        for statement in table.ddl():
            connection.execute(statement)
    for statement in UNDECLARED:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Migrate a database of this older version to the current schema, in the caller's transaction.

    Foreign keys must be off, because tables are filled in any order.
    """
    connection.create_function("faded_at", 5, _faded_at, deterministic=True)
    connection.create_function("normalised", 1, normalise, deterministic=True)
    connection.create_function("packed", 1, packed, deterministic=True)
    connection.create_function("line_digest", 1, _line_digest, deterministic=True)
    # References to a renamed table must keep its name, so that they lead to the new table.
    connection.execute("PRAGMA legacy_alter_table = ON")
    old = _cleared(connection)
    make_schema(connection)
    if "entries" in old:
        _write_entries(connection)
    for name in old:
        if name in TABLES:
            _fill(connection, name)
    for below, statement in _NEWS:
        if version < below:
            connection.execute(statement)
    for index in INDEXES:
        connection.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")
    for name in old:
        connection.execute(f'DROP TABLE "{_OLD if name in TABLES else ""}{name}"')
    connection.execute("PRAGMA legacy_alter_table = OFF")


def _line_digest(text: str) -> str:
    return crystal_digest(Origin.LINE, text)


def _cleared(connection: sqlite3.Connection) -> list[str]:
    """Drop everything but the tables that hold rows, rename those that still exist, and return the names of all."""
    # The latest first, because a virtual table may read another table.
    rows = connection.execute(
        "SELECT s.type, s.name, t.type FROM sqlite_schema s LEFT JOIN pragma_table_list t ON t.name = s.name"
        " AND t.schema = 'main' WHERE s.sql IS NOT NULL ORDER BY s.rowid DESC"
    ).fetchall()
    old = list[str]()
    for kind, name, form in map(tuple, rows):
        if kind == "table" and form == "table" and not name.startswith("sqlite_"):
            old.append(name)
        elif form != "shadow":
            connection.execute(f'DROP {kind} "{name}"')
    for name in old:
        if name in TABLES:
            connection.execute(f'ALTER TABLE "{name}" RENAME TO "{_OLD}{name}"')
    return old


def _fill(connection: sqlite3.Connection, name: str) -> None:
    had = {row[1] for row in connection.execute(f'PRAGMA table_info("{_OLD}{name}")')}
    if name == "items" and "relations" not in had:
        connection.execute(_ITEMS)
        return
    values = {
        column: _READ.get((name, column), column) if column in had else _LACKING.get((name, column))
        for column in TABLES[name].columns
    }
    taken = {column: value for column, value in values.items() if value}
    if taken:
        connection.execute(
            f'INSERT INTO {name} ({", ".join(taken)}) SELECT {", ".join(taken.values())} FROM "{_OLD}{name}"'
        )


def _faded_at(
    importance: float, accesses: int, valence: float, created_at: str, accessed_at: str | None
) -> str | None:
    moment = faded_at(importance, accesses, valence, from_text(accessed_at or created_at))
    return to_text(moment) if moment else None


def _write_entries(connection: sqlite3.Connection) -> None:
    """Write the unexpired entries of programs to a JSON file, and their number to `meta`."""
    rows = connection.execute(
        "SELECT namespace, name AS key, value, created_at, updated_at, expires_at FROM entries"
        " WHERE expires_at IS NULL OR expires_at > ? ORDER BY namespace, name",
        (to_text(datetime.now(UTC)),),
    ).fetchall()
    if rows:
        entries = [
            {**dict(row), "namespace": _value(row["namespace"]), "value": _value(row["value"])} for row in rows
        ]
        (file,) = connection.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()
        path = Path(file).with_name(ENTRIES_FILE)
        Disk(path.parent).write_atomic(path, json.dumps(entries, ensure_ascii=False, indent=1).encode())
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (ENTRIES_WRITTEN, str(len(rows))))


def _value(text: str) -> object:
    """Decode JSON; return the text itself if it is not JSON, because another program wrote it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
