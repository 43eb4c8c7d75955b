"""Two texts of MEMORY.md as a unified diff."""

import difflib

from daemon.cli.terminal import out

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def unified(before: str, after: str, old: str, new: str) -> str:
    """The difference, with `old` and `new` as the names of both texts; empty when they are the same."""
    rows = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"MEMORY.md ({old})", f"MEMORY.md ({new})", lineterm=""
    )
    return "\n".join(rows)


def show_unified(text: str) -> None:
    """Print it, coloured on a terminal."""
    for row in text.split("\n") if text else ():
        out(row, _STYLES.get(row[:1], "") if not row.startswith(("+++", "---")) else "bold")
