"""Former entries: what programs kept under names in state.db before; a migration writes it to a file."""

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from state.stores.disk.disk import Disk

ENTRIES = """
-- A namespace is a JSON list of labels. `fields` (JSON) are the paths of what is compared by meaning, `embedded_by`
-- the model whose vectors there are; empty: none yet.
CREATE TABLE entries (
    key         INTEGER PRIMARY KEY,
    namespace   TEXT NOT NULL,
    name        TEXT NOT NULL,
    value       TEXT NOT NULL,
    fields      TEXT NOT NULL DEFAULT '[]',
    created_at  TEXT NOT NULL,
    updated_at  TEXT NOT NULL,
    lifetime    REAL,                       -- seconds from its last use on
    expires_at  TEXT,
    embedded_by TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX entries_by_name ON entries (namespace, name);
CREATE INDEX entries_by_update ON entries (updated_at, key);
CREATE INDEX entries_by_expiry ON entries (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX entries_by_model ON entries (embedded_by, updated_at DESC) WHERE fields <> '[]';
-- All that tells which rows below a namespace are meant, and in which order: no row is read for that.
CREATE INDEX entries_below ON entries (namespace, updated_at, expires_at, embedded_by);

CREATE TABLE entry_vectors (
    key    INTEGER PRIMARY KEY,
    entry  INTEGER NOT NULL REFERENCES entries (key) ON DELETE CASCADE,
    vector BLOB NOT NULL                    -- little-endian float32, L2-normalised
);
CREATE INDEX entry_vectors_by_entry ON entry_vectors (entry);
"""
NO_ENTRIES = """
DROP TABLE entry_vectors;
DROP TABLE entries;
"""
FILE = "entries.json"
WRITTEN = "entries_written"
"""In `meta`: how many entries the file has, until somebody was told."""


def write_entries(connection: sqlite3.Connection) -> None:
    """Write the entries that have not expired to a JSON file beside the database, and their number to `meta`.

    Call it in the transaction that drops their tables. Cut off before the commit, it is done again.
    """
    rows = connection.execute(
        "SELECT namespace, name, value, created_at, updated_at, expires_at FROM entries"
        " WHERE expires_at IS NULL OR expires_at > ? ORDER BY namespace, name",
        (datetime.now(UTC).isoformat(timespec="microseconds"),),
    ).fetchall()
    if not rows:
        return
    entries = [
        {
            "namespace": _value(row["namespace"]),
            "key": row["name"],
            "value": _value(row["value"]),
            "created_at": row["created_at"],
            "updated_at": row["updated_at"],
            "expires_at": row["expires_at"],
        }
        for row in rows
    ]
    (file,) = connection.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()
    path = Path(file).with_name(FILE)
    Disk(path.parent).write_atomic(path, json.dumps(entries, ensure_ascii=False, indent=1).encode())
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (WRITTEN, str(len(entries))))


def _value(text: str) -> object:
    """Return what the JSON says; the text itself if somebody else has written it and it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
