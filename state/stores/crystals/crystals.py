"""Crystals: the canonical rows of state.db, each written once, with every place where its text was met.

A crystal, its words in the full-text index and its place in the embedding queue are written in one transaction;
its vector follows (see `vectors`). Writing a crystal again adds at most an occurrence.
"""

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin, new_id
from state.crystals.lifecycle import DREAMT, accessed, fades_at
from state.crystals.selection import mix_kinds
from state.stores.crystals import full_text, skills
from state.stores.crystals.rows import (
    Occurrence,
    crystal_in,
    is_of_another,
    joined_heard,
    joined_trust,
    source_in,
)
from state.stores.crystals.vectors import CrystalVectors
from state.stores.database.connection import from_text, optional_text, to_text, transaction
from state.stores.database.meta import Meta
from state.stores.database.tables import CrystalRow, OccurrenceRow
from state.stores.database.tombstones import TombstoneStore
from state.text.words import normalise
from state.trust import Trust

# What a dream takes in. Its own output is not its input, and neither is what a page or a tool said.
INPUT_ORIGINS = (Origin.SCRATCH, Origin.SESSION, Origin.WORKING)
_INPUTS = (
    f"dreamt_in IS NULL AND origin IN ({', '.join(repr(origin.value) for origin in INPUT_ORIGINS)})"
    f" AND trust IN ({Trust.AGENT.value!r}, {Trust.OWNER.value!r})"
)
# A pending note is input as a note.
_NOT_PENDING = "NOT EXISTS (SELECT 1 FROM notes WHERE crystal = crystals.key AND consumed_in IS NULL)"
# What no dream took in although one could have: of that, so important is what rides along with news.
BACKLOG_IMPORTANCE = 0.5
_MOST_COUNTED = 1_000
# In `meta`: the row of the last crystal that there was when the last dream read.
_SEEN_UPTO = "seen_upto"
_KEYS = "SELECT value FROM json_each(?)"
_ID = re.compile("[0-9a-f]{8,64}")
# So many of the shortest texts that hold some words are looked at.
_MOST_NAMED = 100
_AFTER_A_DREAM = " ".join(f"WHEN {before.value!r} THEN {after.value!r}" for before, after in DREAMT.items())


class Crystals:
    """The crystals of one workspace, over its open database.

    `vectors` is the file of their embeddings; without one those are kept in memory.
    """

    def __init__(self, connection: sqlite3.Connection, vectors: Path | None = None) -> None:
        self.connection = connection
        self.vectors = CrystalVectors(connection, vectors)
        self.forgotten = TombstoneStore(connection)

    def upsert(self, crystals: Iterable[Crystal]) -> int:
        """Write all of these or none; returns how many were new.

        A crystal that is there already keeps its text, context and lifecycle, gains the occurrence, and has the
        higher importance, the higher trust of a text that was said, else the lower one, and the parents of both. The
        same words of two people are two crystals; what a tool or page echoes is one with what it echoes. Writing the
        same again changes nothing. Whoever writes it: what is forgotten is left out of each, with its sentence.
        """
        new = 0
        first: int | None = None
        with transaction(self.connection) as connection:
            for given in self.forgotten.crystals_without(crystals):
                crystal, row = self._met(given)
                if row is None:
                    key = self._insert(crystal)
                    first = key if first is None else min(first, key)
                    new += 1
                else:
                    key = int(row["key"])
                    self._join(crystal, row)
                self._occur(key, crystal)
            if first is not None and first <= self.seen_upto():  # the row of one that was forgotten is given again
                Meta(connection).put(_SEEN_UPTO, str(first - 1))
        return new

    def _met(self, crystal: Crystal) -> tuple[Crystal, sqlite3.Row | None]:
        """Return the crystal, distinct if somebody else said its words, and its row if it was written before."""
        row = self._row(crystal.digest)
        if row is None or not is_of_another(crystal, row):
            return crystal, row
        crystal = replace(crystal, distinct=True)
        return crystal, self._row(crystal.digest)

    def _row(self, digest: str) -> sqlite3.Row | None:
        query = "SELECT * FROM crystals WHERE digest = ?"
        row: sqlite3.Row | None = self.connection.execute(query, (digest,)).fetchone()
        return row

    def known(self, crystals: Iterable[Crystal]) -> list[Crystal]:
        """Return these crystals with the ids that they have once they are written: equal ones have one."""
        ids, found = dict[str, str](), list[Crystal]()
        for given in crystals:
            crystal, row = self._met(given)
            id_ = ids.setdefault(crystal.digest, row["id"] if row is not None else crystal.id)
            found.append(replace(given, id=id_))
        return found

    def ids_of(self, digests: Iterable[str]) -> dict[str, str]:
        """Return the ids of the crystals with these digests, by them; unknown ones are left out."""
        query = f"SELECT digest, id FROM crystals WHERE digest IN ({_KEYS})"
        return dict(map(tuple, self.connection.execute(query, (json.dumps(list(digests)),))))

    def get(self, ids: Iterable[str]) -> list[Crystal]:
        """Return the crystals with these ids, in this order; unknown ids are left out."""
        wanted = list(ids)
        found = {crystal.id: crystal for crystal in self._read(f"id IN ({_KEYS})", (json.dumps(wanted),))}
        return [found[id_] for id_ in wanted if id_ in found]

    def named(self, name: str) -> list[Crystal]:
        """Return the crystals that this may mean: by an id or its beginning, a text, or words of it."""
        if _ID.fullmatch(name):
            condition = "key IN (SELECT key FROM crystals WHERE id >= ? AND id < ? LIMIT 2)"
            if by_id := self._read(condition, (name, f"{name}g")):
                return by_id
        holding, wanted = full_text.holding(name), normalise(name)
        if not holding:
            return []
        condition = (
            "key IN (SELECT key FROM crystals WHERE merged_into IS NULL AND key IN"
            " (SELECT rowid FROM words WHERE words MATCH ?) ORDER BY length(text) LIMIT ?)"
        )
        by_words = [one for one in self._read(condition, (holding, _MOST_NAMED)) if wanted in normalise(one.text)]
        return [one for one in by_words if normalise(one.text) == wanted] or by_words

    def by_keys(self, keys: Iterable[int]) -> dict[int, Crystal]:
        """Return the crystals in these rows, by row; rows that are gone are left out."""
        rows = self._rows(f"key IN ({_KEYS})", (json.dumps(list(keys)),))
        return dict(zip((int(row["key"]) for row in rows), self._built(rows), strict=True))

    def keys(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the rows of these crystals, by id; of a hidden duplicate the row of the crystal that it became."""
        rows = self.connection.execute(
            f"SELECT id, coalesce(merged_into, key) FROM crystals WHERE id IN ({_KEYS})", (json.dumps(list(ids)),)
        )
        return {row[0]: int(row[1]) for row in rows}

    def said_last(self, keys: Iterable[int], until: datetime | None = None) -> dict[int, datetime]:
        """Return when the texts in these rows were met last, before `until`."""
        rows = self.connection.execute(
            f"SELECT crystal, max(at) FROM occurrences WHERE crystal IN ({_KEYS}) AND at < ? GROUP BY crystal",
            (json.dumps(list(keys)), optional_text(until) or "~"),
        )
        return {int(row[0]): from_text(row[1]) for row in rows}

    def lengths(self, keys: Iterable[int]) -> dict[int, int]:
        """Return how many characters the texts in these rows have; rows that are gone are left out."""
        statement = f"SELECT key, length(text) FROM crystals WHERE key IN ({_KEYS})"
        return {
            int(key): int(length) for key, length in self.connection.execute(statement, (json.dumps(list(keys)),))
        }

    def count(self) -> int:
        """Return how many crystals there are, archived ones included."""
        return int(self.connection.execute("SELECT count(*) FROM crystals").fetchone()[0])

    def sources(self, id_: str) -> list[Occurrence]:
        """Return every place where this crystal's text was met, oldest first; none for an unknown id."""
        rows = self.connection.execute(
            "SELECT o.* FROM occurrences o JOIN crystals c ON c.key = o.crystal WHERE c.id = ?"
            " ORDER BY o.at, o.session, o.position, o.file, o.first_line",
            (id_,),
        )
        return [OccurrenceRow.table.value(Occurrence, row, source=source_in(row)) for row in rows]

    def undreamt(self, limit: int = 50, upto: int | None = None) -> list[Crystal]:
        """Return what no dream has taken in, at most `limit`: what is new since the last one, then the backlog.

        Of each the most important first, kinds mixed; of the backlog, what is important enough. `upto` is the row of
        the last one that counts.
        """
        seen = self.seen_upto()
        news = self._best("key > ?" if upto is None else f"key > ? AND key <= {upto:d}", seen, limit)
        left = limit - len(news)
        backlog = self._best(f"key <= ? AND importance >= {BACKLOG_IMPORTANCE}", seen, left) if left else []
        return [*news, *backlog]

    def _best(self, condition: str, value: int, limit: int) -> list[Crystal]:
        best = (
            "key IN (SELECT key FROM (SELECT key, row_number() OVER (PARTITION BY kind ORDER BY importance DESC, key)"
            f" AS place FROM crystals WHERE {_INPUTS} AND {condition} AND {_NOT_PENDING}) WHERE place <= ?)"
        )
        return mix_kinds(self._read(best, (value, limit)), limit)

    def undreamt_count(self) -> int:
        """Count the crystals that are new since the last dream, up to a thousand, without pending notes.

        What is older is not looked at, so that this takes no longer the more is stored.
        """
        query = (
            "SELECT count(*) FROM (SELECT 1 FROM crystals NOT INDEXED"
            f" WHERE key > ? AND {_INPUTS} AND {_NOT_PENDING} LIMIT {_MOST_COUNTED})"
        )
        return int(self.connection.execute(query, (self.seen_upto(),)).fetchone()[0])

    def place_among_undreamt(self, key: int) -> tuple[int, int]:
        """Count the crystals that no dream has taken in: those that come before the one in this row, and all."""
        query = """SELECT (SELECT count(*) FROM crystals WHERE dreamt_in IS NULL AND importance > c.importance)
            + (SELECT count(*) FROM crystals WHERE dreamt_in IS NULL AND importance = c.importance AND key < c.key),
            (SELECT count(*) FROM crystals WHERE dreamt_in IS NULL) FROM crystals c WHERE key = ?"""
        row = self.connection.execute(query, (key,)).fetchone()
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def seen_upto(self) -> int:
        """Return the row of the last crystal that there was when the last dream read; 0 before the first one."""
        return int(Meta(self.connection).get(_SEEN_UPTO) or 0)

    def unseen_seeds(self) -> list[str]:
        """Return the ids of the crystals of the text from before the first dream; none after that.

        They are no input: that text stands in MEMORY.md itself.
        """
        query = "SELECT id FROM crystals WHERE dreamt_in IS NULL AND origin = ?"
        return [row["id"] for row in self.connection.execute(query, (Origin.SEED.value,))]

    def mark_dreamt(self, ids: Iterable[str], version: int, newest: int = 0) -> None:
        """Mark these crystals as consumed by the dream of this version, unless an earlier dream consumed them.

        `newest`: the row up to which the dream could see crystals. None of them is news any more.
        """
        change = f"dreamt_in = ?, lifecycle = CASE lifecycle {_AFTER_A_DREAM} ELSE lifecycle END"
        with transaction(self.connection):
            self._change(change, "dreamt_in IS NULL", (version,), ids)
            if newest > self.seen_upto():
                Meta(self.connection).put(_SEEN_UPTO, str(newest))

    def undream(self, ids: Iterable[str]) -> None:
        """Make these crystals input again, and news."""
        listed = json.dumps(list(ids))
        with transaction(self.connection) as connection:
            connection.execute(f"UPDATE crystals SET dreamt_in = NULL WHERE id IN ({_KEYS})", (listed,))
            query = f"SELECT min(key) FROM crystals WHERE id IN ({_KEYS}) AND {_INPUTS}"
            first = connection.execute(query, (listed,)).fetchone()[0]
            if first is not None and first <= self.seen_upto():
                Meta(connection).put(_SEEN_UPTO, str(first - 1))

    def dreamt_in(self, version: int) -> list[str]:
        """Return the ids of the crystals that the dream of this version consumed."""
        found = self.connection.execute("SELECT id FROM crystals WHERE dreamt_in = ? ORDER BY key", (version,))
        return [row["id"] for row in found]

    def touch(self, ids: Iterable[str], now: datetime) -> None:
        """Count one more access to each of these crystals, which may change its lifecycle.

        A hidden duplicate stays archived.
        """
        with transaction(self.connection) as connection:
            rows = self._rows(f"id IN ({_KEYS})", (json.dumps(list(ids)),))
            for row in rows:
                used = accessed(crystal_in(row, None), now)
                stage = used.lifecycle if row["merged_into"] is None else Lifecycle(row["lifecycle"])
                CrystalRow.table.change(
                    connection,
                    "key = ?",
                    row["key"],
                    accesses=used.accesses,
                    last_accessed_at=used.last_accessed_at,
                    lifecycle=stage,
                    fades_at=fades_at(used),
                )

    def set_lifecycle(self, ids: Iterable[str], lifecycle: Lifecycle) -> None:
        """Set the lifecycle of these crystals."""
        self._change("lifecycle = ?", "TRUE", (lifecycle.value,), ids)

    def archive_faded(self, now: datetime, limit: int = 500) -> tuple[int, int]:
        """Archive up to `limit` crystals that have faded by now; returns how many were archived, and frozen.

        A crystal that a pointer of MEMORY.md names is frozen instead: a search for the pointer has to find it.
        """
        with transaction(self.connection) as connection:
            rows = connection.execute(
                "SELECT id, EXISTS (SELECT 1 FROM pointers WHERE crystal = id AND standing = 1) AS pointed"
                " FROM crystals WHERE fades_at <= ? AND lifecycle NOT IN ('archived', 'frozen')"
                " ORDER BY fades_at LIMIT ?",
                (to_text(now), limit),
            ).fetchall()
            pointed = [row["id"] for row in rows if row["pointed"]]
            faded = [row["id"] for row in rows if not row["pointed"]]
            self.set_lifecycle(pointed, Lifecycle.FROZEN)
            self.set_lifecycle(faded, Lifecycle.ARCHIVED)
        return len(faded), len(pointed)

    def newest(self) -> int:
        """Return the highest row number; 0 when there are no crystals."""
        return int(self.connection.execute("SELECT coalesce(max(key), 0) FROM crystals").fetchone()[0])

    def remove(self, ids: Iterable[str]) -> list[str]:
        """Delete these crystals from every table and from the full-text index; returns the ids that existed.

        Their hidden duplicates are deleted with them. The caller drops the vector index. The
        full-text index is built anew, so that its old segments do not keep the words; the bytes leave the file with
        `PRAGMA secure_delete` and VACUUM.
        """
        wanted = json.dumps(list(ids))
        with transaction(self.connection) as connection:
            gone = connection.execute(
                f"DELETE FROM crystals WHERE id IN ({_KEYS}) OR merged_into IN"
                f" (SELECT key FROM crystals WHERE id IN ({_KEYS})) RETURNING id",
                (wanted, wanted),
            ).fetchall()
            if gone:
                full_text.rebuild(connection)
        return [row["id"] for row in gone]

    def _insert(self, crystal: Crystal) -> int:
        more = {"pairs": full_text.pairs(crystal.indexed_text), "fades_at": fades_at(crystal)}
        try:
            added = CrystalRow.table.add(self.connection, crystal, **more)
        except sqlite3.IntegrityError:  # another text has its id
            added = CrystalRow.table.add(self.connection, crystal, **more, id=new_id())
        key = int(added.lastrowid or 0)
        full_text.add(self.connection, key)
        self.connection.execute("INSERT INTO to_embed (crystal) VALUES (?)", (key,))
        self.connection.execute("INSERT INTO to_compare (crystal) VALUES (?)", (key,))
        return key

    def _join(self, crystal: Crystal, row: sqlite3.Row) -> None:
        known = crystal_in(row, None)
        both = replace(
            known,
            importance=max(known.importance, crystal.importance),
            trust=joined_trust(known, crystal),
            heard=joined_heard(known, crystal),
            parents=(*known.parents, *(parent for parent in crystal.parents if parent not in known.parents)),
        )
        if both != known:
            CrystalRow.table.change(
                self.connection,
                "key = ?",
                row["key"],
                importance=both.importance,
                trust=both.trust,
                heard=both.heard,
                parents=both.parents,
                fades_at=fades_at(both),
            )
        if both.importance > known.importance and known.lifecycle is Lifecycle.ARCHIVED and not row["merged_into"]:
            self.set_lifecycle([known.id], Lifecycle.ACTIVATED)  # still faded, the next pass archives it again

    def _occur(self, key: int, crystal: Crystal) -> None:
        occurred = OccurrenceRow.table.add(
            self.connection,
            crystal.source,
            "INSERT OR IGNORE",
            crystal=key,
            session=crystal.session,
            position=crystal.position,
            at=crystal.created_at,
        )
        if occurred.rowcount and crystal.kind is Kind.TASK_PATTERN:
            skills.expect_more(self.connection)

    def _change(self, change: str, condition: str, values: tuple[object, ...], ids: Iterable[str]) -> None:
        with transaction(self.connection) as connection:
            statement = f"UPDATE crystals SET {change} WHERE {condition} AND id IN ({_KEYS})"
            connection.execute(statement, (*values, json.dumps(list(ids))))

    def _read(self, condition: str, values: tuple[object, ...]) -> list[Crystal]:
        return self._built(self._rows(condition, values))

    def _rows(self, condition: str, values: tuple[object, ...]) -> list[sqlite3.Row]:
        return self.connection.execute(f"SELECT * FROM crystals WHERE {condition} ORDER BY key", values).fetchall()

    def _built(self, rows: Sequence[sqlite3.Row]) -> list[Crystal]:
        keys = json.dumps([row["key"] for row in rows])
        occurrences = self.connection.execute(
            f"SELECT * FROM occurrences WHERE crystal IN ({_KEYS}) AND file <> '' ORDER BY at DESC",
            (keys,),
        )
        first = {int(row["crystal"]): source_in(row) for row in occurrences}
        return [crystal_in(row, first.get(int(row["key"]))) for row in rows]
