"""Refused inputs: how many dreams were refused over an input, so that no model is asked of it for ever."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable

from state.dream import Evidence
from state.stores.database.connection import transaction
from state.stores.database.meta import Meta

ENOUGH = 3
# In `meta`: for each input the number of dreams.
_COUNTS = "refused_inputs"
# The latest; what was refused longer ago may be tried again.
_KEPT = 1_000


class RefusedInputs:
    """The counts of one workspace. A text is known by its digest, or by the id of its crystal."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def count(self, pieces: Iterable[Evidence]) -> None:
        """Return one more dream was refused over these."""
        with transaction(self._connection) as connection:
            counts = self._counts()
            for key in dict.fromkeys(map(_key, pieces)):
                counts[key] = counts.pop(key, 0) + 1
            Meta(connection).put(_COUNTS, json.dumps(dict(list(counts.items())[-_KEPT:])))

    def enough(self, pieces: Iterable[Evidence]) -> tuple[str, ...]:
        """Return the ids of those over which three dreams were refused."""
        counts = self._counts()
        return tuple(piece.id for piece in pieces if counts and counts.get(_key(piece), 0) >= ENOUGH)

    def _counts(self) -> dict[str, int]:
        counts: dict[str, int] = json.loads(Meta(self._connection).get(_COUNTS) or "{}")
        return counts


def _key(piece: Evidence) -> str:
    text = f"{piece.kind.value} {piece.text}".encode("utf-8", "surrogatepass")
    return piece.crystal or hashlib.sha256(text).hexdigest()[:32]
