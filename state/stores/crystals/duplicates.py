"""Hidden near-duplicates: the row stays, and `merged_into` names the visible one.

Nothing is deleted: a duplicate keeps its row, words, vector and place in its session. It is archived, and a search
shows it only where it answers better or is asked for word for word.
"""

import json
from collections.abc import Iterable, Sequence

from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin
from state.crystals.duplicates import canonical, same_memory, with_duplicate
from state.crystals.lifecycle import fades_at
from state.stores.crystals import skills
from state.stores.crystals.crystals import Crystals
from state.stores.database.tables import CrystalRow

_LISTED = "SELECT value FROM json_each(?)"
# `dreamt_in` of a crystal that no dream has to see, because its survivor is seen. Notes are consumed by themselves.
_STOOD_FOR = 0


class HiddenDuplicates:
    """The merged crystals of one workspace."""

    def __init__(self, crystals: Crystals) -> None:
        self._crystals = crystals
        self._connection = crystals.connection

    def waiting(self, limit: int) -> list[int]:
        """Return the rows whose vectors have not been compared with their nearest ones yet, the latest first."""
        rows = self._connection.execute(
            "SELECT crystal FROM to_compare WHERE crystal NOT IN (SELECT crystal FROM to_embed)"
            " ORDER BY crystal DESC LIMIT ?",
            (limit,),
        )
        return [int(row["crystal"]) for row in rows]

    def compared(self, keys: Sequence[int]) -> None:
        """Mark these rows as compared; tasks among them may be new skills. In the caller's transaction."""
        listed = json.dumps(list(keys))
        self._connection.execute(f"DELETE FROM to_compare WHERE crystal IN ({_LISTED})", (listed,))
        query = f"SELECT 1 FROM crystals WHERE key IN ({_LISTED}) AND kind = ? LIMIT 1"
        if self._connection.execute(query, (listed, Kind.TASK_PATTERN.value)).fetchone():
            skills.expect_more(self._connection)

    def survivors(self, keys: Iterable[int]) -> dict[int, int]:
        """For each of these rows that is a hidden duplicate, its canonical row."""
        rows = self._connection.execute(
            f"SELECT key, merged_into FROM crystals WHERE key IN ({_LISTED}) AND merged_into IS NOT NULL",
            (json.dumps(list(keys)),),
        )
        return {int(row["key"]): int(row["merged_into"]) for row in rows}

    def merge(self, one: int, other: int) -> bool:
        """Hide one of these rows behind the other, if both are one memory and it may be hidden; whether one was.

        In the caller's transaction, in which the rows are read. A crystal that a pointer, current or not, names
        is never hidden.
        """
        if one == other or self.survivors((one, other)):
            return False
        rows = self._crystals.by_keys((one, other))
        if len(rows) < 2 or not same_memory(rows[one], rows[other]):
            return False
        pair = canonical(rows[one], rows[other], self._pointed(crystal.id for crystal in rows.values()))
        if pair is None:
            return False
        kept, hidden = (one, other) if pair[0].id == rows[one].id else (other, one)
        self._keep(kept, with_duplicate(rows[kept], rows[hidden]))
        self._hide(hidden, kept)
        return True

    def _pointed(self, ids: Iterable[str]) -> set[str]:
        rows = self._connection.execute(
            f"SELECT DISTINCT crystal FROM pointers WHERE crystal IN ({_LISTED})", (json.dumps(list(ids)),)
        )
        return {row["crystal"] for row in rows}

    def _keep(self, key: int, crystal: Crystal) -> None:
        # If that is not enough, the next pass archives it again.
        is_archived = crystal.lifecycle is Lifecycle.ARCHIVED
        CrystalRow.table.change(
            self._connection,
            "key = ?",
            key,
            importance=crystal.importance,
            accesses=crystal.accesses,
            last_accessed_at=crystal.last_accessed_at,
            parents=crystal.parents,
            fades_at=fades_at(crystal),
            lifecycle=Lifecycle.ACTIVATED if is_archived else crystal.lifecycle,
        )

    def _hide(self, key: int, canonical_key: int) -> None:
        self._connection.execute(
            "UPDATE crystals SET merged_into = ?, lifecycle = ?, dreamt_in = CASE"
            " WHEN dreamt_in IS NULL AND origin <> ? AND (SELECT dreamt_in FROM crystals WHERE key = ?) IS NULL"
            " THEN ? ELSE dreamt_in END WHERE key = ?",
            (canonical_key, Lifecycle.ARCHIVED.value, Origin.SCRATCH.value, canonical_key, _STOOD_FOR, key),
        )
        # Its own duplicates get the new canonical row.
        self._connection.execute("UPDATE crystals SET merged_into = ? WHERE merged_into = ?", (canonical_key, key))
