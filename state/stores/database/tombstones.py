"""Tombstones in state.db: salted hashes of forgotten texts, which keep them from being learnt and reveal nothing.

A text that a session purged is blocked as a whole: only an identical text matches. A text that the owner forgot is
blocked as runs of its letters (`state.forgetting.known`): any text that contains it matches.
"""

import secrets
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from state.crystals.crystal import Crystal
from state.errors import StorageError
from state.forgetting.digests import digest_of_text
from state.forgetting.known import NOTHING, WHOLE, Known, Row, Target, rows_of
from state.forgetting.letters import letters_of
from state.stores.database.connection import open_unmigrated, to_text, transaction
from state.stores.database.meta import Meta

SALT = "forgotten_salt"
STAMP = "forgotten_stamp"  # a new random value after each change
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
            self._insert(((digest_of_text(salt, text), WHOLE, 0) for text in texts), now)

    def block(self, target: Target, now: datetime) -> None:
        """Block every text that contains this target."""
        with transaction(self._connection):
            self._insert(rows_of(self._made_salt(), target), now)

    def unblock(self, text: str) -> bool:
        """Unblock the text; return whether it was blocked. Parts that were blocked separately stay blocked."""
        salt = self.tombstones().salt
        return bool(salt) and self._delete(_digests_of(salt, text))

    def unblock_all_of(self, text: str) -> bool:
        """Unblock everything in this text that is blocked; return whether anything was."""
        blocked = self.tombstones()
        if not blocked:
            return False
        pieces = {text, *(text[start:end] for start, end in blocked.found(text))}
        gone = {digest_of_text(blocked.salt, text)}.union(*(_digests_of(blocked.salt, piece) for piece in pieces))
        done = self._delete(gone)
        while hits := self.tombstones().hits(text):
            done = self._delete(hits)
        return done

    def holds(self, text: str) -> bool:
        """Return whether the text contains a blocked text."""
        return bool(self.tombstones().found(text))

    def tombstones(self) -> Known:
        """Return all current tombstones as a value."""
        salt = self._meta.get(SALT)
        if salt is None:
            return NOTHING
        state = (salt, self._meta.get(STAMP) or "")
        if self._cached[0] != state:
            rows = self._connection.execute("SELECT digest, length, mark FROM forgotten")
            self._cached = (state, Known(salt, frozenset(map(tuple, rows))))
        return self._cached[1]

    def without_forgotten(self, text: str) -> str:
        """Return the text without its blocked sentences ("" if none remains); count it as withheld if it changes."""
        left = self.tombstones().without(text)
        if left != text:
            self.count()
        return left

    def spared(self, crystals: Iterable[Crystal]) -> list[tuple[Crystal, Crystal | None]]:
        """Pair these crystals with them without blocked sentences, None if none is left; count what is withheld."""
        found, blocked = list(crystals), self.tombstones()
        pairs = [(crystal, blocked.spared(crystal) if blocked else crystal) for crystal in found]
        self.count(sum(crystal is not left for crystal, left in pairs))
        return pairs

    def withholds(self, text: str) -> bool:
        """Return whether the text contains a blocked text; if so, count it as withheld."""
        is_blocked = self.holds(text)
        self.count(int(is_blocked))
        return is_blocked

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
        self._changed()
        return salt

    def _changed(self) -> None:
        self._meta.put(STAMP, secrets.token_hex(8))

    def _insert(self, rows: Iterable[tuple[str, int, int]], now: datetime) -> None:
        at = to_text(now)
        self._connection.executemany(
            "INSERT OR IGNORE INTO forgotten (digest, at, length, mark) VALUES (?, ?, ?, ?)",
            [(digest, at, length, mark) for digest, length, mark in rows],
        )

    def _delete(self, digests: Iterable[str]) -> bool:
        with transaction(self._connection) as connection:
            gone = connection.executemany(
                "DELETE FROM forgotten WHERE digest = ?", [(digest,) for digest in digests]
            ).rowcount
            if gone:
                self._changed()
        return gone > 0


def tombstones_in(database: Path) -> Known:
    """Return the tombstones in this state.db, read without its lock; none if it cannot be read."""
    if database.exists():
        with suppress(sqlite3.Error, StorageError), open_unmigrated(database) as connection:
            return TombstoneStore(connection).tombstones()
    return NOTHING


def _digests_of(salt: str, text: str) -> set[str]:
    """Return all digests that may be stored for a text."""
    words = letters_of(text).words()
    rows: Iterable[Row] = rows_of(salt, Target(words)) if words else ()
    return {digest for digest, _, _ in rows}
