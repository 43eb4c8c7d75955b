"""Full-text indexes: FTS5, stemmed, over the crystals' text and context (`words`) and over archived session items.

The indexes hold no text of their own (external content), so they can always be rebuilt. Words come from
`state.text.words.terms`, which cuts scripts without spaces into pairs of characters. FTS5's tokenizer does not, so
the pairs have a column of their own.
"""

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from state.text.words import search_form, signs, terms

# The most index entries that one query may read. Words are taken rarest first: the frequent words that no longer fit
# say little about any single text.
MAX_POSTINGS = 8_000
# The version of FTS5's index format without 'secure-delete' (fts5Int.h: FTS5_CURRENT_VERSION).
_FORMAT = 4
# The columns of each index, and the table or view that holds its rows.
_INDEXED = {"words": ("text, context, pairs", "crystals"), "cold_words": ("content, tags, pairs", "cold_items")}
_WHOLE_WORD = re.compile(r"[^\W_]+")


def pairs(text: str) -> str:
    """Return the character pairs of all unspaced runs, and the signs, separated by blanks; "" if there are none."""
    whole = set(_WHOLE_WORD.findall(search_form(text))) if not text.isascii() else ()
    cut = (term for term in terms(text) if not term.isascii() and term not in whole) if whole else ()
    return " ".join((*cut, *signs(text)))


def add(connection: sqlite3.Connection, key: int, index: str = "words") -> None:
    """Index a row that was just written, in the caller's transaction."""
    columns, table = _INDEXED[index]
    statement = f"INSERT INTO {index} (rowid, {columns}) SELECT key, {columns} FROM {table}"
    connection.execute(f"{statement} WHERE key = ?", (key,))


def frequency(connection: sqlite3.Connection, words: Iterable[str]) -> dict[str, int]:
    """Count the crystals that hold each of these words in any form, up to MAX_POSTINGS + 1."""
    counting = f"SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT {MAX_POSTINGS + 1})"
    return {word: int(connection.execute(counting, (_quoted(word),)).fetchone()[0]) for word in words}


def within_budget(counts: Mapping[str, int]) -> list[str]:
    """Return the occurring words, rarest first, that together stay within MAX_POSTINGS; always at least one."""
    chosen: list[str] = []
    spent = 0
    for word, count in sorted(counts.items(), key=lambda pair: pair[1]):
        spent += count
        if count and (not chosen or spent <= MAX_POSTINGS):
            chosen.append(word)
    return chosen


def matching_words(connection: sqlite3.Connection, words: Sequence[str], rows: Iterable[int]) -> dict[int, int]:
    """Return, by row, the words it holds: bit i stands for words[i]. Rows without any are left out."""
    cursor = connection.cursor()
    cursor.row_factory = None
    # The plus keeps FTS5 from looking up the word again for every row.
    statement = "SELECT rowid FROM words WHERE words MATCH ? AND +rowid IN (SELECT value FROM json_each(?))"
    listed = json.dumps(list(rows))
    found: dict[int, int] = defaultdict(int)
    for bit, word in enumerate(words):
        for (row,) in cursor.execute(statement, (_quoted(word), listed)):
            found[row] |= 1 << bit
    return dict(found)


def nearest(
    connection: sqlite3.Connection, words: Sequence[str], k: int, condition: str = "", values: Sequence[object] = ()
) -> dict[int, float]:
    """Return the BM25 of the k best crystals that hold at least one of these words, by row, best first.

    Words are quoted, so none is read as FTS5 syntax. `condition` is SQL over the table `crystals`.
    """
    if not words:
        return {}
    # Ordered by rank alone, FTS5 sorts by itself and checks the condition only until k rows have passed.
    where = f"AND EXISTS (SELECT 1 FROM crystals WHERE key = words.rowid AND {condition})" if condition else ""
    rows = connection.execute(
        f"SELECT rowid, -rank FROM words WHERE words MATCH ? {where} ORDER BY rank LIMIT ?",
        (" OR ".join(map(_quoted, words)), *values, k),
    )
    return {int(row[0]): float(row[1]) for row in rows}


def holding(text: str) -> str:
    """Return an FTS5 expression for crystals whose text holds all these words; the last one may be a prefix.

    It is empty if there is no word. An unspaced run matches where all its character pairs occur.
    """
    found = []
    pieces = [piece for piece in text.split() if _WHOLE_WORD.search(piece)]
    for piece in pieces:
        said = _quoted(piece) + (" *" if piece is pieces[-1] else "")
        apart = " AND ".join(map(_quoted, pairs(piece).split()))
        found.append(f"({said} OR ({apart}))" if apart else f"({said})")
    return f"{{text pairs}} : ({' AND '.join(found)})" if found else ""


def phrase(text: str) -> str:
    """Return an FTS5 expression for crystals whose text holds these words one after the other, in any form."""
    return f"{{text}} : {_quoted(text)}"


def is_behind(connection: sqlite3.Connection) -> bool:
    """Return whether the index and the table differ in length, which is cheap enough for every opening."""
    differ = "SELECT (SELECT count(*) FROM words_docsize) <> (SELECT count(*) FROM crystals)"
    return bool(connection.execute(differ).fetchone()[0])


def is_torn(connection: sqlite3.Connection, index: str = "words") -> bool:
    """Return whether a full-text index differs from its rows anywhere; this reads all of both."""
    try:
        connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
        # For a damaged version number FTS5 raises a plain error, which names the cure: "run 'rebuild'".
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CORRUPT or "invalid fts5 file format" in str(error):
            return True
        raise
    return False


def remove(connection: sqlite3.Connection, key: int, index: str = "words") -> None:
    """Remove a row that is about to change or go from the index, in the caller's transaction."""
    columns, table = _INDEXED[index]
    statement = f"INSERT INTO {index} ({index}, rowid, {columns}) SELECT 'delete', key, {columns} FROM {table}"
    connection.execute(f"{statement} WHERE key = ?", (key,))


def compact(connection: sqlite3.Connection) -> None:
    """Merge the index into one segment, so that no old segment keeps the words of removed rows."""
    command = "rebuild" if is_behind(connection) else "optimize"
    connection.execute("INSERT INTO words (words) VALUES (?)", (command,))


def rebuild(connection: sqlite3.Connection, index: str = "words") -> None:
    """Rebuild a full-text index from its rows, so that no old segment keeps the words of removed ones."""
    # FTS5 refuses to rebuild an index with a damaged version number, so the number is repaired first.
    connection.execute(f"INSERT OR REPLACE INTO {index}_config (k, v) VALUES ('version', {_FORMAT})")
    connection.execute(f"INSERT INTO {index} ({index}) VALUES ('rebuild')")


def _quoted(word: str) -> str:
    """Quote the word as an FTS5 string, so that nothing in it is syntax."""
    return '"' + word.replace('"', '""').replace("\0", " ") + '"'
