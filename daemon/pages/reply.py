"""Reply: any reply of an operation as lists, tables and curves: what of it is which, for the generic template."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

# Fields that lead somewhere: what their values look like, and the page with the field of its address.
_LEADS: tuple[tuple[frozenset[str], re.Pattern[str], str, str], ...] = (
    (frozenset({"id", "crystal", "superseded_by"}), re.compile("[0-9a-f]{32}"), "crystal", "id"),
    (frozenset({"id", "line"}), re.compile(r"L[0-9]{1,9}"), "line", "id"),
    (frozenset({"version", "dreamt_in"}), re.compile("[1-9][0-9]{0,8}"), "dream", "version"),
    (frozenset({"session_id", "session"}), re.compile(r".{1,1000}"), "session", "session_id"),
)


def rows_of(value: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - any reply there is
    """Return a value's fields by name, without empty ones."""
    found = value if isinstance(value, Mapping) else {one.name: getattr(value, one.name) for one in fields(value)}
    return [(str(name), inner) for name, inner in found.items() if not _is_empty(inner) and name != "next_cursor"]


def columns_of(rows: Sequence[Any]) -> list[str]:
    """Return the columns of a table in which any row has something."""
    return [one.name for one in fields(rows[0]) if not all(_is_empty(getattr(row, one.name)) for row in rows)]


def curves_of(rows: Sequence[Any]) -> list[tuple[str, list[float]]]:
    """Return the numbers of a table of moments, by column."""
    names = [one.name for one in fields(rows[0]) if isinstance(getattr(rows[0], one.name), float)]
    return [(name, [getattr(row, name) for row in rows]) for name in names]


def address_of(value: object, name: str) -> str:
    """Return the page that a field leads to, below that of the workspace; empty if to none."""
    text = str(value)
    for names, looks, page, field in _LEADS:
        if name in names and looks.fullmatch(text):
            return f"{page}?{urlencode({field: text}, errors='replace')}"
    return ""


def _is_empty(value: object) -> bool:
    return value is None or value is False or (isinstance(value, str | tuple | Mapping) and not value)


def _is_record(value: object) -> bool:
    return is_dataclass(value) or isinstance(value, Mapping)


def _is_table(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and is_dataclass(value[0])


def _is_series(value: object) -> bool:
    """Tell whether it is a table of moments with numbers alone, which a curve shows better."""
    if not isinstance(value, tuple) or len(value) < 3 or not is_dataclass(value[0]):
        return False
    return {type(getattr(value[0], one.name)) for one in fields(value[0])} == {datetime, float}


FILTERS = {"rows": rows_of, "columns": columns_of, "curves": curves_of, "address": address_of}
TESTS = {
    "record": _is_record,
    "table": _is_table,
    "series": _is_series,
    "wide": lambda value: (
        _is_table(value) or (_is_record(value) and any(map(_is_table, dict(rows_of(value)).values())))
    ),
    "moment": lambda value: isinstance(value, datetime),
}
