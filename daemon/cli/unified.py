"""A unified diff on the terminal."""

from daemon.cli.terminal import out

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def show_unified(text: str) -> None:
    """Print it, coloured on a terminal."""
    for row in text.split("\n") if text else ():
        out(row, _STYLES.get(row[:1], "") if not row.startswith(("+++", "---")) else "bold")
