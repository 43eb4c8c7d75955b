"""Intent: the targets of a forgetting in progress, stored until it ends so that it resumes after a crash.

With it are the receipts of past forgettings (figures and a salted digest, never the text) and the list of what stays
forgotten. A text has several tombstones; all that were written in one forgetting are one entry of that list.
"""

import hashlib
import hmac
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from state.codec import decode, encode
from state.forgetting.known import Target
from state.stores.database.connection import transaction
from state.stores.database.meta import Meta
from state.stores.database.moments import from_text
from state.stores.database.tables import ForgettingRow
from state.stores.database.tombstones import SALT
from state.stores.erasing.plan import Erasure

UNFINISHED = "forgetting has not ended"
ADVICE = "run 'dreamd forget', which goes on with it"
_INTENTION = "forgetting"
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten at one moment. `digest` identifies it; `whole` marks an item that a session purged.

    `words` (of all texts together) and `cut` (sentences or words) come from its receipt; None and "" without one.
    """

    at: datetime
    digest: str
    whole: bool
    words: int | None
    cut: str


def intend(connection: sqlite3.Connection, erasure: Erasure) -> None:
    """Store what is to be erased, so that it survives a crash. In the caller's transaction, or one of its own."""
    with transaction(connection):
        Meta(connection).put(_INTENTION, encode(erasure))


def intended(connection: sqlite3.Connection) -> Erasure | None:
    """Return the unfinished forgetting; None if there is none."""
    value = Meta(connection).get(_INTENTION)
    return decode(Erasure, value, "an unfinished forgetting") if value is not None else None


def is_unfinished(connection: sqlite3.Connection) -> bool:
    """Return whether a forgetting has begun but not ended."""
    return Meta(connection).get(_INTENTION) is not None


def finish(connection: sqlite3.Connection) -> None:
    """End the forgetting: delete its stored intent."""
    with transaction(connection):
        Meta(connection).remove(_INTENTION)


def digest(connection: sqlite3.Connection, targets: Iterable[Target]) -> str:
    """Return a salted digest of the forgotten texts, which reveals only whether two forgettings were the same."""
    words = "\0".join(" ".join(target.words) for target in targets)
    salt = bytes.fromhex(Meta(connection).get(SALT) or "")
    return hmac.digest(salt, f"receipt\0{words}".encode("utf-8", "surrogatepass"), hashlib.sha256).hex()[:_DIGITS]


def keep_receipt(connection: sqlite3.Connection, at: datetime, digest: str, words: int, cut: str) -> None:
    """Store the receipt of a forgetting."""
    with transaction(connection):
        ForgettingRow.table.add(connection, None, "INSERT OR REPLACE", at=at, digest=digest, words=words, cut=cut)


def forgotten_list(connection: sqlite3.Connection) -> list[Forgotten]:
    """Return what stays forgotten, latest first."""
    rows = connection.execute(
        "SELECT f.at, f.length = 0 AS whole, coalesce(r.digest, min(f.digest)) AS digest, r.words, r.cut"
        " FROM forgotten f LEFT JOIN forgettings r ON r.at = f.at AND f.length <> 0"
        " GROUP BY f.at, iif(f.length, '', f.digest) ORDER BY f.at DESC, min(f.digest) DESC"
    )
    return [
        Forgotten(from_text(row["at"]), row["digest"][:_DIGITS], bool(row["whole"]), row["words"], row["cut"] or "")
        for row in rows
    ]
