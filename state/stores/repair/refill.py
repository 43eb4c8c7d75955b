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
from state.dream import RESTORE, Dream
from state.sessions.policies.by_name import DEFAULT
from state.stores.crystals import full_text
from state.stores.crystals.crystals import Crystals
from state.stores.crystals.supersessions import Supersessions
from state.stores.database.connection import to_text
from state.stores.database.tombstones import TombstoneStore
from state.stores.entries.meanings import forget_vectors
from state.stores.history.changes import Changes
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
    notes that dreams have taken in, `pending` those that none has, `lines` those of MEMORY.md. `unread` is the
    watermark of a transcript of which nothing was read.
    """

    records: Sequence[Dream]
    every: bool
    consumed: Sequence[Crystal]
    pending: Sequence[Crystal]
    lines: Sequence[tuple[SectionName, str]]
    unread: str


def fill(connection: sqlite3.Connection, found: Salvage, known: Known, now: datetime) -> dict[str, int]:
    """Write the missing rows; returns how many crystals came from where. In the caller's transaction."""
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
        came["MEMORY.md"] = _lines(crystals, known.lines, now)
    if not found.torn.isdisjoint(READ_FROM):
        _read_again(connection, known.unread)
    _keys_of_old(connection, found.ids.get("crystals", {}))
    connection.execute("DELETE FROM crystals WHERE id = ?", (_RESERVED,))
    return {origin: number for origin, number in came.items() if number}


def replay(crystals: Crystals, records: Iterable[Dream], *, every: bool) -> int:
    """Replay these commits in state.db; returns how many crystals were new.

    `every`: these are all commits, so that other rows about versions and lines are deleted first.
    """
    connection, new = crystals.connection, 0
    lineage, changes = Lineage(connection), Changes(connection)
    uses = connection.execute("SELECT uses, keywords FROM pointers").fetchall()
    if every:
        for table in (*_LINEAGE, "pointers"):
            connection.execute(f"DELETE FROM {table}")
    for dream in records:
        new += _missing(crystals, dream.crystals)
        if dream.cause == RESTORE:
            crystals.undream(dream.dreamt)
            crystals.mark_dreamt(dream.redreamt, dream.number)
        else:
            crystals.mark_dreamt(dream.dreamt, dream.number, dream.newest)
        lineage.record(dream)
        Supersessions(crystals).learn(dream)
        changes.record(dream)
        connection.execute(
            "INSERT OR IGNORE INTO dreams (id, started_at, ended_at, reason, outcome, version)"
            " VALUES (?, ?, ?, ?, 'committed', ?)",
            (dream.id, to_text(dream.at), to_text(dream.at), dream.reason, dream.number),
        )
    connection.executemany("UPDATE pointers SET uses = max(uses, ?) WHERE keywords = ?", uses)
    return new


def _missing(crystals: Crystals, wanted: Sequence[Crystal]) -> int:
    """Write the crystals that are missing and not forgotten; returns how many."""
    known = {crystal.id for crystal in crystals.get([crystal.id for crystal in wanted])}
    new = [crystal for crystal in wanted if crystal.id not in known]
    forgotten = TombstoneStore(crystals.connection).among(crystal.text for crystal in new)
    return crystals.upsert(crystal for crystal in new if crystal.text not in forgotten)


def _reserve(connection: sqlite3.Connection) -> None:
    """Reserve all keys that any row names, so that keys of lost crystals are not given to new ones."""
    highest = connection.execute(
        "SELECT max(key) FROM (SELECT max(key) AS key FROM crystals UNION SELECT max(crystal) FROM occurrences"
        " UNION SELECT 0)"
    ).fetchone()[0]
    connection.execute(
        "INSERT INTO crystals (key, id, text, origin, kind, importance, trust, lifecycle, created_at)"
        " VALUES (?, ?, ?, 'dream', 'general', 0, 'agent', 'frozen', '')",
        (min(highest, (1 << 53)) + 1, _RESERVED, _RESERVED),
    )


def _take_as_dreamt(connection: sqlite3.Connection, known: Known) -> None:
    """Mark consumed notes that no record names as consumed by the last version, so that no dream takes them again."""
    last = connection.execute("SELECT max(number) FROM versions").fetchone()[0]
    if last is not None and known.consumed:
        ids = json.dumps([crystal.id for crystal in known.consumed])
        connection.execute(
            f"UPDATE crystals SET dreamt_in = ? WHERE dreamt_in IS NULL AND id IN ({_LISTED})", (last, ids)
        )


def _read_again(connection: sqlite3.Connection, unread: str) -> None:
    """Let every transcript be read again from its beginning; its crystals stay.

    Occurrences of files outside the workspace may be of another machine, so they are left out.
    """
    connection.execute(
        "INSERT OR REPLACE INTO watermarks SELECT file, -1, 0, ? FROM (SELECT file FROM watermarks"
        " UNION SELECT file FROM occurrences WHERE file <> '' AND file NOT GLOB '/*'"
        " AND '/' || file || '/' NOT GLOB '*/../*')",
        (unread,),
    )


def _lines(crystals: Crystals, lines: Sequence[tuple[SectionName, str]], now: datetime) -> int:
    """Write crystals for the lines of MEMORY.md that no crystal supports any more, so that searches find them."""
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
        for section, text in lines
        if section is not SectionName.POINTERS and text not in spoken and text not in supported
    ]
    new = _missing(crystals, made)
    if last is not None:
        crystals.mark_dreamt([crystal.id for crystal in made], last)
    return new


# ------------------------------------------------------------ crystals that are damaged themselves


def _altered(connection: sqlite3.Connection, rows: Iterable[Row]) -> int:
    """Write crystals whose text is not the one of their id, unless the right one has been restored: it inherits.

    The rest of a text is worth more than nothing; it gets the id of what it is now.
    """
    kept = 0
    for row in rows:
        own = crystal_id(Origin(str(row["origin"])), str(row["text"]))
        if not (_inherit(connection, row["key"], str(row["id"])) or _inherit(connection, row["key"], own)):
            kept += put(connection, "crystals", row | {"id": own})
    return kept


def _fragments(connection: sqlite3.Connection, fragments: Iterable[tuple[int, str, str]], now: datetime) -> int:
    kept = 0
    for key, id_, text in fragments:
        if _inherit(connection, key, id_):
            continue
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
    """Give the occurrences of this row to the crystal of this id; False when there is none."""
    heir = connection.execute("SELECT key FROM crystals WHERE id = ?", (id_,)).fetchone()
    if heir is None:
        return False
    if heir[0] != key:
        connection.execute("UPDATE OR IGNORE occurrences SET crystal = ? WHERE crystal = ?", (heir[0], key))
    return True


def _keys_of_old(connection: sqlite3.Connection, keys: Mapping[str, int]) -> None:
    """Give restored crystals their former keys, under which their vectors and occurrences are."""
    for id_, key in keys.items():
        row = connection.execute("SELECT key FROM crystals WHERE id = ?", (id_,)).fetchone()
        taken = connection.execute("SELECT 1 FROM crystals WHERE key = ?", (key,)).fetchone()
        if row is None or row[0] == key or taken:
            continue
        connection.execute("UPDATE crystals SET key = ? WHERE id = ?", (key, id_))
        connection.execute("UPDATE crystals SET merged_into = ? WHERE merged_into = ?", (key, row[0]))
        connection.execute("UPDATE OR IGNORE occurrences SET crystal = ? WHERE crystal = ?", (key, row[0]))


# ------------------------------------------------------------ derived rows


def settle(connection: sqlite3.Connection, found: Salvage) -> None:
    """Repair references between rows: keys that lead nowhere, queues, counters, both full-text indexes."""
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
    if not found.torn.isdisjoint(("entries", "entry_vectors")):
        forget_vectors(connection)
    _patch_lines(connection)
    full_text.rebuild(connection)
    ColdArchive(connection).rebuild()


def _drop_orphans(connection: sqlite3.Connection, table: str) -> None:
    for _, _, parent, column, to, *_ in connection.execute(f'PRAGMA foreign_key_list("{table}")').fetchall():
        connection.execute(f'DELETE FROM "{table}" WHERE "{column}" NOT IN (SELECT "{to}" FROM "{parent}")')


def _sessions(connection: sqlite3.Connection, ids: Mapping[str, int]) -> None:
    """Restore lost sessions of existing items, under their ids or generated ones, with the default policy."""
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
    """Have every crystal looked for in the index, and compared again, which costs nothing for what was."""
    connection.execute("DELETE FROM index_state")
    connection.execute("INSERT OR IGNORE INTO to_embed SELECT key FROM crystals")
    connection.execute("INSERT OR IGNORE INTO to_compare SELECT key FROM crystals")


def _items(connection: sqlite3.Connection) -> None:
    """Recompute the counters of the sessions, and the words of their items."""
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
    """Make lines current again that ended in a version that does not exist."""
    connection.execute(
        "UPDATE lines SET died_in = NULL, fate = '', successor = '' WHERE died_in > (SELECT coalesce(max(number), 0)"
        " FROM versions)"
    )
