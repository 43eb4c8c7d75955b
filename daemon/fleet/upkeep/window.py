"""Window: the status of a fleet for the pages of an operator's own daemon, which is no process of the fleet."""

import threading
from typing import TYPE_CHECKING

from daemon.config.settings import Config
from daemon.fleet.connections import open_database

if TYPE_CHECKING:
    from daemon.fleet.upkeep.status import FleetStatus
    from state.stores.fleet.database import FleetDatabase

_CONNECTIONS = 2


class StatusWindow:
    """Reads the status whenever it is called, by any thread; it connects when it is called first."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._database: FleetDatabase | None = None

    def __call__(self) -> "FleetStatus":
        """Return the status now. Raise UnreachableError, and ConfigError for a database of another version."""
        from daemon.fleet.upkeep.status import fleet_status

        with self._lock:
            if self._database is None:
                self._database = open_database(self._config, _CONNECTIONS)
        return fleet_status(self._database, self._config)

    def close(self) -> None:
        """Close its connections."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None
