"""Intent: the targets of a forgetting in progress, stored until it ends so that it resumes after a crash.

With it are the receipts of past forgettings (figures and a salted digest, never the text) and the list of what stays
forgotten. A text has many tombstones; all that were written in one forgetting are one entry of that list.
"""

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from state.forgetting.cutting import Cut
from state.forgetting.known import Target
from state.stores.database.connection import from_text, to_text, transaction
from state.stores.database.meta import Meta
from state.stores.database.tombstones import SALT
from state.stores.erasing.plan import INTENTION, Erasure

UNFINISHED = "forgetting has not ended"
ADVICE = "run 'dreamd forget', which goes on with it"
_DONE = "forgettings"
_MOST_DONE = 200
_DIGITS = 16
_ENTRIES = "SELECT at, min(digest) AS digest, length = 0 AS whole FROM forgotten GROUP BY at, iif(length, '', digest)"


def intend(connection: sqlite3.Connection, erasure: Erasure) -> None:
    """Store what is to be erased, so that it survives a crash. In the caller's transaction, or one of its own."""
    record = {
        "targets": [list(target.words) for target in erasure.sought],
        "kept": [list(target.words) for target in erasure.targets if target.kept],
        "cut": erasure.cut.value,
        "crystals": sorted(erasure.crystals),
        "keywords": sorted(erasure.keywords),
    }
    with transaction(connection):
        Meta(connection).put(INTENTION, json.dumps(record, ensure_ascii=False))


def intended(connection: sqlite3.Connection) -> Erasure | None:
    """Return the unfinished forgetting; None if there is none."""
    value = Meta(connection).get(INTENTION)
    if value is None:
        return None
    record = json.loads(value)
    targets = tuple(Target(tuple(words)) for words in record["targets"])
    targets += tuple(Target(tuple(words), kept=True) for words in record["kept"])
    return Erasure(targets, Cut(record["cut"]), frozenset(record["crystals"]), frozenset(record["keywords"]))


def is_unfinished(connection: sqlite3.Connection) -> bool:
    """Return whether a forgetting has begun but not ended."""
    return Meta(connection).get(INTENTION) is not None


def finish(connection: sqlite3.Connection) -> None:
    """End the forgetting: delete its stored intent."""
    with transaction(connection):
        Meta(connection).remove(INTENTION)


def digest(connection: sqlite3.Connection, targets: Iterable[Target]) -> str:
    """Return a salted digest of the forgotten texts, which reveals only whether two forgettings were the same."""
    words = "\0".join(" ".join(target.words) for target in targets)
    salt = bytes.fromhex(Meta(connection).get(SALT) or "")
    return hmac.digest(salt, f"receipt\0{words}".encode("utf-8", "surrogatepass"), hashlib.sha256).hex()[:16]


def keep_receipt(connection: sqlite3.Connection, at: datetime, digest: str, figures: Mapping[str, int | str]) -> None:
    """Store the receipt of a forgetting with its figures."""
    with transaction(connection):
        known = [one for one in receipts(connection) if one["at"] != to_text(at)]
        kept = [*known, {"at": to_text(at), "digest": digest, **figures}][-_MOST_DONE:]
        Meta(connection).put(_DONE, json.dumps(kept))


def receipts(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return the stored receipts, latest last."""
    found: list[dict[str, Any]] = json.loads(Meta(connection).get(_DONE) or "[]")
    return found


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


def forgotten_list(connection: sqlite3.Connection) -> list[Forgotten]:
    """Return what stays forgotten, latest first."""
    told = {one["at"]: one for one in receipts(connection)}
    rows = connection.execute(f"SELECT * FROM ({_ENTRIES}) ORDER BY at DESC, digest DESC")
    return [_entry(row, {} if row["whole"] else told.get(row["at"], {})) for row in rows]


def _entry(row: sqlite3.Row, receipt: dict[str, object]) -> Forgotten:
    words, cut, digest = receipt.get("words"), receipt.get("cut"), receipt.get("digest") or row["digest"]
    return Forgotten(
        at=from_text(row["at"]),
        digest=str(digest)[:_DIGITS],
        whole=bool(row["whole"]),
        words=words if isinstance(words, int) else None,
        cut=cut if isinstance(cut, str) else "",
    )
