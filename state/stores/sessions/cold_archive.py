"""Cold archive: the items that left a session, unchanged, found by their words and restorable.

The full-text index holds no text of its own: it is over the view `cold_items`, so it can be built anew.
"""

import json
import sqlite3
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing

from state.sessions.item import Item
from state.stores.crystals import full_text
from state.stores.sessions.rows import COLUMNS, Session, item_of
from state.text.words import stop_words, terms

_LISTED = "SELECT value FROM json_each(?)"
_UNDREAMT = "cold = 1 AND dreamt_in IS NULL AND promoted_to = ''"
_MOST_WORDS = 64  # of a query
_OLD_WORDS = (
    "INSERT INTO cold_words (cold_words, rowid, content, tags, pairs) SELECT 'delete', key, content, tags, pairs"
)


class ColdArchive:
    """The cold items of one workspace. Writing is a part of the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def take(self, rows: Sequence[tuple[int, str]]) -> None:
        """Archive the items in these rows: (key, content)."""
        self._connection.executemany(
            "UPDATE items SET cold = 1, pairs = ? WHERE key = ?",
            [(full_text.pairs(content), key) for key, content in rows],
        )
        self._connection.execute(
            "INSERT INTO cold_words (rowid, content, tags, pairs) SELECT key, content, tags, pairs FROM items"
            f" WHERE key IN ({_LISTED})",
            (json.dumps([key for key, _ in rows]),),
        )

    def give_back(self, keys: Iterable[int]) -> None:
        """Take these rows out of the archive; rows that are not in it are left as they are."""
        listed = json.dumps(list(keys))
        condition = f"FROM items WHERE cold = 1 AND key IN ({_LISTED})"
        self._connection.execute(f"{_OLD_WORDS} {condition}", (listed,))
        self._connection.execute(
            f"UPDATE items SET cold = 0, pairs = '' WHERE cold = 1 AND key IN ({_LISTED})", (listed,)
        )

    def rebuild(self) -> None:
        """Build the full-text index anew: its old segments keep no word of what was purged."""
        self._connection.execute("INSERT INTO cold_words (cold_words) VALUES ('rebuild')")

    def search(self, query: str, session: Session | None = None) -> Generator[Item]:
        """The cold items that hold a word of the query, the best first; without words the latest to come first.

        `session`: None searches those of all sessions. Close it: it reads as far as it is asked.
        """
        found = list(dict.fromkeys(terms(query)))
        words = ([word for word in found if word not in stop_words()] or found)[:_MOST_WORDS]
        where, values = ("AND session = ?", [session.key]) if session else ("", [])
        if not words and query.strip():
            return
        if words:
            rows = self._connection.execute(
                f"SELECT {COLUMNS} FROM cold_words JOIN items ON items.key = cold_words.rowid"
                f" WHERE cold_words MATCH ? {where} ORDER BY rank, items.key DESC",
                (" OR ".join(map(_quoted, words)), *values),
            )
        else:
            rows = self._connection.execute(
                f"SELECT {COLUMNS} FROM items WHERE cold = 1 {where} ORDER BY key DESC", values
            )
        with closing(rows):  # else it would keep its moment of the database
            yield from map(item_of, rows)

    def undreamt(self, limit: int) -> list[Item]:
        """The items for the next dream: those that a hard limit removed first, then by importance, then by age."""
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM items WHERE {_UNDREAMT} ORDER BY rescue DESC, importance DESC, key LIMIT ?",
            (limit,),
        )
        return [item_of(row) for row in rows.fetchall()]

    def dreamt(self, ids: Iterable[str], version: int) -> None:
        """Mark these items as consumed by the dream of this version."""
        self._connection.execute(
            f"UPDATE items SET dreamt_in = ? WHERE dreamt_in IS NULL AND cold = 1 AND id IN ({_LISTED})",
            (version, json.dumps(list(ids))),
        )

    def undreamt_count(self, most: int) -> int:
        """How many items wait for the next dream; counting stops at `most`."""
        found = self._connection.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM items WHERE {_UNDREAMT} LIMIT ?)", (most,)
        )
        return int(found.fetchone()[0])


def _quoted(word: str) -> str:
    # `terms` gives letters, digits and marks alone.
    return f'"{word}"'
