"""Raise a hormone event: what just happened mattered."""

import argparse

from daemon.cli.mood import show_levels
from daemon.cli.parsing import config_of, takes_json, takes_workspace, workspace_of
from daemon.cli.terminal import tell_notices


def add(parser: argparse.ArgumentParser) -> None:
    """Which event, and why."""
    parser.add_argument("event", choices=("reward", "error", "social", "achievement", "urgency"))
    parser.add_argument("--because", default="", metavar="TEXT", help="what raised it")
    takes_workspace(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Raise it, and print the levels that it leads to."""
    workspace, config = workspace_of(arguments), config_of(arguments)
    from daemon.absorbing import feel, redacted
    from daemon.compose import clock, owned
    from state.hormones import Feeling

    with owned(workspace, config, "dreamd feel") as store:
        now = clock()
        feel(store, [Feeling(arguments.event)], redacted(store, arguments.because), now, now)
        levels = store.feelings.levels(now)
    tell_notices(store.notices)
    show_levels(levels, as_json=arguments.json)
    return 0
