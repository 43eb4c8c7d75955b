"""Connections: the database and the object store of the fleet, and this process's own folder.

The fleet's libraries are optional, so they are imported only once they are known to be installed.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from daemon.config.paths import make_private_folder, state_folder
from daemon.config.settings import Config
from state.errors import BusyError, ConfigError, NotFoundError

if TYPE_CHECKING:
    from daemon.fleet.upkeep.status import FleetStatus
    from state.stores.fleet.registry import Registry
    from state.stores.generations.objects import Objects

MARK = "fleet"
"""The object that holds the fleet's id; the database holds the same id."""
_MOST_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class Connections:
    """The database and the object store that all processes of the fleet share."""

    database: "Registry"
    objects: "Objects"

    def close(self) -> None:
        """Close the database's connections."""
        self.database.close()

    @property
    def mark(self) -> str:
        """Return the id of the fleet that the store belongs to; empty if none has claimed it yet."""
        try:
            return self.objects.get(MARK).decode(errors="replace")
        except NotFoundError:
            return ""

    def require_same_fleet(self, url: str) -> None:
        """Claim the store if no fleet has yet; raise ConfigError if it belongs to another fleet."""
        row = self.database.row("SELECT mark::text AS mark FROM fleet")
        mark = str(row["mark"] if row else "")
        if not self.mark:
            self.objects.put(MARK, mark.encode())
        if self.mark != mark:
            raise ConfigError(
                f"the objects in {url} are another fleet's than the database",
                "set fleet.database and fleet.objects of one fleet; after a restore see the runbook in docs/fleet.md",
            )


def open_database(config: Config, size: int = 8) -> "Registry":
    """Open the fleet's database. Raise UnreachableError, and ConfigError also for another schema version."""
    if not config.fleet.database:
        raise ConfigError("fleet.database is not set", "set DREAMD_FLEET__DATABASE, or the key in the configuration")
    require_installed()
    from state.stores.fleet.registry import Registry

    database = Registry(config.fleet.database, size)
    try:
        database.require_schema()
    except BaseException:
        database.close()
        raise
    return database


@contextmanager
def _opened(config: Config, environment: Mapping[str, str], size: int) -> Iterator[Connections]:
    """Open both; if the body fails, close the database again."""
    if not config.fleet.objects:
        raise ConfigError("fleet.objects is not set", "set DREAMD_FLEET__OBJECTS, or the key in the configuration")
    database = open_database(config, size)
    try:
        from state.stores.generations.objects import open_objects

        yield Connections(database, open_objects(config.fleet.objects, environment))
    except BaseException:
        database.close()
        raise


def connect(config: Config, environment: Mapping[str, str], size: int = 8) -> Connections:
    """Connect to the database and the object store of one fleet. Raise ConfigError and UnreachableError.

    Another fleet's store is refused, as the two fleets would overwrite each other's workspaces. So is an empty store
    if the database names generations.
    """
    url = config.fleet.objects
    with _opened(config, environment, size) as both:
        if not both.mark and (
            rows := both.database.rows("SELECT 1 FROM workspaces WHERE generation > 0 AND removed_at IS NULL")
        ):
            raise ConfigError(
                f"{url} is empty, and the database has {len(rows):,} workspaces whose memory lies in an object store",
                "check fleet.objects; if that store was lost, see the runbook in docs/fleet.md",
            )
        both.require_same_fleet(url)
        return both


def connect_to_recover(config: Config, environment: Mapping[str, str], *, adopt: bool) -> Connections:
    """Connect as `connect` does, but accept any store for a new database (one without tenants).

    A database with tenants may also have an empty store, as its own may be lost. `adopt`: claim the store.
    """
    with _opened(config, environment, 8) as both:
        mark, is_new = both.mark, both.database.row("SELECT 1 FROM tenants LIMIT 1") is None
        if is_new and mark and adopt:
            both.database.rows("UPDATE fleet SET mark = %(mark)s::uuid", {"mark": mark})
        elif not is_new and (adopt or mark):
            both.require_same_fleet(config.fleet.objects)
        return both


def require_installed() -> None:
    """Raise ConfigError unless the libraries of the fleet are installed."""
    from importlib.util import find_spec

    missing = [name for name in ("psycopg", "procrastinate", "obstore") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"{', '.join(missing)} is not installed", "pip install 'dreamd[fleet]'")


def read_status(config: Config) -> "FleetStatus":
    """Return the status of a fleet for the pages of an operator's own daemon, which is not part of the fleet.

    Raise UnreachableError, and ConfigError as `open_database` does.
    """
    with closing(open_database(config, 1)) as database:
        from daemon.fleet.upkeep.status import fleet_status

        return fleet_status(database, config)


# ------------------------------------------------------------------- this process's own folder


@contextmanager
def own_folder(config: Config, environment: Mapping[str, str], kind: Literal["process", "upkeep"]) -> Iterator[Path]:
    """Lock the first free folder process-N (or upkeep-N) below fleet.folder, and empty it before and after use.

    Raise BusyError if other processes have locked all 64.
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
        try:
            _empty(path)
            yield path
        finally:
            _empty(path)
            os.close(lock)
        return
    raise BusyError(f"{base} has {_MOST_PROCESSES} processes", "set fleet.folder to another one")


def _empty(path: Path) -> None:
    for one in path.iterdir():
        if one.name != "lock":
            shutil.rmtree(one, ignore_errors=True)


def isolate(folder: Path, environment: "os._Environ[str]") -> None:
    """Hide its user's own memory (global workspace, registry) from this process, which would show it to tenants."""
    user = Path(environment.get("HOME", "/"))
    data = environment.get("XDG_DATA_HOME") or user / ".local" / "share"
    # The embedding model stays reachable: it lies in one of these.
    environment["XDG_DATA_DIRS"] = f"{data}:{environment.get('XDG_DATA_DIRS') or '/usr/local/share:/usr/share'}"
    environment["XDG_CACHE_HOME"] = environment.get("XDG_CACHE_HOME") or str(user / ".cache")
    environment["XDG_STATE_HOME"] = str(folder / "state")
    environment["XDG_DATA_HOME"] = str(folder / "data")
    environment["HOME"] = str(folder / "home")
