"""Columns: what every column of state.db holds, for whoever erases, repairs, checks or exports its rows.

Names and types are those of the schema itself (`layouts_of`). What a text is, and which values can be read, `tables`
says, and for working memory and entries this file. What nobody describes counts as prose, which is erased most
thoroughly.
"""

import json
import math
import re
import sqlite3
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from state.forgetting.cutting import Cut
from state.sessions.item import WEIGHTS, State
from state.sessions.policies import POLICIES
from state.stores.database.table import Column, Kind, Rule, Value, is_moment
from state.stores.database.tables import TABLES

_TYPES: Mapping[str, tuple[type, ...]] = {
    "TEXT": (str,), "INTEGER": (int,), "REAL": (int, float), "BLOB": (bytes,),
}  # fmt: skip
_COUNTS = "item_counts"  # of older schemas, kept by triggers


@dataclass(frozen=True, slots=True)
class Layout:
    """A table of a database as it is: the SQL types of its columns, by name; `key` names a row of it in SQL."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]

    def takes(self, column: str, value: Value) -> bool:
        """Return whether the value is of the column's type, or none at all."""
        if isinstance(value, float) and not math.isfinite(value):
            return False
        return value is None or isinstance(value, _TYPES.get(self.columns[column], (object,)))


def layouts_of(connection: sqlite3.Connection) -> dict[str, Layout]:
    """Return the tables that hold rows of their own: no view, full-text index or counts, nothing of SQLite's."""
    found = connection.execute(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name"
    )
    return {
        name: _layout(connection, name, has_rowids=not bare)
        for name, bare in found.fetchall()
        if not name.startswith("sqlite_") and name != _COUNTS
    }


def _layout(connection: sqlite3.Connection, name: str, *, has_rowids: bool) -> Layout:
    declared = connection.execute("SELECT name, type, pk FROM pragma_table_info(?)", (name,)).fetchall()
    keys = sorted((place, column) for column, _, place in map(tuple, declared) if place)
    key = ("rowid",) if has_rowids else tuple(column for _, column in keys)
    return Layout(name, {column: kind for column, kind, _ in map(tuple, declared)}, key)


def content_of(table: str, column: str) -> Column:
    """Return what this column holds; prose, where nobody has said."""
    columns: Mapping[str, Column] = TABLES[table].columns if table in TABLES else COLUMNS.get(table, {})
    return columns.get(column, _UNKNOWN)


def _one_of(kind: Iterable[str]) -> Rule:
    return {str(member) for member in kind}.__contains__


def _json(kind: type[dict[str, object]] | type[list[object]], of: type = object) -> Rule:
    def passes(text: str) -> bool:
        read = json.loads(text)
        if not isinstance(read, kind):
            return False
        return all(isinstance(one, of) for one in (read.values() if isinstance(read, dict) else read))

    return passes


def _are_relations(text: str) -> bool:
    """Return whether this is a list of [type, target, metadata]."""
    read = [(kind, target, *metadata, *metadata.values()) for kind, target, metadata in json.loads(text)]
    return all(isinstance(text, str) for texts in read for text in texts)


def _is_unit(value: bytes) -> bool:
    """Return whether this is a vector of single floats of length 1 (or 0)."""
    if not value or len(value) % 4:
        return False
    square = math.fsum(number * number for number in array("f", value))
    return abs(square - 1) < 1e-3 or square == 0


def _are_counts(text: str) -> bool:
    return all(type(count) is int for count in json.loads(text).values())


def _are_receipts(text: str) -> bool:
    return all(is_moment(receipt["at"]) for receipt in json.loads(text))


def _is_intention(text: str) -> bool:
    """Return whether this says what was being forgotten (state.stores.erasing.intent)."""
    record = json.loads(text)
    texts = [word for target in record["targets"] for word in target]
    texts += [*record["crystals"], *record["keywords"], record["cut"]]
    places = [place for inode, at, content in record["rows"] if bytes.fromhex(content) for place in (inode, at)]
    return (
        all(isinstance(text, str) for text in texts)
        and record["cut"] in set(Cut)
        and all(isinstance(place, int) for place in places)
    )


_UNKNOWN = Column(Kind.PROSE)
_IS_COUNT: Rule = re.compile(r"[0-9]{1,18}").fullmatch
_META: Mapping[str, Rule] = {
    "forgotten_salt": re.compile(r"(?:[0-9a-f]{2}){16,64}").fullmatch,
    "forgotten_withheld": _IS_COUNT,
    "forgotten_withheld_told": _IS_COUNT,
    "forgettings": _are_receipts,
    "lines_brought_back": _IS_COUNT,
    "forgetting": _is_intention,
    "notes_left": _IS_COUNT,
    "refused_inputs": _are_counts,
    "relations_dropped": _IS_COUNT,
    "seen_upto": _IS_COUNT,
    "session_ended": is_moment,
    "swept_at": is_moment,
}
META = {name: Column(Kind.JSON, rule) for name, rule in _META.items()}
"""What the rows of `meta` hold, by name."""


def _columns(rules: Mapping[str, Rule] | None = None, /, **kinds: str) -> dict[str, Column]:
    return {
        column: Column(Kind[kind.upper()], (rules or {}).get(column, is_moment if kind == "moment" else None))
        for kind, columns in kinds.items()
        for column in columns.split()
    }


COLUMNS: Mapping[str, Mapping[str, Column]] = {
    "entries": _columns(
        {"namespace": _json(list, str), "value": _json(dict), "fields": _json(list, str)},
        prose="name",
        code="embedded_by",
        moment="created_at updated_at expires_at",
        table="namespace value fields",
    ),
    "entry_vectors": _columns({"vector": _is_unit}, code="vector"),
    "forgotten": _columns(code="digest", moment="at"),
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
    "sessions": _columns(
        {"policy": _one_of(POLICIES), "config": _json(dict)},
        prose="id",
        code="policy",
        moment="opened_at closed_at due_at",
        json="config",
    ),
}
