"""What is not to be learnt again: hashes of texts, which say nothing about them; the salt is the database's own."""

import hashlib
import hmac
import secrets
import sqlite3
import unicodedata
from collections.abc import Iterable
from datetime import datetime

from state.stores.database import to_text, transaction

_SALT = "forgotten_salt"


class Forgotten:
    """The tombstones of one workspace."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def bury(self, texts: Iterable[str], now: datetime) -> None:
        """These are not to be learnt again."""
        with transaction(self._connection) as connection:
            connection.execute(
                "INSERT OR IGNORE INTO meta (name, value) VALUES (?, ?)", (_SALT, secrets.token_hex(32))
            )
            salt = self._salt()
            connection.executemany(
                "INSERT OR IGNORE INTO forgotten (digest, at) VALUES (?, ?)",
                [(_digest(salt, text), to_text(now)) for text in texts],
            )

    def holds(self, text: str) -> bool:
        """Whether it was forgotten; white space at its ends and Unicode forms are folded, as a crystal's id does."""
        return bool(self.among((text,)))

    def among(self, texts: Iterable[str]) -> set[str]:
        """Which of these were forgotten: a look-up each, and none when nothing was ever forgotten."""
        salt = self._salt()
        find = "SELECT 1 FROM forgotten WHERE digest = ?"
        return {text for text in texts if salt and self._connection.execute(find, (_digest(salt, text),)).fetchone()}

    def _salt(self) -> bytes:
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (_SALT,)).fetchone()
        return bytes.fromhex(row["value"]) if row else b""


def _digest(salt: bytes, text: str) -> str:
    folded = unicodedata.normalize("NFC", text.strip()).encode("utf-8", "surrogatepass")
    return hmac.new(salt, folded, hashlib.sha256).hexdigest()
