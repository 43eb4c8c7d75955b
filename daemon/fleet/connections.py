"""Connections: the database and the object store of the fleet, and this process's own folder."""

import fcntl
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from daemon.config.paths import make_private_folder, state_folder
from daemon.config.settings import Config
from state.errors import BusyError, ConfigError, NotFoundError

if TYPE_CHECKING:
    from state.stores.fleet.database import FleetDatabase
    from state.stores.generations.objects import Objects

_MOST_PROCESSES = 64
# Lies in the object store; the database has the same.
MARK = "fleet"


@dataclass(frozen=True, slots=True)
class Connections:
    """What every process of the fleet shares."""

    database: "FleetDatabase"
    objects: "Objects"

    def close(self) -> None:
        """Close the database's connections."""
        self.database.close()


def open_database(config: Config, size: int = 8) -> "FleetDatabase":
    """Open the fleet's database, if it is of this version. Raise ConfigError and UnreachableError."""
    from state.stores.fleet.database import FleetDatabase

    if not config.fleet.database:
        raise ConfigError("fleet.database is not set", "set DREAMD_FLEET__DATABASE, or the key in the configuration")
    require_installed()
    database = FleetDatabase(config.fleet.database, size)
    try:
        database.require_schema()
    except BaseException:
        database.close()
        raise
    return database


def connect(config: Config, environment: Mapping[str, str], size: int = 8) -> Connections:
    """Connect to the database and the object store of one fleet. Raise ConfigError and UnreachableError.

    The store of another fleet is refused: workspaces of two would lie over each other. So is an empty one beside a
    database that names generations.
    """
    from state.stores.generations.objects import open_objects

    if not config.fleet.objects:
        raise ConfigError("fleet.objects is not set", "set DREAMD_FLEET__OBJECTS, or the key in the configuration")
    with ExitStack() as stack:
        database = open_database(config, size)
        stack.callback(database.close)
        objects = open_objects(config.fleet.objects, environment)
        if not _mark_of(objects):
            _require_no_generations(database, config.fleet.objects)
        _require_same_fleet(database, objects, config.fleet.objects)
        stack.pop_all()
    return Connections(database, objects)


def connect_to_recover(config: Config, environment: Mapping[str, str], *, adopt: bool) -> Connections:
    """Connect as `connect` does, but let a database without a tenant, which was made anew, have any store.

    A database whose store was lost may have an empty one. `adopt`: that store is its own from now on.
    """
    from state.stores.fleet.recovery import Recovery
    from state.stores.generations.objects import open_objects

    if not config.fleet.objects:
        return connect(config, environment)
    with ExitStack() as stack:
        database = open_database(config)
        stack.callback(database.close)
        objects = open_objects(config.fleet.objects, environment)
        recovery = Recovery(database)
        if recovery.is_empty():
            if (found := _mark_of(objects)) and adopt:
                recovery.mark(found.decode())
        elif adopt or _mark_of(objects):
            _require_same_fleet(database, objects, config.fleet.objects)
        stack.pop_all()
    return Connections(database, objects)


def _require_no_generations(database: "FleetDatabase", url: str) -> None:
    """Raise ConfigError if the database names generations: the store at this URL is empty."""
    row = database.row("SELECT count(*) AS count FROM workspaces WHERE generation > 0 AND removed_at IS NULL")
    if row is not None and row["count"]:
        raise ConfigError(
            f"{url} is empty, and the database has {row['count']:,} workspaces whose memory lies in an object store",
            "check fleet.objects; if that store was lost, see the runbook in docs/fleet.md",
        )


def _mark_of(objects: "Objects") -> bytes:
    """Return which fleet's store this is; empty for a store that is nobody's yet."""
    try:
        return objects.get(MARK)
    except NotFoundError:
        return b""


def _require_same_fleet(database: "FleetDatabase", objects: "Objects", url: str) -> None:
    """Raise ConfigError unless the store has this fleet's mark, which an empty store is given."""
    row = database.row("SELECT mark::text AS mark FROM fleet")
    mark = str(row["mark"] if row else "").encode()
    if not _mark_of(objects):
        objects.put(MARK, mark)
    if _mark_of(objects) != mark:
        raise ConfigError(
            f"the objects in {url} are another fleet's than the database",
            "set fleet.database and fleet.objects of one fleet; after a restore see the runbook in docs/fleet.md",
        )


def require_installed() -> None:
    """Raise ConfigError unless the libraries of the fleet are installed."""
    from importlib.util import find_spec

    missing = [name for name in ("psycopg", "procrastinate", "obstore") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"{', '.join(missing)} is not installed", "pip install 'dreamd[fleet]'")


class OwnFolder:
    """A folder of this process alone, until it ends; another process of the machine has another one."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._lock)


def own_folder(config: Config, environment: Mapping[str, str], kind: Literal["process", "upkeep"]) -> OwnFolder:
    """Lock and return the first folder process-N (upkeep-N) below fleet.folder that is free.

    What an earlier process left there belongs to this one. Raise BusyError when 64 processes have one each.
    """
    base = config.fleet.folder or state_folder(environment) / "fleet"
    make_private_folder(base)
    for number in range(1, _MOST_PROCESSES + 1):
        path = base / f"{kind}-{number}"
        make_private_folder(path)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        return OwnFolder(path, lock)
    raise BusyError(f"{base} has {_MOST_PROCESSES} processes", "set fleet.folder to another one")


def isolate(folder: Path, environment: "os._Environ[str]") -> None:
    """Have this process see nothing of its user's own memory: no global workspace, no registry.

    What would be found there would be given to tenants.
    """
    user = Path(environment.get("HOME", "/"))
    data = environment.get("XDG_DATA_HOME") or user / ".local" / "share"
    # The embedding model lies in one of these, for all users of this one's programs.
    environment["XDG_DATA_DIRS"] = f"{data}:{environment.get('XDG_DATA_DIRS') or '/usr/local/share:/usr/share'}"
    environment["XDG_CACHE_HOME"] = environment.get("XDG_CACHE_HOME") or str(user / ".cache")
    environment["XDG_STATE_HOME"] = str(folder / "state")
    environment["XDG_DATA_HOME"] = str(folder / "data")
    environment["HOME"] = str(folder / "home")
