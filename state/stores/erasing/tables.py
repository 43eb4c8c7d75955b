"""Table erasure: finds what goes from state.db (`planned`), takes it out of every table, then off the disk.

Tables whose rows have a meaning are treated by it: a crystal of which something remains gets its new id, a line keeps
its place in the ledger and no word, an item leaves its session. After that every text in every table is looked at,
whatever table it is; only names that are dreamd's own, and those of the owner's files, are not.
"""

import json
import re
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from state.crystals.crystal import Kind as CrystalKind
from state.crystals.crystal import Origin, crystal_digest, new_id
from state.dream import Decision, decode_record, encode_record
from state.errors import BusyError, StorageError
from state.forgetting.cutting import Cut
from state.forgetting.known import Target, spans, without
from state.stores.crystals import full_text, skills
from state.stores.database.table import Kind, Layout, layouts_of
from state.stores.database.tables import REST, Change, Document, Proposal, Run, VersionRow, content_of
from state.stores.entries.meanings import forget_vectors
from state.stores.erasing.items import erase_items
from state.stores.erasing.plan import INTENTION, Erasure, erased_change, erased_document, erased_record, says_less
from state.stores.history.changes import OPEN
from state.stores.history.lineage import digest_of
from state.text.words import terms

_CHECKPOINT_SECONDS = 10.0
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+Z-]+|[0-9a-f]{64}|\[\]|\{\}|")
# Every other text of every table is looked at.
_NAMES = (Kind.CODE, Kind.FILE)
# A row goes with what it says, or what it is called.
_WHOLE_ROWS = (
    ("tombstones", "text"), ("gaps", "question"), ("skills", "pattern"),
    ("entries", "name"), ("entries", "namespace"),
)  # fmt: skip
_REFERENCES = (
    ("crystals", "id"), ("crystals", "parents"), ("evidence", "crystal"), ("lines", "crystal"),
    ("pointers", "crystal"), ("searches", "crystal"), ("changes", "note"), ("changes", "record"),
    ("versions", "record"), ("proposals", "record"), ("calls", "request"), ("calls", "reply"), ("meta", "value"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Made:
    """A line or crystal, by its id, that was derived from erased crystals in other words."""

    kind: str
    id: str
    text: str


def planned(connection: sqlite3.Connection, targets: tuple[Target, ...], cut: Cut) -> Erasure:
    """The erasure of these targets from state.db; nothing is written."""
    rows = connection.execute("SELECT id, text FROM crystals")
    left = {id_: without(text, targets, cut) for id_, text in map(tuple, rows) if spans(text, targets)}
    keywords = {
        row["keywords"]
        for row in connection.execute("SELECT keywords, topic, crystal FROM pointers")
        if spans(row["keywords"], targets)
        or spans(row["topic"], targets)
        or (row["crystal"] in left and not set(terms(row["keywords"])) <= set(terms(left[row["crystal"]])))
    }
    gone = frozenset(id_ for id_, text in left.items() if not text)
    return Erasure(targets, cut, frozenset(left), frozenset(keywords), gone)


def made_from(connection: sqlite3.Connection, erasure: Erasure) -> tuple[Made, ...]:
    """The current lines and crystals that rest on erased crystals alone, in other words."""
    if not erasure.gone:
        return ()
    rests: dict[str, set[str]] = {}
    for row in connection.execute("SELECT line, crystal FROM evidence"):
        rests.setdefault(row["line"], set()).add(row["crystal"])
    lines = connection.execute("SELECT id, text FROM lines WHERE died_in IS NULL ORDER BY born_in, id").fetchall()
    made = [
        Made("line", row["id"], row["text"])
        for row in lines
        if rests.get(row["id"]) and rests[row["id"]] <= erasure.gone and not spans(row["text"], erasure.targets)
    ]
    rows = connection.execute(
        "SELECT c.id, c.text, c.parents, s.id AS survivor FROM crystals c"
        " LEFT JOIN crystals s ON s.key = c.merged_into WHERE c.parents <> '[]' OR c.merged_into IS NOT NULL"
    )
    for row in rows:
        parents = set(json.loads(row["parents"])) | ({row["survivor"]} if row["survivor"] else set())
        if row["id"] not in erasure.crystals and parents and parents <= erasure.gone:
            made.append(Made("crystal", row["id"], row["text"]))
    return tuple(made)


def erase(connection: sqlite3.Connection, erasure: Erasure, now: datetime) -> Counter[str]:
    """Erase the targets from every table; returns how many rows changed, by table. In the caller's transaction."""
    changed: Counter[str] = Counter()
    changed["crystals"] += _crystals(connection, erasure)
    changed["sessions"] += _sessions(connection, erasure)
    changed["lines"] += _lines(connection, erasure)
    for name, column in _WHOLE_ROWS:
        changed[name] += _whole_rows(connection, name, column, erasure)
    changed["pointers"] += _pointers(connection, erasure)
    gone = "DELETE FROM searches WHERE crystal NOT IN (SELECT id FROM crystals)"
    changed["searches"] += connection.execute(gone).rowcount
    changed["items"] += erase_items(connection, erasure, now)
    changed["versions"] += _versions(connection, erasure)
    changed["proposals"] += _proposals(connection, erasure)
    changed["changes"] += _changes(connection, erasure, now)
    for name, table in layouts_of(connection).items():
        changed[name] += _swept(connection, table, erasure)
    if changed["crystals"]:
        skills.expect_more(connection)
    if changed["items"]:
        full_text.rebuild(connection, "cold_words")
    return +changed


def texts(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, str]]:
    """(column, value) of every text in the table."""
    for row in connection.execute(f'SELECT * FROM "{table}"'):
        for column in row.keys():  # noqa: SIM118 - a Row is no mapping
            if isinstance(row[column], str):
                yield column, row[column]


def scrub(connection: sqlite3.Connection) -> None:
    """Rewrite the word index and the whole file, so that no free page keeps anything, and empty its log.

    Raise BusyError when another process reads for longer than that takes.
    """
    full_text.compact(connection)
    connection.execute("VACUUM")
    empty_log(connection)


def empty_log(connection: sqlite3.Connection) -> None:
    """Empty the write-ahead log. Raises BusyError."""
    deadline = time.monotonic() + _CHECKPOINT_SECONDS
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        if time.monotonic() > deadline:
            raise BusyError(
                "another process reads state.db, so its log cannot be emptied", "run 'dreamd forget' to go on"
            )


def _crystals(connection: sqlite3.Connection, erasure: Erasure) -> int:
    rows = connection.execute("SELECT key, id, digest, origin, kind, text, context, speaker FROM crystals").fetchall()
    changed = 0
    for row in rows:
        context = "" if erasure.holds(row["context"]) else row["context"]
        speaker = "" if erasure.holds(row["speaker"]) else row["speaker"]
        text = erasure.prose(row["text"]) if row["id"] in erasure.crystals else row["text"]
        if (text, context, speaker) == (row["text"], row["context"], row["speaker"]):
            continue
        changed += 1
        if row["kind"] == CrystalKind.TASK_PATTERN.value:
            skills.expect_more(connection)
        if row["id"] == row["digest"]:
            _give_new_id(connection, row["id"])
        if text:
            _rewrite(connection, row, text, context, speaker)
        else:
            _remove(connection, row["key"])
    return changed


def _give_new_id(connection: sqlite3.Connection, old: str) -> None:
    """Replace the id of a crystal of an older dreamd, which is a digest of its text, wherever it stands."""
    new = new_id()
    for table, column in _REFERENCES:
        statement = f"UPDATE {table} SET {column} = replace({column}, ?1, ?2) WHERE instr({column}, ?1)"
        connection.execute(statement, (old, new))


def _rewrite(connection: sqlite3.Connection, row: sqlite3.Row, text: str, context: str, speaker: str) -> None:
    """Replace the text of the crystal in this row, which has no vector then."""
    key, origin = row["key"], Origin(row["origin"])
    is_distinct = row["speaker"] and row["digest"] == crystal_digest(origin, row["text"], row["speaker"])
    digest = crystal_digest(origin, text, speaker if is_distinct else "")
    query = "SELECT 1 FROM crystals WHERE digest = ? AND key <> ?"
    if connection.execute(query, (digest, key)).fetchone():
        digest = REST + new_id()  # both are compared, as any two that say the same
    full_text.remove(connection, key)
    pairs = full_text.pairs(f"{context}: {text}" if context else text)
    connection.execute(
        "UPDATE crystals SET digest = ?, text = ?, context = ?, speaker = ?, pairs = ? WHERE key = ?",
        (digest, text, context, speaker, pairs, key),
    )
    full_text.add(connection, key)
    connection.execute("UPDATE occurrences SET digest = '' WHERE crystal = ?", (key,))
    # A digest of what was noted would tell whoever guesses it.
    connection.execute("UPDATE notes SET digest = hex(randomblob(32)) WHERE crystal = ?", (key,))
    connection.execute("DELETE FROM supersessions WHERE ?1 IN (older, newer)", (key,))
    for queue in ("to_embed", "to_compare"):
        connection.execute(f"INSERT OR IGNORE INTO {queue} (crystal) VALUES (?)", (key,))


def _remove(connection: sqlite3.Connection, key: int) -> None:
    """Delete the row. Its hidden duplicates are visible again."""
    connection.execute(
        "UPDATE crystals SET merged_into = NULL, lifecycle = 'activated' WHERE merged_into = ?", (key,)
    )
    full_text.remove(connection, key)
    connection.execute("DELETE FROM crystals WHERE key = ?", (key,))


def _sessions(connection: sqlite3.Connection, erasure: Erasure) -> int:
    """Rename each session whose id holds a target, in every table alike; returns how many."""
    names = connection.execute("SELECT session FROM occurrences UNION SELECT id FROM sessions").fetchall()
    matching = [row[0] for row in names if erasure.holds(row[0])]
    for number, name in enumerate(matching):
        row = connection.execute("SELECT key FROM sessions WHERE id = ?", (name,)).fetchone()
        new = f"forgotten-{row['key']}" if row else f"forgotten-{number}-{secrets.token_hex(4)}"
        connection.execute("UPDATE sessions SET id = ? WHERE id = ?", (new, name))
        connection.execute("UPDATE crystals SET session = ? WHERE session = ?", (new, name))
        connection.execute("UPDATE OR IGNORE occurrences SET session = ? WHERE session = ?", (new, name))
    return len(matching)


def _lines(connection: sqlite3.Connection, erasure: Erasure) -> int:
    """Erase the targets from lines; an erased line keeps its id, so that no other line gets it."""
    last = connection.execute("SELECT coalesce(max(number), 0) FROM versions").fetchone()[0]
    changed = 0
    for row in connection.execute("SELECT id, text FROM lines").fetchall():
        text = erasure.line(row["text"])
        if text == row["text"]:
            continue
        changed += 1
        if text:
            connection.execute("UPDATE lines SET text = ? WHERE id = ?", (text, row["id"]))
            continue
        connection.execute(
            "UPDATE lines SET text = '', crystal = '', successor = '', fate = 'deleted',"
            " died_in = coalesce(died_in, ?) WHERE id = ?",
            (last, row["id"]),
        )
        connection.execute("DELETE FROM evidence WHERE line = ?", (row["id"],))
    return changed


def _whole_rows(connection: sqlite3.Connection, table: str, column: str, erasure: Erasure) -> int:
    found = [(row[0],) for row in connection.execute(f"SELECT {column} FROM {table}") if erasure.holds(row[0])]
    connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", found)
    return len(found)


def _pointers(connection: sqlite3.Connection, erasure: Erasure) -> int:
    """Delete the pointers that lead nowhere: to erased keywords, or to a crystal that is gone (an empty id)."""
    listed = (json.dumps(sorted(erasure.keywords)),)
    statement = "DELETE FROM pointers WHERE keywords IN (SELECT value FROM json_each(?)) OR crystal = ''"
    return connection.execute(statement, listed).rowcount


def _versions(connection: sqlite3.Connection, erasure: Erasure) -> int:
    """Erase the targets from the texts and records of versions, and from what MEMORY.md is to have."""
    changed = 0
    for row in connection.execute("SELECT number, text, record FROM versions").fetchall():
        text = erased_document(row["text"], erasure)
        old = decode_record(row["record"], f"version {row['number']}") if row["record"] else None
        new = erased_record(old, erasure) if old else None
        if text == row["text"] and new == old:
            continue
        changed += 1
        VersionRow.table.change(
            connection,
            "number = ?",
            row["number"],
            text=text,
            digest=digest_of(text),
            characters=len(text),
            record=encode_record(new) if new else "",
        )
    for row in connection.execute("SELECT rendered, wanted FROM document").fetchall():
        rendered, wanted = (erased_document(text, erasure) for text in row)
        Document.table.change(connection, "TRUE", rendered=rendered, wanted=wanted)
    return changed


def _proposals(connection: sqlite3.Connection, erasure: Erasure) -> int:
    """Reject each proposal that holds a target, and erase its record. Its notes stay pending."""
    changed = 0
    for one in Proposal.table.read(Proposal, connection):
        old = decode_record(one.record, f"proposal {one.dream}")
        new = erased_record(old, erasure)
        if new == old:
            continue
        changed += 1
        waits = one.verdict == "waiting"
        verdict = "rejected" if waits else one.verdict
        Proposal.table.change(connection, "dream = ?", one.dream, record=encode_record(new), verdict=verdict)
        if waits:
            detail = "it held what was forgotten"
            Run.table.change(connection, "id = ?", one.dream, outcome="rejected", detail=detail)
    return changed


def _changes(connection: sqlite3.Connection, erasure: Erasure, now: datetime) -> int:
    """Erase the targets from staged changes; one that would write or change a target waits no longer."""
    changed = 0
    for one in Change.table.read(Change, connection):
        new = erased_change(one.record, erasure)
        if new == one.record:
            continue
        changed += 1
        over: dict[str, object] = {}
        if one.decision in OPEN and says_less(new, one.record):
            over = {"decision": Decision.OUTDATED, "decided_at": now}
        Change.table.change(connection, "number = ?", one.number, record=new, **over)
    return changed


def _swept(connection: sqlite3.Connection, table: Layout, erasure: Erasure) -> int:
    """Erase the targets from all other texts of the table. A row whose key holds one is deleted."""
    keys = table.key
    named = [one for one in table.columns if content_of(table.name, one).kind not in _NAMES]
    if not named:
        return 0
    wanted = ", ".join(f'"{name}"' for name in (*keys, *named))
    updates = []
    for row in connection.execute(f'SELECT {wanted} FROM "{table.name}"').fetchall():
        if table.name == "meta" and row["name"] == INTENTION:
            continue
        place, values = tuple(row[: len(keys)]), dict(zip(named, tuple(row)[len(keys) :], strict=True))
        if new := changed_values(table.name, values, erasure):
            updates.append((place, new))
    with _triggers_off(connection, table.name if updates else ""):
        for place, new in updates:
            _update(connection, table, place, new)
    return len(updates)


def _update(connection: sqlite3.Connection, table: Layout, place: tuple[Any, ...], new: Mapping[str, str]) -> None:
    """Write the new values of a row, with what hangs on them; a row whose key is empty then is deleted."""
    where = " AND ".join(f'"{name}" IS ?' for name in table.key)
    if any(name in table.key and not value for name, value in new.items()):
        connection.execute(f'DELETE FROM "{table.name}" WHERE {where}', place)
        return
    if table.name == "crystals":
        full_text.remove(connection, *place)
    setting = ", ".join(f'"{name}" = ?' for name in new)
    connection.execute(f'UPDATE OR REPLACE "{table.name}" SET {setting} WHERE {where}', (*new.values(), *place))
    if table.name == "crystals":
        full_text.add(connection, *place)
    elif table.name == "entries":
        forget_vectors(connection, place)


def changed_values(table: str, values: Mapping[str, Any], erasure: Erasure) -> dict[str, str]:
    """The new values of those columns of a row that erasing changes."""
    found: dict[str, str] = {}
    for name, value in values.items():
        if not isinstance(value, str) or _MOMENT.fullmatch(value):
            continue
        is_record = content_of(table, name).kind is Kind.JSON and value[:1] in ("{", "[")
        new = _record(value, erasure) if is_record else erasure.json(value)
        if new != value:
            found[name] = new
    return found


def _record(value: str, erasure: Erasure) -> str:
    old = json.loads(value)
    new = erasure.record(old)
    return value if new == old else json.dumps(new, ensure_ascii=False)


@contextmanager
def _triggers_off(connection: sqlite3.Connection, table: str) -> Iterator[None]:
    """Drop the triggers that keep the table append-only, and create them again at the end."""
    statement = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
    triggers = connection.execute(statement, (table,)).fetchall()
    for trigger in triggers:
        connection.execute(f'DROP TRIGGER "{trigger["name"]}"')
    yield
    for trigger in triggers:
        connection.execute(trigger["sql"])


def sound(connection: sqlite3.Connection) -> None:
    """Return if the file is sound. Raises StorageError for a damaged one, which must not be rewritten."""
    wrong = [row[0] for row in connection.execute("PRAGMA quick_check(1)") if row[0] != "ok"]
    if wrong:
        raise StorageError(f"state.db is damaged ({wrong[0]})", "run 'dreamd doctor'")
