"""Forgotten list: what is kept from being learnt again, without a word of it.

The tombstones of a text are many hashes; those that were written in one forgetting are one entry. What a session
purged is an entry for each memory.
"""

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from state.stores.database.connection import from_text
from state.stores.erasing.intent import receipts

_DIGITS = 16
_LATEST = ("~", "")  # sorts after every moment
_ENTRIES = "SELECT at, min(digest) AS digest, length = 0 AS whole FROM forgotten GROUP BY at, iif(length, '', digest)"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten at a moment. `digest` names it; `whole`: a memory that a session purged, known as a whole.

    `words` of all texts together and `cut` (sentences, words) stand in its receipt; None and "" where there is none.
    `place` is where it stands in the list.
    """

    at: datetime
    digest: str
    whole: bool
    words: int | None
    cut: str
    place: tuple[str, str]


def forgotten_list(connection: sqlite3.Connection, limit: int, after: tuple[str, ...] = ()) -> list[Forgotten]:
    """Return what stays forgotten, the latest first, at most `limit`, after this place."""
    told = {one["at"]: one for one in receipts(connection)}
    rows = connection.execute(
        f"SELECT * FROM ({_ENTRIES}) WHERE (at, digest) < (?, ?) ORDER BY at DESC, digest DESC LIMIT ?",
        (*(after or _LATEST), limit),
    )
    return [_entry(row, {} if row["whole"] else told.get(row["at"], {})) for row in rows]


def forgotten_count(connection: sqlite3.Connection) -> int:
    """Return how many entries the list has."""
    return int(connection.execute(f"SELECT count(*) FROM ({_ENTRIES})").fetchone()[0])


def _entry(row: sqlite3.Row, receipt: dict[str, object]) -> Forgotten:
    words, cut, digest = receipt.get("words"), receipt.get("cut"), receipt.get("digest") or row["digest"]
    return Forgotten(
        at=from_text(row["at"]),
        digest=str(digest)[:_DIGITS],
        whole=bool(row["whole"]),
        words=words if isinstance(words, int) else None,
        cut=cut if isinstance(cut, str) else "",
        place=(row["at"], row["digest"]),
    )
