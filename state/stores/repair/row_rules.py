"""Row rules: what a row of each table of state.db looks like, to know it again and to tell sound from damaged.

Columns and their types come from the schema itself. What a column may hold is known where a wrong value would stop
whoever reads it: times, JSON, and the members of enumerations.
"""

import json
import math
import re
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from state.crystals.crystal import Kind, Lifecycle, Origin, crystal_id
from state.document.document import SectionName
from state.document.operations import Fate
from state.dream import decode_record
from state.errors import DreamdError
from state.forgetting.matching import Cut
from state.sessions.item import Priority, State
from state.sessions.policies.by_name import DEFAULT, POLICIES, policy_of
from state.signals.curiosity import Cause
from state.signals.hormones import Hormone
from state.stores.database.columns import Kind as ColumnKind
from state.stores.database.columns import kind_of
from state.stores.repair.btree import INNER_INDEX, LEAF_INDEX, LEAF_TABLE, Cell, Value
from state.stores.sessions.rows import SPAN
from state.trust import Trust

Row = dict[str, Value]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "TEXT": (str,), "INTEGER": (int,), "REAL": (int, float), "BLOB": (bytes,),
}  # fmt: skip
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_META = re.compile(r"[a-z_]{3,40}")
_LINE = re.compile(r"[A-Z]\d{1,12}")
_HEX = re.compile(r"[0-9a-f]{32,64}")


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it was declared."""

    name: str
    type: str
    required: bool
    default: Value


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `columns` stand in the order in which a record holds them, `rowid` is the column that is the key."""

    name: str
    columns: tuple[Column, ...]
    rowid: str
    has_rowids: bool

    def row(self, cell: Cell) -> Row | None:
        """The record as a row; None when it cannot be one of this table's."""
        if not cell.whole or len(cell.values) > len(self.columns) or (cell.rowid is None) is self.has_rowids:
            return None
        row: Row = {}
        for at, column in enumerate(self.columns):
            value = cell.values[at] if at < len(cell.values) else column.default
            if column.name == self.rowid:
                value = cell.rowid if value is None else None
            if value is None:
                if column.required or (column.name == self.rowid):
                    return None
            elif not isinstance(value, _TYPES.get(column.type, (object,))):
                return None
            row[column.name] = value
        return row

    def fits(self, cell: Cell, kind: int) -> bool:
        """Whether the record of a page of this kind is certainly one of this table's."""
        if self.has_rowids is not (kind == LEAF_TABLE) or len(self.columns) < 2:
            return False
        row = self.row(cell)
        return row is not None and mended(self.name, row) is not None and _is_typical(self.name, row)

    def holds(self, kind: int) -> bool:
        """Whether a page of this kind may hold rows of it."""
        return kind == LEAF_TABLE if self.has_rowids else kind in (LEAF_INDEX, INNER_INDEX)


def tables_of(connection: sqlite3.Connection) -> dict[str, Table]:
    """The ordinary tables of this database."""
    found = connection.execute("SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    return {
        name: _table(connection, name, has_rowids=not bare)
        for name, bare in found.fetchall()
        if not name.startswith("sqlite_")
    }


def _table(connection: sqlite3.Connection, name: str, *, has_rowids: bool) -> Table:
    declared = connection.execute("SELECT * FROM pragma_table_info(?)", (name,)).fetchall()
    columns = [
        (pk, Column(column, kind, bool(required or (pk and not has_rowids)), _default(connection, default)))
        for _, column, kind, required, default, pk in (tuple(row) for row in declared)
    ]
    keys = [column for pk, column in columns if pk]
    rowid = keys[0].name if has_rowids and len(keys) == 1 and keys[0].type == "INTEGER" else ""
    if not has_rowids:
        columns = [*sorted(((pk, one) for pk, one in columns if pk), key=lambda pair: pair[0])] + [
            (pk, one) for pk, one in columns if not pk
        ]
    return Table(name, tuple(column for _, column in columns), rowid, has_rowids)


def _default(connection: sqlite3.Connection, expression: str | None) -> Value:
    if expression is None:
        return None
    value: Value = connection.execute(f"SELECT {expression}").fetchone()[0]
    return value


def mended(table: str, row: Row) -> Row | None:
    """The row with a plain value where it holds one that nobody could read; None when nothing takes its place."""
    changed: Row = {}
    for name, value in row.items():
        rule = _RULES.get((table, name)) or (_MOMENT if kind_of(table, name) is ColumnKind.MOMENT else None)
        if isinstance(value, float) and not math.isfinite(value):
            return None
        required = (table, name) in _RULES
        if rule is None or (value is None and not required) or (value is not None and rule.passes(value)):
            continue
        if rule.otherwise is None:
            return None
        changed[name] = rule.otherwise
    row = row | changed
    if table == "meta" and not _META_RULES.get(str(row["name"]), _ANY).passes(row["value"]):
        return None
    if table == "sessions" and not _is_settled(row):
        row["config"] = "{}"
    if table == "items":
        key, session, seq = row["key"], row["session"], row["seq"]
        if not (isinstance(session, int) and isinstance(seq, int) and key == session * SPAN + seq):
            return None
    return row


def is_altered(row: Mapping[str, Value]) -> bool:
    """Whether the text of a crystal is not the one that its id was made of."""
    return row["id"] != crystal_id(Origin(str(row["origin"])), str(row["text"]))


def _is_typical(table: str, row: Row) -> bool:
    """Of tables that look alike: whether this is what the rows of this one look like."""
    return all(pattern.fullmatch(str(row[name])) for (one, name), pattern in _TYPICAL.items() if one == table)


_TYPICAL = {
    ("meta", "name"): _META,
    ("lines", "id"): _LINE,
    ("evidence", "line"): _LINE,
    ("evidence", "crystal"): _HEX,
    ("forgotten", "digest"): _HEX,
    ("crystals", "id"): _HEX,
}


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a value of a column has to pass, and what takes the place of one that does not (None: nothing does)."""

    passes: Callable[[Value], bool]
    otherwise: Value = None


def _is_moment(value: Value) -> bool:
    try:
        return _ISO.match(str(value)) is not None and datetime.fromisoformat(str(value)).tzinfo is not None
    except ValueError:
        return False


def _one_of(kind: Iterable[str], otherwise: Value = None) -> _Rule:
    members = {str(member) for member in kind}
    return _Rule(lambda value: value in members, otherwise)


def _json(kind: type[dict[str, object]] | type[list[object]], otherwise: Value = None, of: type = object) -> _Rule:
    def passes(value: Value) -> bool:
        try:
            read = json.loads(str(value))
        except (ValueError, RecursionError):
            return False
        if not isinstance(read, kind):
            return False
        return all(isinstance(one, of) for one in (read.values() if isinstance(read, dict) else read))

    return _Rule(passes, otherwise)


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


def _is_unit(value: Value) -> bool:
    """A vector of single floats of length 1 (or 0)."""
    if not isinstance(value, bytes) or not value or len(value) % 4:
        return False
    square = math.fsum(number * number for number in array("f", value))
    return abs(square - 1) < 1e-3 or square == 0


def _is_settled(row: Row) -> bool:
    """Whether a session's policy takes its settings."""
    try:
        policy_of(str(row["policy"]), json.loads(str(row["config"])))
    except (DreamdError, ValueError):
        return False
    return True


def _members(*kinds: type[StrEnum]) -> list[str]:
    return [str(member) for kind in kinds for member in kind]


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


def _are_receipts(value: Value) -> bool:
    try:
        return all(_is_moment(receipt["at"]) for receipt in json.loads(str(value)))
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


_MOMENT = _Rule(_is_moment)
_ANY = _Rule(lambda _: True)
_META_RULES: Mapping[str, _Rule] = {
    "forgotten_salt": _Rule(_is_salt),
    "forgotten_withheld": _Rule(_is_count),
    "forgotten_withheld_told": _Rule(_is_count),
    "forgettings": _Rule(_are_receipts),
    "forgetting": _Rule(_is_intention),
    "notes_read": _Rule(_are_marks),
    "session_ended": _MOMENT,
    "swept_at": _MOMENT,
}
_RULES: Mapping[tuple[str, str], _Rule] = {
    ("crystals", "text"): _Rule(lambda value: bool(str(value).strip())),
    ("crystals", "origin"): _one_of(Origin),
    ("crystals", "kind"): _one_of(Kind, Kind.GENERAL.value),
    # Nobody vouches for what cannot be read any more.
    ("crystals", "trust"): _one_of(Trust, Trust.WEB.value),
    ("crystals", "lifecycle"): _one_of(Lifecycle, Lifecycle.ACTIVATED.value),
    ("crystals", "parents"): _json(list, "[]", str),
    ("vectors", "vector"): _Rule(_is_unit),
    ("lines", "section"): _one_of(SectionName),
    ("lines", "trust"): _one_of(Trust, Trust.WEB.value),
    ("lines", "fate"): _one_of(["", *_members(Fate)], ""),
    ("gaps", "cause"): _one_of(Cause),
    ("hormones", "armed"): _Rule(_is_armed, "[]"),
    ("watermarks", "record"): _json(dict),
    ("proposals", "record"): _Rule(_is_dream),
    ("sessions", "policy"): _one_of(POLICIES, DEFAULT),
    ("sessions", "config"): _json(dict, "{}"),
    ("items", "priority"): _one_of(Priority, Priority.MEDIUM.value),
    ("items", "state"): _one_of(State),
    ("items", "tags"): _json(list, "[]", str),
    ("items", "metadata"): _json(dict, "{}", str),
    ("item_events", "figures"): _json(dict, "{}"),
    ("item_relations", "metadata"): _json(dict, "{}", str),
    ("promotions", "record"): _json(dict),
}


def fragment(cell: Cell) -> tuple[str, str] | None:
    """Id and beginning of the text of a crystal whose record breaks off; None when it does not come to that."""
    values: Sequence[Value] = cell.values
    if cell.whole or cell.rowid is None or len(values) < 3 or values[0] is not None:
        return None
    id_, text = values[1], values[2]
    known = isinstance(id_, str) and _HEX.fullmatch(id_) and isinstance(text, str) and text.strip("\0 \n")
    return (str(id_), str(text).strip("\0")) if known else None
