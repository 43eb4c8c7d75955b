"""Make the tables of a fleet in PostgreSQL, or bring them to this version."""

import argparse
import os
from pathlib import Path
from uuid import uuid4

from daemon.cli.terminal import say


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument: where."""
    about = "postgresql://user@host:5432/dreamd; else fleet.database of the configuration"
    parser.add_argument("--database", metavar="URL", help=about)
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration")


def run(arguments: argparse.Namespace) -> int:
    """Migrate; doing it again is harmless, and the processes of a fleet may run meanwhile."""
    from daemon.config.settings import load
    from daemon.fleet.connections import require_installed
    from state.errors import ConfigError

    url = arguments.database or load(arguments.config, os.environ).fleet.database
    if not url:
        raise ConfigError("no database is named", "give --database, or set fleet.database (DREAMD_FLEET__DATABASE)")
    require_installed()
    from state.stores.fleet.database import migrate, named

    say(f"{named(url)} has schema {migrate(url, str(uuid4()))} of the fleet")
    return 0
