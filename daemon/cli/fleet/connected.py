"""Connected: the database and the object store of the fleet, for as long as a command runs."""

import argparse
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from daemon.cli.parsing import config_of
from daemon.cli.terminal import agreed, can_ask
from state.errors import ConfirmRequiredError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.config.settings import Config
    from daemon.fleet.connections import Connections
    from state.fleet.tenant import Tenant
    from state.stores.fleet.database import FleetDatabase
    from state.stores.fleet.places import PlaceFacts

_CONNECTIONS = 2


@contextmanager
def connected(arguments: argparse.Namespace) -> "Iterator[tuple[Config, Connections]]":
    """Yield the configuration and its connections, all of one fleet. Raise ConfigError and UnreachableError."""
    from daemon.fleet.connections import connect

    config = config_of(arguments)
    connections = connect(config, os.environ, _CONNECTIONS)
    try:
        _follow(connections.database)
        yield config, connections
    finally:
        connections.close()


@contextmanager
def database_of(arguments: argparse.Namespace) -> "Iterator[tuple[Config, FleetDatabase]]":
    """Yield the configuration and the database alone. Raise ConfigError and UnreachableError."""
    from daemon.fleet.connections import open_database

    config = config_of(arguments)
    database = open_database(config, _CONNECTIONS)
    try:
        _follow(database)
        yield config, database
    finally:
        database.close()


def _follow(database: "FleetDatabase") -> None:
    """Go by the database's clock: this machine may be no part of the fleet, and its clock by days apart."""
    from daemon.workspace.stores import follow_clock

    asked = time.monotonic()
    follow_clock(database.now(), asked)


def place_of(database: "FleetDatabase", tenant: "Tenant", name: str) -> "PlaceFacts":
    """Return the workspace of this name. Raise NotFoundError, which says where they are listed."""
    from state.stores.fleet.places import Places

    try:
        return Places(database).find(tenant.id, name)
    except NotFoundError:
        raise NotFoundError(
            f"tenant {tenant.name} has no workspace {name[:60]!r}", f"see 'dreamd fleet workspace list {tenant.name}'"
        ) from None


def require_agreed(arguments: argparse.Namespace, question: str) -> bool:
    """Ask the person, unless `--yes` was said. Raise ConfirmRequiredError without a terminal."""
    if arguments.yes:
        return True
    if not can_ask():
        raise ConfirmRequiredError("it cannot be undone, and nobody is at the terminal to be asked", "give --yes")
    return agreed(question)
