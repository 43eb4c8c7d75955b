"""Shapes of texts for people at a terminal and agents: lists of facts, tables, single rows, quotations.

Replies quote memory, so continuation rows of a quoted text are marked, lest one passes for another result, and
invisible characters are escaped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, tzinfo
from functools import cache
from typing import Any

from daemon.observability.printable import visible
from state.zone import local

_MOST_SHORT = 160


def ago(moment: datetime, now: datetime) -> str:
    """Return how long ago: "now", "5 min ago", "3 h ago", "12 d ago"."""
    span = duration((now - moment).total_seconds())
    return "now" if span == "0 s" else f"{span} ago"


def duration(seconds: float) -> str:
    """Return a time span in the largest unit that fits: s, min, h, d."""
    seconds = max(0.0, seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (seconds >= size and unit == "min"):
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def one_row(text: object) -> str:
    """Return a text in one row, with invisible characters escaped."""
    return " ".join(visible(str(text)).split())


def shorten(text: str) -> str:
    """Return the first 160 characters of a text in one row, and `…` if there are more."""
    row = one_row(text)
    return f"{row[:_MOST_SHORT]}{'…' if len(row) > _MOST_SHORT else ''}"


def listed(*parts: object) -> str:
    """Join the non-empty parts in one row."""
    return one_row(", ".join(map(str, filter(None, parts))))


def facts(*rows: tuple[str, object]) -> str:
    """Return a row for each non-empty fact, with its name in front."""
    return "\n".join(f"{name:<12} {one_row(fact)}" for name, fact in rows if fact)


def table(columns: str, rows: Sequence[Sequence[object]]) -> str:
    """Align rows under columns, named with commas in between; the last one may be long."""
    every = [columns.split(","), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in every
    )


def _cell(value: object) -> str:
    return f"{value:%Y-%m-%d}" if isinstance(value, datetime) else f"{value:,}" if type(value) is int else str(value)


def quoted(mark: str, text: str) -> Iterator[str]:
    """Yield the rows of a text after a mark; later rows begin with `|`, so that none passes for another text."""
    first, *more = visible(text).split("\n")
    yield f"{mark} {first}"
    yield from (f"   | {row}" for row in more)


@cache
def _given_fields(kind: type) -> tuple[str, ...]:
    """Return the fields with which a dataclass is made."""
    return tuple(one.name for one in fields(kind) if one.init)


def on_clock(value: Any, zone: tzinfo) -> Any:  # noqa: ANN401 - any reply there is
    """Return a value with every moment in it on the zone's clock; the value itself if it has none."""
    if value is None or isinstance(value, datetime | str | int | float):
        return local(value, zone) if isinstance(value, datetime) and value.tzinfo else value
    if is_dataclass(value) and not isinstance(value, type):
        given = {name: getattr(value, name) for name in _given_fields(type(value))}
        new = {name: on_clock(one, zone) for name, one in given.items()}
        changed = {name: one for name, one in new.items() if one is not given[name]}
        return replace(value, **changed) if changed else value
    if isinstance(value, Mapping):
        items = {name: on_clock(one, zone) for name, one in value.items()}
        return items if any(items[name] is not value[name] for name in items) else value
    if isinstance(value, tuple | list):
        every = [on_clock(one, zone) for one in value]
        if all(one is other for one, other in zip(every, value, strict=True)):
            return value
        make = getattr(value, "_make", type(value))
        return make(every)
    return value
