"""Refill: restores what a salvaged state.db lacks from the journal, the notes and MEMORY.md.

The journal's records are the truth about versions and lines: each is replayed as a commit writes it, but for
MEMORY.md and the segments, which stand. Ids are made of texts, so that what comes back is what was there.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from state.crystals.crystal import Crystal, Kind, Lifecycle, Origin, crystal_id
from state.document.document import SectionName
from state.dream import Dream
from state.sessions.policies.by_name import DEFAULT
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.vectors import MODEL
from state.stores.database.connection import to_text
from state.stores.database.meta import Meta
from state.stores.database.tombstones import TombstoneStore
from state.stores.history.journal import RESTORE
from state.stores.history.lineage import Lineage
from state.stores.repair.row_rules import Row
from state.stores.repair.rows import Salvage, put
from state.stores.sessions.cold_archive import ColdArchive
from state.trust import Trust

_LISTED = "SELECT value FROM json_each(?)"
# When one of these is damaged, crystals of transcripts may be lost that the transcripts still have.
READ_FROM = ("crystals", "occurrences", "watermarks")
_LINEAGE = ("versions", "lines", "evidence", "tombstones")
_CUT = " […]"
_RESERVED = "kept while a database is filled"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known beside state.db.

    `records` are the journal's that can be read, in order, and `every` says whether those are all. `consumed` are
    notes that dreams have taken in, `pending` those that none has, `standing` the lines of MEMORY.md. `unread` is the
    watermark of a transcript of which nothing was read.
    """

    records: Sequence[Dream]
    every: bool
    consumed: Sequence[Crystal]
    pending: Sequence[Crystal]
    standing: Sequence[tuple[SectionName, str]]
    unread: str


def fill(connection: sqlite3.Connection, found: Salvage, known: Known, now: datetime) -> dict[str, int]:
    """Write what is missing; returns how many crystals came from where. In the caller's transaction."""
    crystals = Crystals(connection)
    dreamt = dict(connection.execute("SELECT id, dreamt_in FROM crystals WHERE dreamt_in IS NOT NULL").fetchall())
    connection.execute("DELETE FROM to_embed")  # `settle` knows better, and keys in it may be those of lost rows
    _reserve(connection)
    came: dict[str, int] = {}
    if "crystals" in found.torn:
        came["notes"] = _missing(crystals, [*known.consumed, *known.pending])
    came["history"] = replay(crystals, known.records, every=known.every)
    if not known.every:
        # A restore gives back what a later record, which cannot be read, has taken in again.
        connection.executemany(
            "UPDATE crystals SET dreamt_in = ? WHERE id = ? AND dreamt_in IS NULL",
            [(version, id_) for id_, version in dreamt.items()],
        )
    _take_as_dreamt(connection, known)
    came["damaged"] = _altered(connection, found.altered) + _fragments(connection, found.fragments, now)
    if "crystals" in found.torn:
        came["MEMORY.md"] = _lines(crystals, known.standing, now)
    if not found.torn.isdisjoint(READ_FROM):
        _read_again(connection, known.unread)
    _keys_of_old(connection, found.ids.get("crystals", {}))
    connection.execute("DELETE FROM crystals WHERE id = ?", (_RESERVED,))
    return {origin: number for origin, number in came.items() if number}


def replay(crystals: Crystals, records: Iterable[Dream], *, every: bool) -> int:
    """Do again what these commits did in state.db; returns how many crystals were new.

    When it is every commit that there was, nothing else is believed about versions and lines.
    """
    connection, new = crystals.connection, 0
    lineage = Lineage(connection)
    uses = connection.execute("SELECT uses, keywords FROM pointers").fetchall()
    if every:
        for table in (*_LINEAGE, "pointers"):
            connection.execute(f"DELETE FROM {table}")
    for dream in records:
        new += _missing(crystals, dream.crystals)
        if dream.cause == RESTORE:
            statement = f"UPDATE crystals SET dreamt_in = NULL WHERE id IN ({_LISTED})"
            connection.execute(statement, (json.dumps(dream.dreamt),))
        else:
            crystals.mark_dreamt(dream.dreamt, dream.number)
        lineage.record(dream)
        connection.execute(
            "INSERT OR IGNORE INTO dreams (id, started_at, ended_at, reason, outcome, version)"
            " VALUES (?, ?, ?, ?, 'committed', ?)",
            (dream.id, to_text(dream.at), to_text(dream.at), dream.reason, dream.number),
        )
    connection.executemany("UPDATE pointers SET uses = max(uses, ?) WHERE keywords = ?", uses)
    return new


def _missing(crystals: Crystals, wanted: Sequence[Crystal]) -> int:
    """Write those that are not there and were not forgotten; returns how many."""
    known = {crystal.id for crystal in crystals.get([crystal.id for crystal in wanted])}
    new = [crystal for crystal in wanted if crystal.id not in known]
    forgotten = TombstoneStore(crystals.connection).among(crystal.text for crystal in new)
    return crystals.upsert(crystal for crystal in new if crystal.text not in forgotten)


def _reserve(connection: sqlite3.Connection) -> None:
    """New rows come behind every key that any row names: those of lost crystals are not given to others."""
    highest = connection.execute(
        "SELECT max(key) FROM (SELECT max(key) AS key FROM crystals UNION SELECT max(crystal) FROM occurrences"
        " UNION SELECT max(crystal) FROM vectors UNION SELECT 0)"
    ).fetchone()[0]
    connection.execute(
        "INSERT INTO crystals (key, id, text, origin, kind, importance, trust, lifecycle, created_at)"
        " VALUES (?, ?, ?, 'dream', 'general', 0, 'agent', 'frozen', '')",
        (min(highest, (1 << 53)) + 1, _RESERVED, _RESERVED),
    )


def _take_as_dreamt(connection: sqlite3.Connection, known: Known) -> None:
    """Notes of which no record says who took them in were consumed all the same: no dream is to take them twice."""
    last = connection.execute("SELECT max(number) FROM versions").fetchone()[0]
    if last is not None and known.consumed:
        ids = json.dumps([crystal.id for crystal in known.consumed])
        connection.execute(
            f"UPDATE crystals SET dreamt_in = ? WHERE dreamt_in IS NULL AND id IN ({_LISTED})", (last, ids)
        )


def _read_again(connection: sqlite3.Connection, unread: str) -> None:
    """Of every transcript nothing was read; what is known of it stays known.

    What an occurrence says of a file outside the workspace may be another machine's: it names no file here.
    """
    connection.execute(
        "INSERT OR REPLACE INTO watermarks SELECT file, -1, 0, ? FROM (SELECT file FROM watermarks"
        " UNION SELECT file FROM occurrences WHERE file <> '' AND file NOT GLOB '/*'"
        " AND '/' || file || '/' NOT GLOB '*/../*')",
        (unread,),
    )


def _lines(crystals: Crystals, standing: Sequence[tuple[SectionName, str]], now: datetime) -> int:
    """Lines of which no crystal speaks any more become some: what stands there is found by a search as well."""
    spoken = {row[0] for row in crystals.connection.execute("SELECT text FROM crystals")}
    supported = {
        row[0]
        for row in crystals.connection.execute(
            "SELECT l.text FROM lines l JOIN evidence e ON e.line = l.id JOIN crystals c ON c.id = e.crystal"
        )
    }
    last = crystals.connection.execute("SELECT max(number) FROM versions").fetchone()[0]
    made = [
        Crystal(text, Origin.EVICTED, now, Kind.GENERAL, trust=Trust.AGENT, lifecycle=Lifecycle.CONSOLIDATED)
        for section, text in standing
        if section is not SectionName.POINTERS and text not in spoken and text not in supported
    ]
    new = _missing(crystals, made)
    if last is not None:
        crystals.mark_dreamt([crystal.id for crystal in made], last)
    return new


# ------------------------------------------------------------ crystals that are damaged themselves


def _altered(connection: sqlite3.Connection, rows: Iterable[Row]) -> int:
    """Crystals with a text that is not their id's: the true one, if it has come back, has its places; else it stays.

    What is left of a text is worth more than nothing, and is called what it is now.
    """
    kept = 0
    for row in rows:
        own = crystal_id(Origin(str(row["origin"])), str(row["text"]))
        if not (_inherit(connection, row["key"], str(row["id"])) or _inherit(connection, row["key"], own)):
            connection.execute("DELETE FROM vectors WHERE crystal = ?", (row["key"],))
            kept += put(connection, "crystals", row | {"id": own})
    return kept


def _fragments(connection: sqlite3.Connection, fragments: Iterable[tuple[int, str, str]], now: datetime) -> int:
    kept = 0
    for key, id_, text in fragments:
        if _inherit(connection, key, id_):
            continue
        connection.execute("DELETE FROM vectors WHERE crystal = ?", (key,))
        crystal = Crystal(text + _CUT, Origin.EVICTED, now, trust=Trust.WEB, lifecycle=Lifecycle.CONSOLIDATED)
        row = {
            "key": key,
            "id": crystal.id,
            "text": crystal.text,
            "origin": crystal.origin.value,
            "kind": crystal.kind.value,
            "importance": crystal.importance,
            "trust": crystal.trust.value,
            "lifecycle": crystal.lifecycle.value,
            "created_at": to_text(now),
        }
        kept += put(connection, "crystals", row)
    return kept


def _inherit(connection: sqlite3.Connection, key: object, id_: str) -> bool:
    """What belonged to this row is the crystal's of this id; False when there is none."""
    heir = connection.execute("SELECT key FROM crystals WHERE id = ?", (id_,)).fetchone()
    if heir is None:
        return False
    if heir[0] != key:
        connection.execute("UPDATE OR IGNORE occurrences SET crystal = ? WHERE crystal = ?", (heir[0], key))
    return True


def _keys_of_old(connection: sqlite3.Connection, keys: Mapping[str, int]) -> None:
    """Crystals that have come back have the rows that they had: their vectors and places are still there."""
    for id_, key in keys.items():
        row = connection.execute("SELECT key FROM crystals WHERE id = ?", (id_,)).fetchone()
        taken = connection.execute("SELECT 1 FROM crystals WHERE key = ?", (key,)).fetchone()
        if row is None or row[0] == key or taken:
            continue
        connection.execute("UPDATE crystals SET key = ? WHERE id = ?", (key, id_))
        connection.execute("UPDATE crystals SET merged_into = ? WHERE merged_into = ?", (key, row[0]))
        connection.execute("UPDATE OR IGNORE occurrences SET crystal = ? WHERE crystal = ?", (key, row[0]))


# ------------------------------------------------------------ what follows from the rest


def settle(connection: sqlite3.Connection, found: Salvage) -> None:
    """Make whole what rows say of each other: keys that lead nowhere, queues, counters, both full-text indexes."""
    connection.execute(
        "UPDATE crystals SET merged_into = NULL, lifecycle = 'activated'"
        " WHERE merged_into IS NOT NULL AND merged_into NOT IN (SELECT key FROM crystals)"
    )
    _sessions(connection, found.ids.get("sessions", {}))
    while gone := connection.execute("PRAGMA foreign_key_check").fetchall():
        for table, rowid, *_ in (tuple(row) for row in gone):
            if rowid is not None:
                connection.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (rowid,))
            else:  # a table without rowids
                _drop_orphans(connection, str(table))
    _vectors(connection)
    if not found.torn.isdisjoint(("items", "sessions", "item_words")):
        _items(connection)
    _patch_lines(connection)
    full_text.rebuild(connection)
    ColdArchive(connection).rebuild()


def _drop_orphans(connection: sqlite3.Connection, table: str) -> None:
    for _, _, parent, column, to, *_ in connection.execute(f'PRAGMA foreign_key_list("{table}")').fetchall():
        connection.execute(f'DELETE FROM "{table}" WHERE "{column}" NOT IN (SELECT "{to}" FROM "{parent}")')


def _sessions(connection: sqlite3.Connection, ids: Mapping[str, int]) -> None:
    """A session whose row is lost is there again for its items, under its id or a made one, with the usual policy."""
    names = {key: id_ for id_, key in ids.items()}
    lost = connection.execute(
        "SELECT session, min(created_at) FROM items WHERE session NOT IN (SELECT key FROM sessions) GROUP BY session"
    ).fetchall()
    for key, since in lost:
        put(
            connection,
            "sessions",
            {"key": key, "id": names.get(key, f"recovered-{key}"), "policy": DEFAULT, "opened_at": since},
        )


def _vectors(connection: sqlite3.Connection) -> None:
    """All vectors are of one model and as wide; what has none waits for one."""
    width = connection.execute(
        "SELECT length(vector) FROM vectors GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"
    ).fetchone()
    if width is not None:
        model = Meta(connection).get(MODEL)
        if model is None:
            (model,) = connection.execute(
                "SELECT model FROM vectors GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"
            ).fetchone()
            Meta(connection).put(MODEL, model)
        connection.execute("DELETE FROM vectors WHERE length(vector) <> ? OR model <> ?", (width[0], model))
    connection.execute("DELETE FROM to_embed")
    connection.execute("INSERT INTO to_embed SELECT key FROM crystals WHERE key NOT IN (SELECT crystal FROM vectors)")
    # The index is built anew of all of them, and what was compared before costs nothing to compare again.
    connection.execute("DELETE FROM to_index")
    connection.execute("INSERT OR IGNORE INTO to_compare SELECT crystal FROM vectors")


def _items(connection: sqlite3.Connection) -> None:
    """How much is in the sessions, and the words of what is."""
    connection.execute(
        "UPDATE sessions SET"
        " next_seq = max(next_seq, (SELECT coalesce(max(seq) + 1, 0) FROM items WHERE session = sessions.key)),"
        " step = max(step, (SELECT coalesce(max(step_index), 0) FROM items WHERE session = sessions.key)),"
        " held = (SELECT count(*) FROM items WHERE session = sessions.key AND state IN ('live', 'hidden')),"
        " tokens = (SELECT coalesce(sum(token_count), 0) FROM items WHERE session = sessions.key"
        " AND state IN ('live', 'hidden')),"
        " due_at = CASE WHEN closed_at IS NULL THEN coalesce(due_at, opened_at) ELSE due_at END"
    )
    rows = connection.execute("SELECT key, content FROM items WHERE state IN ('live', 'hidden')").fetchall()
    connection.execute("DELETE FROM item_words")
    connection.executemany("INSERT INTO item_words VALUES (?, ?)", [(key, text.casefold()) for key, text in rows])


def _patch_lines(connection: sqlite3.Connection) -> None:
    """A line that is said to have left in a version that there is none of stands."""
    connection.execute(
        "UPDATE lines SET died_in = NULL, fate = '', successor = '' WHERE died_in > (SELECT coalesce(max(number), 0)"
        " FROM versions)"
    )
