"""Row rules: whether a record of a damaged state.db is a row of this table, and what of a row can be read."""

import json
import math
import re
from collections.abc import Mapping, Sequence

from state.crystals.crystal import Origin, is_id_of
from state.errors import DreamdError
from state.sessions.policies.by_name import policy_of
from state.stores.database.columns import META_RULES, Table, Value, content_of
from state.stores.repair.btree import INNER_INDEX, LEAF_INDEX, LEAF_TABLE, Cell
from state.stores.sessions.rows import SPAN

Row = dict[str, Value]

_META = re.compile(r"[a-z_]{3,40}")
_LINE = re.compile(r"[A-Z]\d{1,12}")
_HEX = re.compile(r"[0-9a-f]{32,64}")
_TYPICAL = {
    ("meta", "name"): _META,
    ("lines", "id"): _LINE,
    ("evidence", "line"): _LINE,
    ("evidence", "crystal"): _HEX,
    ("forgotten", "digest"): _HEX,
    ("crystals", "id"): _HEX,
}


def row_of(table: Table, cell: Cell) -> Row | None:
    """The record as a row of the table; None when it cannot be one."""
    if not cell.whole or len(cell.values) > len(table.columns) or (cell.rowid is None) is table.has_rowids:
        return None
    row: Row = {}
    for at, column in enumerate(table.columns):
        value = cell.values[at] if at < len(cell.values) else column.default
        if column.name == table.rowid:
            value = cell.rowid if value is None else None
        if not column.takes(value) or (value is None and (column.required or column.name == table.rowid)):
            return None
        row[column.name] = value
    return row


def fits(table: Table, cell: Cell, kind: int) -> bool:
    """Whether the record, of a page of this kind, is certainly a row of the table."""
    if table.has_rowids is not (kind == LEAF_TABLE) or len(table.columns) < 2:
        return False
    row = row_of(table, cell)
    return row is not None and mended(table.name, row) is not None and _is_typical(table.name, row)


def may_hold(table: Table, kind: int) -> bool:
    """Whether a page of this kind may hold rows of the table."""
    return kind == LEAF_TABLE if table.has_rowids else kind in (LEAF_INDEX, INNER_INDEX)


def mended(table: str, row: Row) -> Row | None:
    """The row with defaults in place of values that cannot be read; None when a value has no default."""
    changed: Row = {}
    for name, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            return None
        rule = content_of(table, name).rule
        if rule is None or value is None or rule.passes(value):
            continue
        if rule.otherwise is None:
            return None
        changed[name] = rule.otherwise
    row = row | changed
    if table == "meta" and (rule := META_RULES.get(str(row["name"]))) and not rule.passes(row["value"]):
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
    return not is_id_of(str(row["id"]), Origin(str(row["origin"])), str(row["text"]), str(row["speaker"]))


def _is_typical(table: str, row: Row) -> bool:
    """Whether the row looks like those of this table, and not of a similar one."""
    return all(pattern.fullmatch(str(row[name])) for (one, name), pattern in _TYPICAL.items() if one == table)


def _is_settled(row: Row) -> bool:
    """Whether a session's policy takes its settings."""
    try:
        policy_of(str(row["policy"]), json.loads(str(row["config"])))
    except (DreamdError, ValueError):
        return False
    return True


def fragment(cell: Cell) -> tuple[str, str] | None:
    """Id and beginning of the text of a crystal whose record breaks off; None when it breaks off before."""
    values: Sequence[Value] = cell.values
    if cell.whole or cell.rowid is None or len(values) < 3 or values[0] is not None:
        return None
    id_, text = values[1], values[2]
    known = isinstance(id_, str) and _HEX.fullmatch(id_) and isinstance(text, str) and text.strip("\0 \n")
    return (str(id_), str(text).strip("\0")) if known else None
