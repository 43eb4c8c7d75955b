"""A worker of the fleet, in the foreground: it owns workspaces and dreams; any number share the work."""

import argparse
from pathlib import Path


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: with which configuration."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration")


def run(arguments: argparse.Namespace) -> int:
    """Work until SIGTERM or SIGINT; what it owns is committed and given back within ten seconds."""
    from daemon.config.settings import load
    from daemon.fleet.processes import run_worker

    return run_worker(lambda: load(arguments.config))
