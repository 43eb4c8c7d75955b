"""The daemon, in the foreground: it keeps workspaces, dreams by itself, and serves agents. systemd runs this."""

import argparse
import os
from pathlib import Path

from daemon.cli.parsing import takes_config
from daemon.cli.terminal import say


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: for whom."""
    about = "workspaces, beside those that 'dreamd init' made known and those of daemon.workspaces"
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR", help=about)
    takes_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; SIGHUP reads the configuration again."""
    from daemon.config.paths import socket_path, token_path
    from daemon.config.settings import load
    from daemon.process.run import run as serve

    if os.isatty(2):
        say(f"listening at {socket_path(os.environ)}; the token for the port is in {token_path(os.environ)}")
    return serve(lambda: load(arguments.config), tuple(folder.absolute() for folder in arguments.folders))
