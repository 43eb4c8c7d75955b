"""Raise a hormone event: what just happened mattered."""

import argparse

from daemon.cli.mood import show_levels
from daemon.cli.parsing import caller_of, takes_workspace


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: which event, and why."""
    parser.add_argument("event", choices=("reward", "error", "social", "achievement", "urgency"))
    parser.add_argument("--because", default="", metavar="TEXT", help="what raised it")
    takes_workspace(parser)


def run(arguments: argparse.Namespace) -> int:
    """Raise it, and print the levels that it leads to."""
    caller = caller_of(arguments, "feel")
    from daemon.api.operations.notes import feel_event
    from state.signals.hormones import Feeling

    levels = caller.ask(feel_event, event=Feeling(arguments.event), because=arguments.because)
    show_levels(levels, as_json=arguments.json)
    return 0
