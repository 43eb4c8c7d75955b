"""Entry erasure: takes forgotten texts out of what programs keep; an entry that is named after one is deleted."""

import sqlite3

from state.stores.entries.meanings import forget_vectors
from state.stores.erasing.plan import Erasure


def erase_entries(connection: sqlite3.Connection, erasure: Erasure) -> int:
    """Erase the targets from every entry; returns how many held one. In the caller's transaction."""
    rows = connection.execute("SELECT key, namespace, name, value FROM entries").fetchall()
    named = [(row["key"],) for row in rows if erasure.holds(row["name"]) or erasure.holds(row["namespace"])]
    connection.executemany("DELETE FROM entries WHERE key = ?", named)
    changed = [
        (value, row["key"])
        for row in rows
        if (row["key"],) not in named and (value := erasure.json(row["value"])) != row["value"]
    ]
    connection.executemany("UPDATE entries SET value = ? WHERE key = ?", changed)
    forget_vectors(connection, [key for _, key in changed])
    return len(named) + len(changed)
