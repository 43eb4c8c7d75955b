"""Check: whether state.db is sound: its pages, its schema, its rows and the references between them."""

import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from state.codec import decode
from state.crystals.crystal import Origin, crystal_digest, folded_digest
from state.errors import DreamdError, StorageError
from state.sessions.policies import policy_of
from state.stores.database import schema
from state.stores.database.connection import explained, open_unmigrated
from state.stores.database.copies import is_damage
from state.stores.database.opening import things, unlike_schema
from state.stores.database.table import Column, Layout, Rule, Value, is_moment, layouts_of
from state.stores.database.tables import REST, content_of
from state.stores.erasing.plan import Erasure
from state.stores.sessions.sessions import SPAN

WRONG_SCHEMA = "its schema has the number"
_MOST = 5


def damage_of(database: Path, *, expected: bool) -> list[str]:
    """Describe what is wrong with the file; empty if it is sound. No other process may have it open.

    `expected` says that a missing file is a fault. Raise StorageError as `faults` does.
    """
    if not os.path.lexists(database) or (database.is_file() and not database.stat().st_size):
        log = database.with_name(f"{database.name}-wal")
        has_log = log.is_file() and log.stat().st_size > 0
        state = "is empty" if os.path.lexists(database) else "is missing"
        return [f"{state}, and its log (-wal) is there"] if has_log else [state] if expected else []
    if not database.is_file():
        return ["is no file"]
    try:
        with open_unmigrated(database, "rw") as connection:
            return list(dict.fromkeys(faults(connection)))[:_MOST]
    except sqlite3.Error as error:
        if not is_damage(error):  # the disk, permissions or another process, where a copy would not help
            raise explained(error, database) from error
        return [str(error)]


def faults(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield what is wrong with an open database, reading all of it. Raise StorageError for a schema unknown here."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    found = things(connection)
    if not found and not version:
        return  # just created, and still empty
    if "crystals" not in found:
        yield "is another program's database"
        return
    if (why := schema.unreadable(version)) and unlike_schema(connection):
        raise StorageError(f"state.db was {why[0]}", why[1])
    yield from (str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_MOST})") if row[0] != "ok")
    if not schema.FIRST_SCHEMA <= version <= schema.SCHEMA_VERSION:
        yield f"{WRONG_SCHEMA} {version}"
        return
    if version < schema.SCHEMA_VERSION:
        return  # its rows are checked when they are migrated
    if wrong := unlike_schema(connection):
        yield f"its schema is not ours: {', '.join(wrong[:_MOST])}"
        return
    yield from _faults_of_rows(connection)


def _faults_of_rows(connection: sqlite3.Connection) -> Iterator[str]:
    orphans = Counter(str(row[0]) for row in connection.execute("PRAGMA foreign_key_check"))
    for child, count in orphans.items():
        yield f"{count} rows of {child} lead to rows that are not there"
    if connection.execute("SELECT min(length(vector)) <> max(length(vector)) FROM crystals").fetchone()[0]:
        yield "its vectors are of several widths"
    for name, layout in layouts_of(connection).items():
        rows = (dict(row) for row in connection.execute(f'SELECT * FROM "{name}"'))
        wrong = sum(not _is_sound(layout, row) for row in rows)
        if wrong:
            yield f"{wrong} rows of {name} hold what they cannot hold"


def _is_sound(layout: Layout, row: Mapping[str, Value]) -> bool:
    """Return whether dreamd can read every value of the row."""
    is_readable = all(
        layout.takes(name, value) and content_of(layout.name, name).holds(value) for name, value in row.items()
    )
    further = _FURTHER.get(layout.name)
    return is_readable and (further is None or further(row))


def _is_meta(row: Mapping[str, Value]) -> bool:
    return Column(is_words=False, rule=_META.get(str(row["name"]))).holds(row["value"])


def _is_crystal(row: Mapping[str, Value]) -> bool:
    if row["origin"] is None:  # possible in a damaged page, despite NOT NULL
        return False
    origin, text, digest = Origin(str(row["origin"])), str(row["text"]), str(row["digest"])
    speaker = str(row["speaker"])
    own = {crystal_digest(origin, text), crystal_digest(origin, text, speaker)}
    return (digest in own or digest.startswith(REST)) and row["folded"] == folded_digest(text, speaker)


def _is_item(row: Mapping[str, Value]) -> bool:
    key, session, seq = row["key"], row["session"], row["seq"]
    return isinstance(session, int) and isinstance(seq, int) and key == session * SPAN + seq


def _has_policy(row: Mapping[str, Value]) -> bool:
    """Return whether the session's policy accepts its settings."""
    try:
        policy_of(str(row["policy"]), json.loads(str(row["config"])))
    except (DreamdError, ValueError):
        return False
    return True


def _are_places(text: str) -> bool:
    """Return whether this is a valid plan for overwriting note files (state.stores.history.notes)."""
    return all(type(number) is int for pair in json.loads(text) for number in pair)


_IS_COUNT: Rule = re.compile(r"[0-9]{1,18}").fullmatch
# The rules for the values in `meta`, by name.
_META: Mapping[str, Rule] = {
    "forgotten_salt": re.compile(r"(?:[0-9a-f]{2}){16,64}").fullmatch,
    "forgotten_withheld": _IS_COUNT,
    "forgotten_withheld_told": _IS_COUNT,
    "forgetting": lambda text: decode(Erasure, text) is not None,
    "notes_left": _IS_COUNT,
    "seen_upto": _IS_COUNT,
    "session_ended": is_moment,
    "swept_at": is_moment,
    "wiped_notes": _are_places,
}
_FURTHER = {"meta": _is_meta, "crystals": _is_crystal, "items": _is_item, "sessions": _has_policy}
