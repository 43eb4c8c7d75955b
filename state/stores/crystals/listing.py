"""Listing: the crystals as a table that is filtered, sorted and read page by page.

A page begins after the place of the last row read (its sorted value, then its key). So every page costs the same, and
no row is shown twice when crystals are added.
"""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from state.crystals.crystal import Lifecycle
from state.errors import UsageError
from state.search.ranking import Filters
from state.stores.crystals import full_text
from state.stores.crystals.crystals import COLUMNS
from state.stores.crystals.search import EVERYTHING, condition
from state.stores.database.moments import optional_moment, to_text
from state.stores.database.tables import CrystalRow

MOST_COUNTED = 10_000
_LISTED = "IN (SELECT value FROM json_each(?))"
# Crystals that the next pass will archive are listed as archived already.
_STAGE = "CASE WHEN lifecycle <> 'frozen' AND fades_at <= ? THEN 'archived' ELSE lifecycle END"


class Sort(StrEnum):
    """The column to sort by; equal rows keep the order in which they were written."""

    CREATED_AT = "created_at"
    IMPORTANCE = "importance"
    ACCESSES = "accesses"
    FADES_AT = "fades_at"

    @property
    def sql(self) -> str:
        """The value in SQL; crystals that never fade sort after every moment."""
        never = "CASE WHEN lifecycle = 'frozen' THEN '~' ELSE coalesce(fades_at, '~') END"
        return never if self is Sort.FADES_AT else f"crystals.{self}"


class Place(NamedTuple):
    """A row's position in the sorted table."""

    value: str | float
    key: int


def _place(value: str | float, key: int) -> Place:
    """Return a row's place, with counts as floats like all other numbers."""
    return Place(value if isinstance(value, str) else float(value), key)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which rows to list, and in which order.

    `words` must occur in the text, the last one at least as a prefix; of more than 10,000 matches the latest are
    listed. `superseded` are the rows whose value no longer holds: only these are listed if `is_superseded`, else all
    others; None lists both.
    """

    filters: Filters = EVERYTHING
    lifecycle: Lifecycle | None = None
    words: str = ""
    superseded: frozenset[int] | None = None
    is_superseded: bool = True
    sort: Sort = Sort.CREATED_AT
    descending: bool = True


@dataclass(frozen=True, slots=True)
class ListedCrystal:
    """A row of the table with its place. `survivor` is the canonical row of a hidden duplicate.

    `fades_at` is None if it never fades. The caller fills in `superseded`: whether another value holds now.
    """

    place: Place
    survivor: int | None
    id: str
    text: str
    origin: str
    kind: str
    trust: str
    importance: float
    lifecycle: str
    session: str
    speaker: str
    created_at: datetime
    accesses: int
    fades_at: datetime | None
    dreamt_in: int | None
    superseded: bool = False

    @property
    def keys(self) -> tuple[int, int]:
        """Its row and its canonical row."""
        return self.place.key, self.survivor or self.place.key


class CrystalList:
    """The table of one workspace's crystals."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def part(self, chosen: Chosen, limit: int, now: datetime, after: Place | None = None) -> list[ListedCrystal]:
        """Return at most `limit` rows after this place."""
        where, values = _where(chosen, now)
        value, way, beyond = chosen.sort.sql, *(("DESC", "<") if chosen.descending else ("ASC", ">"))
        if after is not None:
            where += f" AND ({value}, crystals.key) {beyond} (?, ?)"
            values += (*after,)
        rest = f"{where} ORDER BY {value} {way}, crystals.key {way} LIMIT ?"
        return self._listed(value, rest, (to_text(now), *values, limit))

    def place(self, id_: str, sort: Sort) -> Place:
        """Return the crystal's place in the table sorted this way. Raise UsageError if it does not exist."""
        row = self._connection.execute(f"SELECT {sort.sql}, key FROM crystals WHERE id = ?", (id_,)).fetchone()
        if row is None:
            raise UsageError("cursor: it is not in this list any more", "begin without a cursor")
        return _place(*row)

    def rows(self, ids: Iterable[str], now: datetime) -> dict[str, ListedCrystal]:
        """Return the table rows of these crystals by id; unknown ids are left out."""
        found = self._listed("created_at", f"id {_LISTED}", (to_text(now), json.dumps(list(ids))))
        return {row.id: row for row in found}

    def ids(self, beginning: str, limit: int) -> list[str]:
        """Return the ids with this prefix, which consists of hexadecimal digits."""
        query = "SELECT id FROM crystals WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
        return [str(row[0]) for row in self._connection.execute(query, (beginning, f"{beginning}g", limit))]

    def count(self, chosen: Chosen, now: datetime) -> int:
        """Count the chosen rows; counting stops above MOST_COUNTED."""
        where, values = _where(chosen, now)
        counting = f"SELECT count(*) FROM (SELECT 1 FROM crystals WHERE {where} LIMIT {MOST_COUNTED + 1})"
        return int(self._connection.execute(counting, values).fetchone()[0])

    def children(self, id_: str) -> list[int]:
        """Return the rows of the crystals derived from this one."""
        # Ids are the only quoted text in the list.
        return self._keys("parents <> '[]' AND instr(parents, ?)", f'"{id_}"')

    def duplicates(self, key: int) -> list[int]:
        """Return the rows of the hidden duplicates of this canonical row."""
        return self._keys("merged_into = ?", key)

    def has_vector(self, key: int) -> bool:
        """Return whether it can be found by meaning, too."""
        return not self._keys("key = ? AND vector IS NULL", key)

    def _keys(self, which: str, value: object) -> list[int]:
        found = self._connection.execute(f"SELECT key FROM crystals WHERE {which} ORDER BY key", (value,))
        return [int(row[0]) for row in found]

    def _listed(self, value: str, rest: str, values: tuple[object, ...]) -> list[ListedCrystal]:
        statement = f"SELECT {COLUMNS}, {value} AS sorted, {_STAGE} AS stage FROM crystals WHERE {rest}"
        return [
            CrystalRow.table.value(
                ListedCrystal,
                row,
                place=_place(row["sorted"], row["key"]),
                survivor=row["merged_into"],
                lifecycle=row["stage"],
                fades_at=None if row["lifecycle"] == "frozen" else optional_moment(row["fades_at"]),
            )
            for row in self._connection.execute(statement, values)
        ]


def _where(chosen: Chosen, now: datetime) -> tuple[str, tuple[object, ...]]:
    """Return the choice as SQL over the table `crystals`, with its values."""
    plain, given = condition(chosen.filters)
    wanted: list[tuple[str, tuple[object, ...]]] = [(plain or "TRUE", given)]
    if chosen.lifecycle is not None:
        wanted.append((f"{_STAGE} = ?", (to_text(now), chosen.lifecycle.value)))
    if chosen.superseded is not None:
        negated = "" if chosen.is_superseded else "NOT "
        survivor = f"coalesce(crystals.merged_into, crystals.key) {negated}{_LISTED}"
        wanted.append((survivor, (json.dumps(sorted(chosen.superseded)),)))
    if chosen.words:
        holding = full_text.holding(chosen.words)
        found = "crystals.key IN (SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?)"
        wanted.append((found, (holding, MOST_COUNTED + 1)) if holding else ("FALSE", ()))
    return " AND ".join(sql for sql, _ in wanted), tuple(value for _, values in wanted for value in values)
