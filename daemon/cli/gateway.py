"""A gateway of the fleet, in the foreground: agents of many tenants ask here; any number of gateways do the same."""

import argparse
from pathlib import Path


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: with which configuration."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration")


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; requests under way are answered first, within ten seconds."""
    import os

    from daemon.cli.terminal import say
    from daemon.config.paths import token_path
    from daemon.config.settings import load
    from daemon.fleet.processes import run_gateway

    if os.isatty(2):
        say(f"the token for /metrics is in {token_path(os.environ)}; 'dreamd fleet token add' makes those of tenants")
    return run_gateway(lambda: load(arguments.config))
