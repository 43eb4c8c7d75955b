"""Listing: crystals as a table that is filtered, sorted and read part by part; and what stands about one of them.

A part begins after the place of the last row (its sorted value, then its key), so that it costs the same wherever in
the table it stands, and nothing is shown twice when crystals are added.
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
from state.stores.crystals.search import EVERYTHING, condition
from state.stores.database.connection import optional_moment, to_text
from state.stores.database.tables import CrystalRow

MOST_COUNTED = 10_000
_LISTED = "IN (SELECT value FROM json_each(?))"
# What is archived once the next pass has seen it is shown as archived now.
_STAGE = "CASE WHEN lifecycle <> 'frozen' AND fades_at <= ? THEN 'archived' ELSE lifecycle END"


class Sort(StrEnum):
    """By what the table is sorted; equal rows stand in the order in which they were written."""

    CREATED_AT = "created_at"
    IMPORTANCE = "importance"
    ACCESSES = "accesses"
    FADES_AT = "fades_at"

    @property
    def sql(self) -> str:
        """The value in SQL; what never fades comes after every moment."""
        never = "CASE WHEN lifecycle = 'frozen' THEN '~' ELSE coalesce(fades_at, '~') END"
        return never if self is Sort.FADES_AT else f"crystals.{self}"


class Place(NamedTuple):
    """Where a row stands in the sorted table."""

    value: str | float
    key: int


def _place(value: str | float, key: int) -> Place:
    """Return the place of a row; a count is a number like any other."""
    return Place(value if isinstance(value, str) else float(value), key)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which rows, and in which order.

    `words` stand in the text, of the last one perhaps its beginning; of more than 10,000 such texts the latest are
    meant. With `superseded`, the rows whose value holds no longer: only these when `is_superseded`, else all others.
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
    """A row of the table, and its place. `survivor` is the row of the crystal that stands for a hidden duplicate.

    `fades_at` is None for what never fades; whoever asks fills in whether another value holds now (`superseded`).
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
        """Its row, and the one that stands for it."""
        return self.place.key, self.survivor or self.place.key


class CrystalList:
    """The table of the crystals of one workspace."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def part(self, chosen: Chosen, limit: int, now: datetime, after: Place | None = None) -> list[ListedCrystal]:
        """Return the next rows, at most `limit`, after this place."""
        where, values = _where(chosen, now)
        value, way, beyond = chosen.sort.sql, *(("DESC", "<") if chosen.descending else ("ASC", ">"))
        if after is not None:
            where += f" AND ({value}, crystals.key) {beyond} (?, ?)"
            values += (*after,)
        rest = f"{where} ORDER BY {value} {way}, crystals.key {way} LIMIT ?"
        return self._listed(value, rest, (to_text(now), *values, limit))

    def place(self, id_: str, sort: Sort) -> Place:
        """Return where this crystal stands in the table that is sorted so. Raise UsageError if it is not there."""
        row = self._connection.execute(f"SELECT {sort.sql}, key FROM crystals WHERE id = ?", (id_,)).fetchone()
        if row is None:
            raise UsageError("cursor: it is not in this list any more", "begin without a cursor")
        return _place(*row)

    def rows(self, ids: Iterable[str], now: datetime) -> dict[str, ListedCrystal]:
        """Return the rows of these crystals by their ids; unknown ids are left out."""
        found = self._listed("created_at", f"id {_LISTED}", (to_text(now), json.dumps(list(ids))))
        return {row.id: row for row in found}

    def ids(self, beginning: str, limit: int) -> list[str]:
        """Return the ids that begin so, which are hexadecimal digits."""
        query = "SELECT id FROM crystals WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
        return [str(row[0]) for row in self._connection.execute(query, (beginning, f"{beginning}g", limit))]

    def count(self, chosen: Chosen, now: datetime) -> int:
        """Return how many rows there are; counting stops above MOST_COUNTED."""
        where, values = _where(chosen, now)
        counting = f"SELECT count(*) FROM (SELECT 1 FROM crystals WHERE {where} LIMIT {MOST_COUNTED + 1})"
        return int(self._connection.execute(counting, values).fetchone()[0])

    def children(self, id_: str) -> list[int]:
        """Return the rows of the crystals that were derived from this one."""
        # An id stands in the list between quotes, as nothing else does.
        return self._keys("parents <> '[]' AND instr(parents, ?)", f'"{id_}"')

    def duplicates(self, key: int) -> list[int]:
        """Return the rows of the hidden duplicates for which this row stands."""
        return self._keys("merged_into = ?", key)

    def has_vector(self, key: int) -> bool:
        """Return whether it is found by meaning too."""
        return not self._keys("key IN (SELECT crystal FROM to_embed WHERE crystal = ?)", key)

    def _keys(self, which: str, value: object) -> list[int]:
        found = self._connection.execute(f"SELECT key FROM crystals WHERE {which} ORDER BY key", (value,))
        return [int(row[0]) for row in found]

    def _listed(self, value: str, rest: str, values: tuple[object, ...]) -> list[ListedCrystal]:
        statement = f"SELECT *, {value} AS sorted, {_STAGE} AS stage FROM crystals WHERE {rest}"
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
