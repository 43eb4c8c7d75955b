"""Terminal output: results on stdout, everything else on stderr; colour and motion on terminals alone."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from daemon.api.text import table
from daemon.observability.printable import safe

_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def out(text: str, style: str = "") -> None:
    """Print a line of the result; `style` is one of rich's, for terminals."""
    if style and _is_lively(sys.stdout):
        from rich.console import Console
        from rich.text import Text

        Console(file=sys.stdout, highlight=False).print(Text(safe(text), style), soft_wrap=True)
    else:
        sys.stdout.write(safe(text) + "\n")


def say(text: str) -> None:
    """Print a line that is no part of the result, to stderr."""
    sys.stderr.write(safe(text) + "\n")


def show_notices(notices: Iterable[str]) -> None:
    """Show each notice once."""
    for notice in dict.fromkeys(notices):
        say(f"notice: {notice}")


def show_json(value: object) -> None:
    """Print the value (frozen values, lists, plain data) as JSON on stdout."""
    from state.codec import plain

    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False, indent=2) + "\n")


def show_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headers; the last column may be long."""
    if _is_lively(sys.stdout):
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        shown = Table(box=None, pad_edge=False, header_style="bold")
        for header in headers:
            shown.add_column(header)
        for row in rows:
            shown.add_row(*(Text(safe(cell)) for cell in row))
        Console(file=sys.stdout, highlight=False).print(shown)
        return
    out(table(headers, rows))


def show_unified(text: str) -> None:
    """Print a unified diff, coloured on a terminal."""
    for row in text.split("\n") if text else ():
        out(row, _DIFF_STYLES.get(row[:1], "") if not row.startswith(("+++", "---")) else "bold")


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show that `what` goes on, with motion on a terminal. Yields a function that shows a line meanwhile."""
    if not _is_lively(sys.stderr):
        yield say
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stderr, highlight=False)
    with console.status(Text(safe(what))):
        yield lambda line: console.print(Text(safe(line)), soft_wrap=True)


def can_ask() -> bool:
    """Tell whether a person is at the terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask the person at the terminal; whether they said yes."""
    return asked(f"{question} [y/N]") in ("y", "yes")


def asked(question: str) -> str:
    """Ask the person at the terminal; return the answer, in small letters."""
    sys.stderr.write(f"{question} ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold()


def _is_lively(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"
