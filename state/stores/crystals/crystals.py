"""Crystals: the canonical rows of state.db. Each text is stored once, with every place where it occurred.

A crystal and its full-text entry are written in one transaction; its vector follows later (see `vectors`). Writing a
crystal again adds at most an occurrence.
"""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from state.crystals.crystal import (
    DREAMT,
    Crystal,
    Lifecycle,
    Origin,
    Source,
    accessed,
    crystal_digest,
    fades_at,
    folded_digest,
    mix_kinds,
    new_id,
)
from state.crystals.duplicates import are_one_memory, canonical, with_duplicate
from state.stores.crystals import full_text
from state.stores.crystals.vectors import CrystalVectors
from state.stores.database.connection import transaction
from state.stores.database.meta import Meta
from state.stores.database.moments import from_text, optional_text, to_text
from state.stores.database.tables import CrystalRow, OccurrenceRow
from state.stores.database.tombstones import TombstoneStore
from state.text.words import normalise
from state.trust import Trust, least_heard, least_trust

# Origins whose text somebody said, as opposed to texts that a dream or a session derived.
_SAID = {Origin.SCRATCH, Origin.SESSION, Origin.SEED}
# Origins that a dream takes as input. Its own output is excluded, as is what a page or a tool said (see `_INPUTS`).
INPUT_ORIGINS = (Origin.SCRATCH, Origin.SESSION, Origin.WORKING)
_INPUTS = (
    f"dreamt_in IS NULL AND origin IN ({', '.join(repr(origin.value) for origin in INPUT_ORIGINS)})"
    f" AND trust IN ({Trust.AGENT.value!r}, {Trust.OWNER.value!r})"
)
# Pending notes reach a dream as notes, not as crystals.
_NOT_PENDING = "NOT EXISTS (SELECT 1 FROM notes WHERE crystal = crystals.key AND consumed_in IS NULL)"
# The backlog: crystals that a dream could have taken in but none did. From this importance on they join new input.
BACKLOG_IMPORTANCE = 0.5
_MOST_COUNTED = 1_000
# Key in `meta`: the highest crystal row that existed when the last dream read its input.
_SEEN_UPTO = "seen_upto"
# Vectors are read apart: they are longer than the rest of a row.
COLUMNS = ", ".join(name for name in CrystalRow.table.columns if name != "vector")
_LISTED = "IN (SELECT value FROM json_each(?))"
_ID = re.compile("[0-9a-f]{8,64}")
# A look-up by words reads at most this many of the shortest matching texts.
_MOST_NAMED = 100
# Value of `dreamt_in` for a duplicate that no dream has to see, because a dream sees its canonical crystal. Notes are
# excluded: they are consumed as notes.
_STOOD_FOR = 0
_EQUAL = """
SELECT DISTINCT coalesce(o.merged_into, o.key) FROM crystals c JOIN crystals o USING (folded)
WHERE c.key = ? AND o.key <> c.key ORDER BY 1
"""
_AFTER_A_DREAM = " ".join(f"WHEN {before.value!r} THEN {after.value!r}" for before, after in DREAMT.items())


class Stored(NamedTuple):
    """A crystal with the id that it has in the store, and its row: 0 if only forgotten text was in it.

    The row of a hidden duplicate is that of its canonical crystal.
    """

    crystal: Crystal
    key: int
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place where a crystal's text occurred; `source` is None if it came from no file."""

    session: str
    position: int
    at: datetime
    source: Source | None


class Crystals:
    """The crystals of one workspace, over its open database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.vectors = CrystalVectors(connection)
        self.forgotten = TombstoneStore(connection)

    # ------------------------------------------------------------ writing

    def learn(self, crystals: Iterable[Crystal]) -> list[Stored]:
        """Write all of these crystals or none; return how each is stored.

        An existing crystal keeps its text and gains the occurrence, the parents, and the higher importance (which
        activates an archived one). If it was said earlier than known, it gets that time and context. Its trust rises
        if its text was said, and falls if it was derived. The same words from two people are two crystals; an echo by
        a tool or page joins its original. Of new crystals that say the same as another one, one of the two is hidden.
        Writing the same again changes nothing. Sentences that hold a forgotten text are always left out.
        """
        with transaction(self.connection):
            stored = [self._stored(*pair) for pair in self.forgotten.spared(crystals)]
            new = [one.key for one in stored if one.is_new]
            # SQLite may reuse the row number of a forgotten crystal.
            self._mark_as_news(min(new, default=None))
            self.hide_duplicates(new)
        return stored

    def _stored(self, given: Crystal, spared: Crystal | None) -> Stored:
        if spared is None:
            return Stored(given, 0)
        crystal, row = self._find_row(spared)
        if row is None:
            stored = self._insert(crystal)
        else:
            self._join(crystal, row)
            stored = Stored(replace(spared, id=row["id"]), int(row["merged_into"] or row["key"]))
        self._occur(stored.key if row is None else int(row["key"]), crystal)
        return stored

    def _find_row(self, crystal: Crystal) -> tuple[Crystal, sqlite3.Row | None]:
        """Return the crystal, marked distinct if somebody else said its words, and its row if it exists.

        Only the owner and agents count as somebody else: an echo by a tool or page has no speaker of its own.
        """
        row = self._row(crystal.digest)
        if row is None or crystal.distinct or Trust.AGENT.rank > min(crystal.trust.rank, Trust(row["trust"]).rank):
            return crystal, row
        there, here = row["speaker"].strip().casefold(), crystal.speaker.strip().casefold()
        if not there or not here or there == here:
            return crystal, row
        crystal = replace(crystal, distinct=True)
        return crystal, self._row(crystal.digest)

    def _row(self, digest: str) -> sqlite3.Row | None:
        query = f"SELECT {COLUMNS} FROM crystals WHERE digest = ?"
        row: sqlite3.Row | None = self.connection.execute(query, (digest,)).fetchone()
        return row

    def _insert(self, crystal: Crystal) -> Stored:
        folded = folded_digest(crystal.text, crystal.speaker)
        more = {"pairs": full_text.pairs(crystal.indexed_text), "fades_at": fades_at(crystal), "folded": folded}
        try:
            added = CrystalRow.table.add(self.connection, crystal, **more)
        except sqlite3.IntegrityError:  # its id belongs to another text
            crystal = replace(crystal, id=new_id())
            added = CrystalRow.table.add(self.connection, crystal, **more)
        key = int(added.lastrowid or 0)
        full_text.add(self.connection, key)
        return Stored(crystal, key, is_new=True)

    def _join(self, crystal: Crystal, row: sqlite3.Row) -> None:
        """Update this row's crystal with what another occurrence adds."""
        known = _crystal(row, None)
        # An echo lowers nobody's trust. A derived text has the least trust of all that it was derived from.
        is_said = known.origin in _SAID and not (known.parents or crystal.parents)
        both = (known.trust, crystal.trust)
        trust = max(both, key=lambda one: one.rank) if is_said else least_trust(both)
        importance = max(known.importance, crystal.importance)
        joined = replace(
            known,
            importance=importance,
            trust=trust,
            heard=least_heard((known.heard, crystal.heard)) if trust is Trust.AGENT else "",
            parents=tuple(dict.fromkeys((*known.parents, *crystal.parents))),
        )
        if importance > known.importance and known.lifecycle is Lifecycle.ARCHIVED and not row["merged_into"]:
            joined = replace(joined, lifecycle=Lifecycle.ACTIVATED)  # the next pass archives it if it is still faded
        if joined != known:
            self.write(int(row["key"]), joined)
        if is_said and crystal.created_at < known.created_at:
            self._date_back(int(row["key"]), joined, crystal)

    def write(self, key: int, crystal: Crystal) -> None:
        """Write a crystal's mutable fields to its row, in the caller's transaction."""
        CrystalRow.table.change(
            self.connection,
            "key = ?",
            key,
            importance=crystal.importance,
            trust=crystal.trust,
            heard=crystal.heard,
            parents=crystal.parents,
            accesses=crystal.accesses,
            last_accessed_at=crystal.last_accessed_at,
            lifecycle=crystal.lifecycle,
            fades_at=fades_at(crystal),
        )

    def _date_back(self, key: int, known: Crystal, first: Crystal) -> None:
        """Give a crystal the time, place and context of its first occurrence, which is written later."""
        place = {"session": first.session, "position": first.position, "context": first.context, "vector": None}
        earlier = replace(known, created_at=first.created_at, context=first.context)
        computed = {"pairs": full_text.pairs(earlier.indexed_text), "fades_at": fades_at(earlier)}
        full_text.remove(self.connection, key)
        CrystalRow.table.change(self.connection, "key = ?", key, created_at=first.created_at, **place, **computed)
        full_text.add(self.connection, key)

    def _occur(self, key: int, crystal: Crystal) -> None:
        at = {"session": crystal.session, "position": crystal.position, "at": crystal.created_at}
        OccurrenceRow.table.add(self.connection, crystal.source, "INSERT OR IGNORE", crystal=key, **at)

    def remove(self, ids: Iterable[str]) -> list[str]:
        """Delete these crystals from every table and from the full-text index; return the ids that existed.

        Their hidden duplicates are deleted too. The full-text index is rebuilt, because its old segments would keep
        the words. The caller drops the vector index; `secure_delete` and VACUUM remove the bytes from the file.
        """
        wanted = json.dumps(list(ids))
        with transaction(self.connection) as connection:
            gone = connection.execute(
                f"DELETE FROM crystals WHERE id {_LISTED} OR merged_into IN"
                f" (SELECT key FROM crystals WHERE id {_LISTED}) RETURNING id",
                (wanted, wanted),
            ).fetchall()
            if gone:
                full_text.rebuild(connection)
        return [row["id"] for row in gone]

    # ------------------------------------------------------------ duplicates

    def hide_duplicates(self, keys: Iterable[int]) -> None:
        """Hide each of these rows behind the one that says the same, or that behind it, in the caller's transaction.

        Nothing is deleted: a hidden duplicate keeps its row, words, vector and place in its session. It is archived,
        `merged_into` names its canonical crystal, and searches show it only if it answers better than that or its
        exact words are asked for.
        """
        for key in keys:
            for (other,) in self.connection.execute(_EQUAL, (key,)).fetchall():
                self._hide_one(key, other)

    def _hide_one(self, one: int, other: int) -> None:
        """Hide one of two rows that say the same, unless a pointer ever named its crystal."""
        rows = self.by_keys((one, other))
        if len(rows) < 2 or self.survivors(rows) or not are_one_memory(rows[one], rows[other]):
            return
        pointed = f"SELECT DISTINCT crystal, 0 FROM pointers WHERE crystal {_LISTED}"
        kept_ids = dict(self._pairs(pointed, [crystal.id for crystal in rows.values()]))
        pair = canonical(rows[one], rows[other], kept_ids)
        if pair is None:
            return
        kept, hidden = (one, other) if pair[0].id == rows[one].id else (other, one)
        # If it has faded all the same, the next pass archives it again.
        is_archived = rows[kept].lifecycle is Lifecycle.ARCHIVED
        joined = with_duplicate(rows[kept], rows[hidden])
        self.write(kept, replace(joined, lifecycle=Lifecycle.ACTIVATED) if is_archived else joined)
        self.connection.execute(
            "UPDATE crystals SET merged_into = ?, lifecycle = ?, dreamt_in = CASE"
            " WHEN dreamt_in IS NULL AND origin <> ? AND (SELECT dreamt_in FROM crystals WHERE key = ?) IS NULL"
            " THEN ? ELSE dreamt_in END WHERE key = ?",
            (kept, Lifecycle.ARCHIVED.value, Origin.SCRATCH.value, kept, _STOOD_FOR, hidden),
        )
        # Duplicates of the hidden row move to the new canonical row.
        self.connection.execute("UPDATE crystals SET merged_into = ? WHERE merged_into = ?", (kept, hidden))

    def survivors(self, keys: Iterable[int]) -> dict[int, int]:
        """Map those of these rows that are hidden duplicates to their canonical rows."""
        hidden = f"SELECT key, merged_into FROM crystals WHERE key {_LISTED} AND merged_into IS NOT NULL"
        return dict(self._pairs(hidden, keys))

    # ------------------------------------------------------------ by name, id, row

    def with_stored_ids(self, crystals: Iterable[Crystal]) -> list[Crystal]:
        """Return these crystals with the ids they have, or would have, in the store: equal ones share one id."""
        ids, found = dict[str, str](), list[Crystal]()
        for given in crystals:
            crystal, row = self._find_row(given)
            id_ = ids.setdefault(crystal.digest, row["id"] if row is not None else crystal.id)
            found.append(replace(given, id=id_))
        return found

    def ids_of(self, digests: Iterable[str]) -> dict[str, str]:
        """Map the digests of stored crystals to their ids; unknown digests are left out."""
        return dict(self._pairs(f"SELECT digest, id FROM crystals WHERE digest {_LISTED}", digests))

    def keys(self, ids: Iterable[str]) -> dict[str, int]:
        """Map ids to rows. A hidden duplicate maps to its canonical row; unknown ids are left out."""
        return dict(self._pairs(f"SELECT id, coalesce(merged_into, key) FROM crystals WHERE id {_LISTED}", ids))

    def said_last(self, keys: Iterable[int], until: datetime | None = None) -> dict[int, datetime]:
        """Map each of these rows to the last time its text occurred before `until`."""
        query = f"SELECT crystal, max(at) FROM occurrences WHERE crystal {_LISTED} AND at < ? GROUP BY crystal"
        return {key: from_text(at) for key, at in self._pairs(query, keys, optional_text(until) or "~")}

    def get(self, ids: Iterable[str]) -> list[Crystal]:
        """Return the crystals with these ids, in the given order; unknown ids are left out."""
        wanted = list(ids)
        found = {crystal.id: crystal for crystal in self._read(f"id {_LISTED}", json.dumps(wanted))}
        return [found[id_] for id_ in wanted if id_ in found]

    def by_keys(self, keys: Iterable[int]) -> dict[int, Crystal]:
        """Return the crystals in these rows, by row; missing rows are left out."""
        rows = self._rows(f"key {_LISTED}", json.dumps(list(keys)))
        return dict(zip((int(row["key"]) for row in rows), self._built(rows), strict=True))

    def named(self, name: str) -> list[Crystal]:
        """Return the crystals that this name may mean: an id or its prefix, a whole text, or words of a text."""
        if _ID.fullmatch(name):
            condition = "key IN (SELECT key FROM crystals WHERE id >= ? AND id < ? LIMIT 2)"
            if by_id := self._read(condition, name, f"{name}g"):
                return by_id
        holding, wanted = full_text.holding(name), normalise(name)
        if not holding:
            return []
        condition = (
            "key IN (SELECT key FROM crystals WHERE merged_into IS NULL AND key IN"
            " (SELECT rowid FROM words WHERE words MATCH ?) ORDER BY length(text) LIMIT ?)"
        )
        by_words = [one for one in self._read(condition, holding, _MOST_NAMED) if wanted in normalise(one.text)]
        return [one for one in by_words if normalise(one.text) == wanted] or by_words

    def sources(self, id_: str) -> list[Occurrence]:
        """Return every place where this crystal's text occurred, oldest first; empty for an unknown id."""
        rows = self.connection.execute(
            "SELECT o.* FROM occurrences o JOIN crystals c ON c.key = o.crystal WHERE c.id = ?"
            " ORDER BY o.at, o.session, o.position, o.file, o.first_line",
            (id_,),
        )
        return [OccurrenceRow.table.value(Occurrence, row, source=_source(row)) for row in rows]

    def is_known(self, crystal: Crystal) -> bool:
        """Return whether this text was said at this time."""
        query = "SELECT 1 FROM occurrences JOIN crystals ON key = crystal WHERE crystals.digest = ? AND at = ?"
        return self.connection.execute(query, (crystal.digest, to_text(crystal.created_at))).fetchone() is not None

    def count(self) -> int:
        """Return the number of crystals, including archived ones."""
        return self._number("SELECT count(*) FROM crystals")

    def newest(self) -> int:
        """Return the highest row number; 0 if there are no crystals."""
        return self._number("SELECT coalesce(max(key), 0) FROM crystals")

    # ------------------------------------------------------------ what a dream takes in

    def undreamt(self, limit: int = 50, upto: int | None = None) -> list[Crystal]:
        """Return at most `limit` crystals that no dream has taken in: news since the last dream, then the backlog.

        Each part is sorted by importance with kinds mixed; the backlog holds only important crystals. `upto` is the
        last row that counts as news.
        """
        seen = self.seen_upto()
        news = self._best("key > ?" if upto is None else f"key > ? AND key <= {upto:d}", seen, limit)
        left = limit - len(news)
        backlog = self._best(f"key <= ? AND importance >= {BACKLOG_IMPORTANCE}", seen, left) if left else []
        return [*news, *backlog]

    def _best(self, condition: str, seen: int, limit: int) -> list[Crystal]:
        best = (
            "key IN (SELECT key FROM (SELECT key, row_number() OVER (PARTITION BY kind ORDER BY importance DESC, key)"
            f" AS place FROM crystals WHERE {_INPUTS} AND {condition} AND {_NOT_PENDING}) WHERE place <= ?)"
        )
        return mix_kinds(self._read(best, seen, limit), limit)

    def undreamt_count(self) -> int:
        """Count the crystals that are new since the last dream, up to 1,000, without pending notes.

        Older rows are not read, so the cost does not grow with the store.
        """
        new = (
            f"SELECT 1 FROM crystals NOT INDEXED WHERE key > ? AND {_INPUTS} AND {_NOT_PENDING} LIMIT {_MOST_COUNTED}"
        )
        return self._number(f"SELECT count(*) FROM ({new})", self.seen_upto())

    def place_among_undreamt(self, key: int) -> tuple[int, int]:
        """Count the crystals that no dream has taken in: those that rank before the one in this row, and all."""
        before = "dreamt_in IS NULL AND (importance, -key) > (SELECT importance, -key FROM crystals WHERE key = ?)"
        table = CrystalRow.table
        return table.count(self.connection, before, key), table.count(self.connection, "dreamt_in IS NULL")

    def seen_upto(self) -> int:
        """Return the highest crystal row that the last dream could see; 0 before the first dream."""
        return int(Meta(self.connection).get(_SEEN_UPTO) or 0)

    def unseen_seeds(self) -> list[str]:
        """Return the ids of the crystals made from the text before the first dream; none once it was dreamt.

        They are no input of a dream, because that text is in MEMORY.md itself.
        """
        return self._ids("dreamt_in IS NULL AND origin = ?", Origin.SEED.value)

    def dreamt_in(self, version: int) -> list[str]:
        """Return the ids of the crystals that the dream of this version took in."""
        return self._ids("dreamt_in = ? ORDER BY key", version)

    def taken_in(self, ids: Iterable[str]) -> set[str]:
        """Return those of these crystals that a dream took in."""
        return set(self._ids(f"dreamt_in IS NOT NULL AND id {_LISTED}", json.dumps(list(ids))))

    def mark_dreamt(self, ids: Iterable[str], version: int, newest: int = 0) -> None:
        """Mark these crystals as taken in by the dream of this version, unless an earlier dream took them in.

        `newest` is the highest row that the dream could see; rows up to it are no longer news.
        """
        statement = (
            f"UPDATE crystals SET dreamt_in = ?, lifecycle = CASE lifecycle {_AFTER_A_DREAM} ELSE lifecycle END"
            f" WHERE id {_LISTED} AND dreamt_in IS NULL"
        )
        with transaction(self.connection) as connection:
            connection.execute(statement, (version, json.dumps(list(ids))))
            if newest > self.seen_upto():
                Meta(self.connection).put(_SEEN_UPTO, str(newest))

    def undream(self, ids: Iterable[str]) -> None:
        """Make these crystals input of the next dream again, as news."""
        listed = json.dumps(list(ids))
        with transaction(self.connection):
            self.connection.execute(f"UPDATE crystals SET dreamt_in = NULL WHERE id {_LISTED}", (listed,))
            first = f"SELECT coalesce(min(key), 0) FROM crystals WHERE id {_LISTED} AND {_INPUTS}"
            self._mark_as_news(self._number(first, listed))

    def _mark_as_news(self, first: int | None) -> None:
        """Make this row and all later ones news for the next dream."""
        if first and first <= self.seen_upto():
            Meta(self.connection).put(_SEEN_UPTO, str(first - 1))

    # ------------------------------------------------------------ its life

    def touch(self, ids: Iterable[str], now: datetime) -> None:
        """Count one more access to each of these crystals, which may change its lifecycle.

        Hidden duplicates stay archived.
        """
        with transaction(self.connection):
            for row in self._rows(f"id {_LISTED}", json.dumps(list(ids))):
                used = accessed(known := _crystal(row, None), now)
                if row["merged_into"] is not None:
                    used = replace(used, lifecycle=known.lifecycle)
                self.write(int(row["key"]), used)

    def archive_faded(self, now: datetime, limit: int = 500) -> tuple[int, int]:
        """Archive up to `limit` crystals that have faded by now; return how many were archived and how many frozen.

        A crystal that a pointer of MEMORY.md names is frozen instead, so that a search for the pointer finds it.
        """
        faded = "fades_at <= ? AND lifecycle NOT IN ('archived', 'frozen') ORDER BY fades_at LIMIT ?"
        stages = self.connection.execute(
            "UPDATE crystals SET lifecycle = iif(EXISTS (SELECT 1 FROM pointers WHERE crystal = id AND standing = 1),"
            f" 'frozen', 'archived') WHERE key IN (SELECT key FROM crystals WHERE {faded}) RETURNING lifecycle",
            (to_text(now), limit),
        )
        counts = Counter(stage for (stage,) in stages.fetchall())
        return counts["archived"], counts["frozen"]

    # ------------------------------------------------------------ SQL

    def _number(self, query: str, *values: object) -> int:
        return int(self.connection.execute(query, values).fetchone()[0])

    def _ids(self, which: str, *values: object) -> list[str]:
        return [row[0] for row in self.connection.execute(f"SELECT id FROM crystals WHERE {which}", values)]

    def _pairs(self, query: str, among: Iterable[object], *values: object) -> list[tuple[Any, Any]]:
        return [(row[0], row[1]) for row in self.connection.execute(query, (json.dumps(list(among)), *values))]

    def _read(self, condition: str, *values: object) -> list[Crystal]:
        return self._built(self._rows(condition, *values))

    def _rows(self, condition: str, *values: object) -> list[sqlite3.Row]:
        return self.connection.execute(
            f"SELECT {COLUMNS} FROM crystals WHERE {condition} ORDER BY key", values
        ).fetchall()

    def _built(self, rows: Sequence[sqlite3.Row]) -> list[Crystal]:
        query = f"SELECT * FROM occurrences WHERE crystal {_LISTED} AND file <> '' ORDER BY at DESC"
        met = self.connection.execute(query, (json.dumps([row["key"] for row in rows]),))
        first = {int(row["crystal"]): _source(row) for row in met}
        return [_crystal(row, first.get(int(row["key"]))) for row in rows]


def _source(row: sqlite3.Row) -> Source | None:
    return OccurrenceRow.table.value(Source, row) if row["file"] else None


def _crystal(row: sqlite3.Row, source: Source | None) -> Crystal:
    speaker = row["speaker"]
    distinct = bool(speaker) and row["digest"] == crystal_digest(Origin(row["origin"]), row["text"], speaker)
    return CrystalRow.table.value(Crystal, row, source=source, distinct=distinct)
