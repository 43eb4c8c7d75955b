"""Shapes of texts for people at a terminal and agents: facts, tables, parts in one row, texts that are quoted."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from daemon.observability.printable import visible


def ago(moment: datetime, now: datetime) -> str:
    """Say how long ago, in words: "now", "5 min ago", "3 h ago", "12 d ago"."""
    span = duration((now - moment).total_seconds())
    return "now" if span == "0 s" else f"{span} ago"


def duration(seconds: float) -> str:
    """Write a span in its largest unit that fits: s, min, h, d."""
    seconds = max(0.0, seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size or (seconds >= size and unit == "min"):
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def one_row(text: object) -> str:
    """Write a text in one row, with what cannot be seen in it as escapes."""
    return " ".join(visible(str(text)).split())


def listed(*parts: object) -> str:
    """Join the parts that there are, in one row."""
    return one_row(", ".join(map(str, filter(None, parts))))


def facts(*rows: tuple[str, object]) -> str:
    """Write a row for each fact, its name before it; without those that are empty."""
    return "\n".join(f"{name:<12} {one_row(fact)}" for name, fact in rows if fact)


def table(columns: str, rows: Sequence[Sequence[object]]) -> str:
    """Lay rows out under columns, which have commas between their names; the last one may be long."""
    every = [columns.split(","), *([_cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in every
    )


def _cell(value: object) -> str:
    return f"{value:%Y-%m-%d}" if isinstance(value, datetime) else f"{value:,}" if type(value) is int else str(value)


def quoted(mark: str, text: str) -> Iterator[str]:
    """Yield the rows of a text behind a mark; the further ones are marked, so that none looks like the next text."""
    first, *more = visible(text).split("\n")
    yield f"{mark} {first}"
    yield from (f"   | {row}" for row in more)
