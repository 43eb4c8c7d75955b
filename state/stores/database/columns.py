"""Columns: what every column of state.db holds, for whoever erases, repairs, checks or exports its rows.

Names, types and defaults are those of the schema itself (`tables_of`). What a schema cannot say is here: what a
text is, and which values can be read where a wrong one would stop its reader (a moment, JSON, a member of an
enumeration). A test compares both: a new column of text is to be described here, and until then counts as prose,
which is erased most thoroughly.
"""

import json
import math
import re
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from state.codec import decode
from state.crystals import crystal
from state.crystals.supersession import Cause
from state.document.document import SectionName
from state.document.operations import Fate
from state.dream import Decision, StagedChange, decode_record
from state.errors import DreamdError
from state.forgetting.cutting import Cut
from state.sessions.item import WEIGHTS, State
from state.sessions.policies import POLICIES
from state.signals import curiosity
from state.signals.hormones import Hormone
from state.trust import Trust

Value = int | float | str | bytes | None

_TYPES: Mapping[str, tuple[type, ...]] = {
    "TEXT": (str,), "INTEGER": (int,), "REAL": (int, float), "BLOB": (bytes,),
}  # fmt: skip
_COUNTS = "item_counts"  # of older schemas, kept by triggers
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it was declared."""

    name: str
    type: str

    def takes(self, value: Value) -> bool:
        """Whether the value is of the column's type, or none at all."""
        return value is None or isinstance(value, _TYPES.get(self.type, (object,)))


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `key` names a row of it in SQL."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]


def tables_of(connection: sqlite3.Connection) -> dict[str, Table]:
    """The tables that hold rows of their own, by name: no view, full-text index or counts, nothing of SQLite's."""
    found = connection.execute(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name"
    )
    return {
        name: _table(connection, name, has_rowids=not bare)
        for name, bare in found.fetchall()
        if not name.startswith("sqlite_") and name != _COUNTS
    }


def _table(connection: sqlite3.Connection, name: str, *, has_rowids: bool) -> Table:
    declared = connection.execute("SELECT name, type, pk FROM pragma_table_info(?)", (name,)).fetchall()
    keys = sorted((place, column) for column, _, place in map(tuple, declared) if place)
    key = ("rowid",) if has_rowids else tuple(column for _, column in keys)
    return Table(name, tuple(Column(column, kind) for column, kind, _ in map(tuple, declared)), key)


class Kind(Enum):
    """What a text is: `CODE` and `MOMENT` are dreamd's own words, the others are somebody's."""

    PROSE = auto()
    CODE = auto()  # ids, digests, members of enumerations, names of models
    FILE = auto()  # what the owner's files are called
    MOMENT = auto()  # as `connection.to_text` writes it
    JSON = auto()  # of which the names are dreamd's
    TABLE = auto()  # JSON of which the names are the owner's as well as the values


Rule = Callable[[Value], bool]
"""Returns whether dreamd can read this value."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a column holds; without a rule, every value of its type can be read."""

    kind: Kind
    rule: Rule | None = None


def content_of(table: str, column: str) -> Content:
    """What this column holds; prose, where nobody has said."""
    return COLUMNS.get(table, {}).get(column, _UNKNOWN)


def is_moment(value: Value) -> bool:
    """Whether this is a time as `connection.to_text` writes it."""
    try:
        return _ISO.match(str(value)) is not None and datetime.fromisoformat(str(value)).tzinfo is not None
    except ValueError:
        return False


def _one_of(kind: Iterable[str]) -> Rule:
    members = {str(member) for member in kind}
    return lambda value: value in members


def _json(kind: type[dict[str, object]] | type[list[object]], of: type = object) -> Rule:
    def passes(value: Value) -> bool:
        try:
            read = json.loads(str(value))
        except (ValueError, RecursionError):
            return False
        if not isinstance(read, kind):
            return False
        return all(isinstance(one, of) for one in (read.values() if isinstance(read, dict) else read))

    return passes


def _are_relations(value: Value) -> bool:
    """Whether it is a list of [type, target, metadata]."""
    try:
        read = [(kind, target, *metadata, *metadata.values()) for kind, target, metadata in json.loads(str(value))]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False
    return all(isinstance(text, str) for texts in read for text in texts)


def _is_armed(value: Value) -> bool:
    try:
        return set(json.loads(str(value))) <= set(Hormone)
    except (ValueError, TypeError, RecursionError):
        return False


def _is_dream(value: Value) -> bool:
    try:
        decode_record(str(value), "record")
    except DreamdError:
        return False
    return True


def _is_change(value: Value) -> bool:
    try:
        decode(StagedChange, str(value))
    except DreamdError:
        return False
    return True


def _is_unit(value: Value) -> bool:
    """A vector of single floats of length 1 (or 0)."""
    if not isinstance(value, bytes) or not value or len(value) % 4:
        return False
    square = math.fsum(number * number for number in array("f", value))
    return abs(square - 1) < 1e-3 or square == 0


def _is_salt(value: Value) -> bool:
    return re.fullmatch(r"(?:[0-9a-f]{2}){16,64}", str(value)) is not None


def _is_count(value: Value) -> bool:
    return re.fullmatch(r"[0-9]{1,18}", str(value)) is not None


def _are_marks(value: Value) -> bool:
    """How far files of notes were read: size, time, place, digest."""
    try:
        marks = json.loads(str(value)).values()
        return all([type(one) for one in mark] == [int, int, int, str] for mark in marks)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False


def _are_counts(value: Value) -> bool:
    """How many dreams were refused, by input."""
    try:
        return all(type(count) is int for count in json.loads(str(value)).values())
    except (ValueError, AttributeError, RecursionError):
        return False


def _are_receipts(value: Value) -> bool:
    try:
        return all(is_moment(receipt["at"]) for receipt in json.loads(str(value)))
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _is_intention(value: Value) -> bool:
    """What was being forgotten (state.stores.erasing.intent)."""
    try:
        record = json.loads(str(value))
        texts = [word for target in record["targets"] for word in target]
        texts += [*record["renamed"], *record["renamed"].values(), *record["keywords"], record["cut"]]
        places = [place for inode, at, content in record["rows"] if bytes.fromhex(content) for place in (inode, at)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False
    return (
        all(isinstance(text, str) for text in texts)
        and record["cut"] in set(Cut)
        and all(isinstance(place, int) for place in places)
    )


def _is_filled(value: Value) -> bool:
    return bool(str(value).strip())


_UNKNOWN = Content(Kind.PROSE)

META_RULES: Mapping[str, Rule] = {
    "forgotten_salt": _is_salt,
    "forgotten_withheld": _is_count,
    "forgotten_withheld_told": _is_count,
    "forgettings": _are_receipts,
    "lines_brought_back": _is_count,
    "forgetting": _is_intention,
    "notes_left": _is_count,
    "notes_read": _are_marks,
    "refused_inputs": _are_counts,
    "relations_dropped": _is_count,
    "seen_upto": _is_count,
    "session_ended": is_moment,
    "swept_at": is_moment,
}
"""Of the rows of `meta`, by name."""


def _columns(rules: Mapping[str, Rule] | None = None, /, **kinds: str) -> dict[str, Content]:
    return {
        column: Content(Kind[kind.upper()], (rules or {}).get(column, is_moment if kind == "moment" else None))
        for kind, columns in kinds.items()
        for column in columns.split()
    }


COLUMNS: Mapping[str, Mapping[str, Content]] = {
    "acts": _columns(prose="about", code="author act outcome", moment="at"),
    "calls": _columns(code="dream digest model", moment="at", json="reply request"),
    "changes": _columns(
        {"record": _is_change, "decision": _one_of(Decision)},
        prose="note",
        code="dream decision",
        moment="at decided_at",
        json="record",
    ),
    "crystals": _columns(
        {
            "text": _is_filled,
            "origin": _one_of(crystal.Origin),
            "kind": _one_of(crystal.Kind),
            "trust": _one_of(Trust),
            "lifecycle": _one_of(crystal.Lifecycle),
            "heard": _one_of(["", Trust.TOOL, Trust.WEB]),
            "parents": _json(list, str),
        },
        prose="text context speaker session",
        code="id origin kind trust lifecycle pairs heard",
        moment="created_at last_accessed_at fades_at",
        json="parents",
    ),
    "document": _columns({"edits": _json(list)}, prose="rendered wanted", json="edits"),
    "dreams": _columns(prose="detail", code="id reason outcome", moment="started_at ended_at"),
    "entries": _columns(
        {"namespace": _json(list, str), "value": _json(dict), "fields": _json(list, str)},
        prose="name",
        code="embedded_by",
        moment="created_at updated_at expires_at",
        table="namespace value fields",
    ),
    "entry_vectors": _columns({"vector": _is_unit}, code="vector"),
    "evidence": _columns(prose="crystal", code="line"),
    "feelings": _columns(prose="cause", code="event", moment="at"),
    "forgotten": _columns(code="digest", moment="at"),
    "gaps": _columns(
        {"cause": _one_of((*curiosity.Cause, "contradiction"))},  # that of an older dreamd
        prose="folded question",
        code="cause",
        moment="first_at last_at",
    ),
    "hormones": _columns({"armed": _is_armed}, code="armed", moment="at"),
    "index_state": _columns(code="vectors build"),
    "item_events": _columns({"figures": _json(dict)}, prose="reason", code="action", moment="at", json="figures"),
    "items": _columns(
        {
            "priority": _one_of(WEIGHTS),
            "state": _one_of(State),
            "tags": _json(list, str),
            "metadata": _json(dict, str),
            "relations": _are_relations,
            "record": _json(dict, str),
        },
        prose="content agent_id source state_reason promoted_to_id",
        code="id priority state promotion_reason pairs",
        moment="created_at last_accessed_at expires_at promoted_at",
        table="tags metadata relations record",
    ),
    "lines": _columns(
        {"section": _one_of(SectionName), "trust": _one_of(Trust), "fate": _one_of(["", *Fate])},
        prose="text crystal",
        code="id section trust fate successor",
        moment="born_at",
    ),
    "marks": _columns(code="digest"),
    "meta": _columns(code="name", json="value"),
    "notes": _columns(prose="replaces", code="digest", moment="at"),
    "occurrences": _columns(prose="session", code="digest", file="file", moment="at"),
    "pointers": _columns(prose="keywords topic crystal", code="line"),
    "proposals": _columns({"record": _is_dream}, code="dream verdict", moment="at", json="record"),
    "recalls": _columns({"lost": _json(list, str)}, code="dream", moment="at", table="lost"),
    "rejections": _columns(prose="figures", code="dream guard scope", moment="at"),
    "searches": _columns(prose="query crystal", moment="at"),
    "sessions": _columns(
        {"policy": _one_of(POLICIES), "config": _json(dict)},
        prose="id",
        code="policy",
        moment="opened_at closed_at due_at",
        json="config",
    ),
    "skills": _columns(prose="pattern"),
    "steps": _columns(prose="figures", code="dream node", moment="at"),
    "supersessions": _columns(
        # The last one is that of an older dreamd.
        {"trust": _one_of(Trust), "cause": _one_of((*Cause, "consolidation"))},
        code="trust cause",
        moment="at undone_at",
    ),
    "tombstones": _columns(prose="text", moment="at"),
    "versions": _columns(
        {"record": lambda value: value == "" or _is_dream(value)},
        prose="text",
        code="cause dream reason digest model",
        moment="at",
        json="record",
    ),
    "watermarks": _columns({"record": _json(dict)}, file="file", json="record"),
}
