"""Terminal output: results on stdout, everything else on stderr; colour, width and motion only on terminals."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from daemon.observability.printable import ABOUT, safe

TYPE_CHECKING = False  # as in the package
if TYPE_CHECKING:
    from state.errors import DreamdError

_COLOURS = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
# Colours of rows by their first word.
_WORDS = {
    "problem": "red", "broken": "red", "refused": "yellow", "warning": "yellow", "ok": "green", "mended": "green",
}  # fmt: skip
_DIFF = {"+": "green", "-": "red", "@": "cyan"}
_CLEARED = "\r\x1b[K"
_USUAL_COLUMNS = 100


def columns() -> int:
    """Return the width of the terminal: $COLUMNS, else its own answer; 100 without a terminal."""
    with suppress(ValueError, OSError):
        return max(40, int(os.environ.get("COLUMNS") or os.get_terminal_size(2).columns or _USUAL_COLUMNS))
    return _USUAL_COLUMNS


def out(text: str, style: str = "") -> None:
    """Print a line of the result, on terminals in this style."""
    sys.stdout.write(f"{_styled(text, style)}\n")


def _styled(text: str, style: str) -> str:
    text = safe(text)
    if style and _is_lively(sys.stdout) and not os.environ.get("NO_COLOR"):
        return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m"
    return text


def show(text: str) -> None:
    """Print a whole text; on a terminal wrap it, and colour each row by how it begins."""
    sys.stdout.writelines(f"{row}\n" for row in _rows(text))


def page(text: str) -> None:
    """Print a text as `show` does; on a terminal that is too low for it, by $PAGER, else less."""
    rows = list(_rows(text))
    if not (_is_lively(sys.stdout) and sys.stdin.isatty() and len(rows) >= _lines()):
        sys.stdout.writelines(f"{row}\n" for row in rows)
        return
    import shlex
    import subprocess

    command = shlex.split(os.environ.get("PAGER") or "less")
    environment = {"LESS": "FRX", **os.environ}  # as git has it: colours, and nothing cleared at its end
    try:
        pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, text=True)  # noqa: S603 - the user's
    except OSError:
        sys.stdout.writelines(f"{row}\n" for row in rows)
        return
    with pager, suppress(KeyboardInterrupt):  # by which a pager is left, or stops a search
        pager.communicate("".join(f"{row}\n" for row in rows))


def _lines() -> int:
    with suppress(ValueError, OSError):
        return int(os.environ.get("LINES") or os.get_terminal_size(1).lines)
    return sys.maxsize


def _rows(text: str) -> Iterator[str]:
    """Yield the rows of a text as a terminal shows them, or as they are."""
    is_diff, wide = False, columns() if _is_lively(sys.stdout) else 0
    for row in text.split("\n"):
        is_diff = is_diff or row.startswith("--- ")
        mark = row[:1] if is_diff else row[3:4] if row.startswith(("   - ", "   + ")) else ""
        style = (
            "bold" if row.startswith(("--- ", "+++ ")) else _DIFF.get(mark) or _WORDS.get(row.partition(" ")[0], "")
        )
        for part in wrapped(row, wide) if wide else (row,):
            yield _styled(part, style)


def show_reply(text: str) -> None:
    """Print the text of a reply without `ABOUT`, which is for agents; print remarks beside it to stderr."""
    if text.startswith(ABOUT):
        beside, _, text = text.removeprefix(ABOUT).partition("\n")
        if beside:
            say(beside.strip())
    show(text.lstrip("\n"))


def wrapped(row: str, width: int) -> list[str]:
    """Wrap a long row between words, indenting its continuation to where its text begins; keep a short one as it is.

    A word that is longer than a row stays whole, as it may be copied.
    """
    if len(row) <= width:
        return [row]
    from textwrap import wrap

    text = row.lstrip()
    _, gap, rest = text.partition("  ")
    start = len(row) - len(text)
    deep = len(row) - len(rest.lstrip()) if gap else start + 2
    indent = " " * (deep if deep <= width // 2 else start + 2)
    return wrap(row, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def say(text: str) -> None:
    """Print a line that is not part of the result to stderr, in place of the spinner if there is one."""
    if not _is_lively(sys.stderr):
        sys.stderr.write(f"{safe(text)}\n")
        return
    rows = list[str]()
    for row in safe(text).split("\n"):  # an indented one may be a command to be copied
        rows += [row] if row.startswith("  ") else wrapped(row, columns())
    sys.stderr.write(_CLEARED + "".join(f"{row}\n" for row in rows))


def report(failed: "DreamdError", *, as_json: bool) -> int:
    """Print the error to stderr, with `as_json` also to stdout; return the exit status."""
    say(f"dreamd: {failed}")
    if as_json:
        import json

        sys.stdout.write(json.dumps(failed.fields, ensure_ascii=False) + "\n")
    return failed.exit_status


def show_notices(notices: Iterable[str]) -> None:
    """Print each notice once."""
    for notice in dict.fromkeys(notices):
        say(f"notice: {notice}")


def show_json(value: object) -> None:
    """Print the value (frozen values, lists, plain data) as JSON on stdout."""
    from state.codec import plain

    write_json(plain(value))


def write_json(data: object) -> None:
    """Print plain data as JSON on stdout."""
    import json

    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show a spinner on a terminal: that `what` goes on, and for how long."""
    if not _is_lively(sys.stderr):
        yield
        return
    import threading
    import time

    over, began = threading.Event(), time.monotonic()

    def turn() -> None:
        while not over.wait(0.1):
            seconds = time.monotonic() - began
            sys.stderr.write(f"{_CLEARED}{'⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏'[int(seconds * 10) % 10]} {safe(what)} {seconds:.0f} s")
            sys.stderr.flush()

    turning = threading.Thread(target=turn, daemon=True)
    turning.start()
    try:
        yield
    finally:
        over.set()
        turning.join()
        sys.stderr.write(_CLEARED)


def can_ask() -> bool:
    """Return whether a person is at the terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask the person at the terminal; return whether they said yes."""
    return asked(f"{question} [y/N]") in ("y", "yes")


def asked(question: str) -> str:
    """Ask the person at the terminal; return the answer in lower case."""
    sys.stderr.write(f"{question} ")
    sys.stderr.flush()
    try:
        return sys.stdin.readline().strip().casefold()
    except KeyboardInterrupt:
        raise KeyboardInterrupt("what was asked was not done") from None


def _is_lively(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"
