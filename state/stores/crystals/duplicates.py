"""Hidden duplicates: the row stays, and `merged_into` names its canonical crystal.

Nothing is deleted: a duplicate keeps its row, words, vector and place in its session. It is archived, and searches
show it only if it answers better than the canonical one or its exact words are asked for.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from state.crystals.crystal import Lifecycle, Origin
from state.crystals.duplicates import canonical, same_memory, with_duplicate
from state.stores.crystals.crystals import Crystals

_LISTED = "IN (SELECT value FROM json_each(?))"
# Value of `dreamt_in` for a duplicate that no dream has to see, because a dream sees its canonical crystal. Notes are
# excluded: they are consumed as notes.
_STOOD_FOR = 0


class HiddenDuplicates:
    """The hidden duplicates of one workspace."""

    def __init__(self, crystals: Crystals) -> None:
        self._crystals = crystals
        self._connection = crystals.connection

    def waiting(self, limit: int) -> list[int]:
        """Return the rows that were not compared with those that say the same yet, latest first."""
        rows = self._connection.execute("SELECT crystal FROM to_compare ORDER BY crystal DESC LIMIT ?", (limit,))
        return [int(row["crystal"]) for row in rows]

    def merge_all(self, keys: Sequence[int]) -> int:
        """Merge these rows with those that say the same; return how many were hidden. In the caller's transaction."""
        equal = (
            "SELECT DISTINCT coalesce(o.merged_into, o.key) FROM crystals c JOIN crystals o USING (folded)"
            " WHERE c.key = ? AND o.key <> c.key ORDER BY 1"
        )
        others = ((key, other) for key in keys for (other,) in self._connection.execute(equal, (key,)).fetchall())
        merged = sum(self.merge(key, other) for key, other in others)
        self._connection.execute(f"DELETE FROM to_compare WHERE crystal {_LISTED}", (json.dumps(list(keys)),))
        return merged

    def survivors(self, keys: Iterable[int]) -> dict[int, int]:
        """Map those of these rows that are hidden duplicates to their canonical rows."""
        query = f"SELECT key, merged_into FROM crystals WHERE key {_LISTED} AND merged_into IS NOT NULL"
        return dict(map(tuple, self._connection.execute(query, (json.dumps(list(keys)),))))

    def merge(self, one: int, other: int) -> bool:
        """Hide one of these rows behind the other if both are one memory; return whether one was hidden.

        Both rows are read in the caller's transaction. A crystal that a pointer ever named is never hidden.
        """
        rows = self._crystals.by_keys((one, other))
        if len(rows) < 2 or self.survivors((one, other)) or not same_memory(rows[one], rows[other]):
            return False
        pointed = f"SELECT DISTINCT crystal FROM pointers WHERE crystal {_LISTED}"
        ids = json.dumps([crystal.id for crystal in rows.values()])
        kept_ids = {row["crystal"] for row in self._connection.execute(pointed, (ids,))}
        pair = canonical(rows[one], rows[other], kept_ids)
        if pair is None:
            return False
        kept, hidden = (one, other) if pair[0].id == rows[one].id else (other, one)
        # If it has faded all the same, the next pass archives it again.
        is_archived = rows[kept].lifecycle is Lifecycle.ARCHIVED
        joined = with_duplicate(rows[kept], rows[hidden])
        self._crystals.write(kept, replace(joined, lifecycle=Lifecycle.ACTIVATED) if is_archived else joined)
        self._connection.execute(
            "UPDATE crystals SET merged_into = ?, lifecycle = ?, dreamt_in = CASE"
            " WHEN dreamt_in IS NULL AND origin <> ? AND (SELECT dreamt_in FROM crystals WHERE key = ?) IS NULL"
            " THEN ? ELSE dreamt_in END WHERE key = ?",
            (kept, Lifecycle.ARCHIVED.value, Origin.SCRATCH.value, kept, _STOOD_FOR, hidden),
        )
        # Duplicates of the hidden row move to the new canonical row.
        self._connection.execute("UPDATE crystals SET merged_into = ? WHERE merged_into = ?", (kept, hidden))
        return True
