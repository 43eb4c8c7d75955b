"""Show the hormone levels as they are now, and the mood."""

import argparse
from typing import TYPE_CHECKING

from daemon.cli.parsing import caller_of, takes_workspace
from daemon.cli.terminal import out, show_json

if TYPE_CHECKING:
    from daemon.api.operations.notes import Mood

_BAR = 20


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: of which workspace."""
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print them."""
    caller = caller_of(arguments, "mood")
    from daemon.api.operations.notes import current_mood

    show_levels(caller.ask(current_mood), as_json=arguments.json)
    return 0


def show_levels(levels: "Mood", *, as_json: bool) -> None:
    """Show the levels and the mood."""
    if as_json:
        show_json(levels)
        return
    for name, level in (("dopamine", levels.dopamine), ("cortisol", levels.cortisol), ("oxytocin", levels.oxytocin)):
        out(f"{name:<9} {level:.2f} {'█' * round(level * _BAR):<{_BAR}}".rstrip())
    out(f"mood      {levels.mood}")
