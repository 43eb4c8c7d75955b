"""Connections: the database and the object store of the fleet, and this process's own folder.

The fleet's libraries are optional, so they are imported only once they are known to be installed.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from daemon.config.paths import make_private_folder, state_folder
from daemon.config.settings import Config
from state.errors import BusyError, ConfigError, ConflictError

if TYPE_CHECKING:
    from daemon.fleet.upkeep.status import FleetStatus
    from state.stores.fleet.registry import Registry
    from state.stores.generations.objects import Objects

_MOST_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class Connections:
    """The database and the object store that all processes of the fleet share."""

    database: "Registry"
    objects: "Objects"
    mark: str = ""
    """The ids of the fleet and of its store, as the store holds them."""

    def read_mark(self) -> str:
        """Return the ids of the fleet and the store that this store holds; empty if no fleet has claimed it."""
        from state.stores.generations.guard import mark_of

        return mark_of(self.objects)

    def close(self) -> None:
        """Close the database's connections."""
        self.database.close()


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


def claim_store(both: Connections, url: str) -> Connections:
    """Make the store the fleet's if it has none yet; return both with its mark. Raise ConfigError for another one.

    The store holds the ids of both in its object `MARK`, the database the same two.
    """
    from state.stores.generations.guard import MARK, require_fencing

    row = both.database.row("SELECT mark::text AS mark, store::text AS store FROM fleet") or {}
    if row["store"] is None and not both.read_mark():
        require_fencing(both.objects)
        with suppress(ConflictError):  # another process of the fleet begins at the same moment
            both.objects.put(MARK, f"{row['mark']} {uuid4()}".encode())
    mark = both.read_mark()
    fleet, _, store = mark.partition(" ")
    if fleet not in ("", row["mark"]):
        raise ConfigError(
            f"the objects in {url} are another fleet's than the database",
            "set fleet.database and fleet.objects of one fleet; after a restore see the runbook in docs/fleet.md",
        )
    if store:
        claim = "UPDATE fleet SET store = coalesce(store, %(store)s::uuid) RETURNING store::text AS store"
        row |= both.database.row(claim, {"store": store}) or {}
    if store != row["store"]:
        raise ConfigError(
            f"{url} is not the object store of this fleet, which has its memory in another one",
            "set the same fleet.objects on every machine; if that store was lost, see the runbook in docs/fleet.md",
        )
    return replace(both, mark=mark)


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
    """Connect to the database and the object store of one fleet; the first process claims its store.

    Raise UnreachableError, and ConfigError for any store but the fleet's own: in another one its memory is not, and
    in another fleet's they would overwrite each other's workspaces.
    """
    with _opened(config, environment, size) as both:
        return claim_store(both, config.fleet.objects)


def connect_to_recover(config: Config, environment: Mapping[str, str]) -> Connections:
    """Connect as `connect` does, but accept any store for a new database (one without tenants), and an empty one."""
    with _opened(config, environment, 8) as both:
        if _has_tenants(both) and both.read_mark():
            claim_store(both, config.fleet.objects)
        return both


def adopt_store(both: Connections, url: str) -> None:
    """Make this store the fleet's: any one if the database is new, else an empty one, as its own may be lost."""
    mark = both.read_mark()
    if mark and not _has_tenants(both):
        values = dict(zip(("fleet", "store"), mark.split(), strict=True))
        both.database.rows("UPDATE fleet SET mark = %(fleet)s::uuid, store = %(store)s::uuid", values)
    elif not mark:
        both.database.rows("UPDATE fleet SET store = NULL")
    claim_store(both, url)


def _has_tenants(both: Connections) -> bool:
    return both.database.row("SELECT 1 FROM tenants LIMIT 1") is not None


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
