"""Tombstones in state.db: salted hashes of forgotten texts, which keep them from being learnt and reveal nothing.

A text that a session purged is blocked as a whole: only the same text matches. A text that the owner forgot is
blocked by its words (`state.forgetting.known`): any text that contains it matches.
"""

import secrets
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from state.crystals.crystal import Crystal
from state.errors import StorageError
from state.forgetting.folded import fold
from state.forgetting.known import NOTHING, Known, Row, Target, rows_of, whole_row
from state.stores.database.connection import open_unmigrated, transaction
from state.stores.database.meta import Meta
from state.stores.database.moments import to_text

SALT = "forgotten_salt"
_STAMP = "forgotten_stamp"  # a new random value after each change
_WITHHELD = "forgotten_withheld"
_REPORTED = "forgotten_withheld_told"


class TombstoneStore:
    """The tombstones of one workspace. While nothing is blocked, a call costs one look-up for any number of texts."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._meta = Meta(connection)
        self._cached: tuple[tuple[str, str], Known] = (("", ""), NOTHING)

    def block_texts(self, texts: Iterable[str], now: datetime) -> None:
        """Block each of these texts as a whole."""
        with transaction(self._connection):
            salt = self._made_salt()
            self._insert((whole_row(salt, text) for text in texts), now)

    def block(self, target: Target, now: datetime) -> None:
        """Block every text that contains this target."""
        with transaction(self._connection):
            self._insert(rows_of(self._made_salt(), target), now)

    def unblock(self, text: str) -> bool:
        """Unblock the text, and everything in it; return whether anything was blocked."""
        if not (blocked := self.tombstones()):
            return False
        hits = blocked.hits(text)
        words = {fold(text[start:end]).words for (start, end), _ in hits} | {fold(text).words}
        gone = {row[0] for one in words if one for row in rows_of(blocked.salt, Target(one))}
        with transaction(self._connection) as connection:
            statement = "DELETE FROM forgotten WHERE digest = ?"
            rows = [(digest,) for digest in gone | {digest for _, digest in hits}]
            done = connection.executemany(statement, rows).rowcount > 0
            if done:
                self._meta.put(_STAMP, secrets.token_hex(8))
        return done

    def holds(self, text: str) -> bool:
        """Return whether the text contains a blocked text."""
        return bool(self.tombstones().found(text))

    def tombstones(self) -> Known:
        """Return all current tombstones as a value."""
        salt = self._meta.get(SALT)
        if salt is None:
            return NOTHING
        state = (salt, self._meta.get(_STAMP) or "")
        if self._cached[0] != state:
            rows = self._connection.execute("SELECT digest, length, mark FROM forgotten")
            self._cached = (state, Known(salt, frozenset(map(tuple, rows))))
        return self._cached[1]

    def without(self, text: str) -> str:
        """Return the text without its blocked sentences ("" if none remains); count it as withheld if it changes."""
        left = self.tombstones().without(text)
        self.count(int(left != text))
        return left

    def spared(self, crystals: Iterable[Crystal]) -> list[tuple[Crystal, Crystal | None]]:
        """Pair these crystals with them without blocked sentences, None if none is left; count what is withheld."""
        found, blocked = list(crystals), self.tombstones()
        pairs = [(crystal, blocked.spared(crystal) if blocked else crystal) for crystal in found]
        self.count(sum(crystal is not left for crystal, left in pairs))
        return pairs

    def count(self, texts: int = 1) -> None:
        """Count this many more texts as withheld, wholly or in part."""
        if texts:
            self._meta.count(_WITHHELD, texts)

    def withheld(self) -> int:
        """Return how many texts were ever withheld."""
        return int(self._meta.get(_WITHHELD) or 0)

    def withheld_lately(self) -> int:
        """Return how many texts were withheld since the last call."""
        total = self.withheld()
        lately = total - int(self._meta.get(_REPORTED) or 0)
        if lately:
            self._meta.put(_REPORTED, str(total))
        return lately

    def _made_salt(self) -> str:
        """Return the salt, creating it if missing. The caller changes the tombstones in the same transaction."""
        salt = self._meta.get(SALT)
        if salt is None:
            salt = secrets.token_hex(32)
            self._meta.put(SALT, salt)
        self._meta.put(_STAMP, secrets.token_hex(8))
        return salt

    def _insert(self, rows: Iterable[Row], now: datetime) -> None:
        statement = "INSERT OR IGNORE INTO forgotten (digest, length, mark, at) VALUES (?, ?, ?, ?)"
        self._connection.executemany(statement, ((*row, to_text(now)) for row in rows))


def tombstones_in(database: Path) -> Known:
    """Return the tombstones in this state.db, read without its lock; none if it cannot be read."""
    if database.exists():
        with suppress(sqlite3.Error, StorageError), open_unmigrated(database) as connection:
            return TombstoneStore(connection).tombstones()
    return NOTHING
