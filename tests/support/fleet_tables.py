"""Databases with the tables of a fleet: created once per server, copied for each test; and helpers to fill them."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from state.fleet import Lease, Place, Quotas, Tenant
from state.stores.fleet.database import migrate
from state.stores.fleet.inbox import Arrival, Inbox
from state.stores.fleet.leases import Leases, Session, processes
from state.stores.fleet.registry import Registry
from state.stores.fleet.schedule import Schedule
from tests.support.postgres import Postgres
from tests.support.serving import until

MARK = "6f0d3a52-2a53-4f6a-9d0b-3d1f3a3cb0aa"


def made(url: str) -> None:
    """Create the tables in this database."""
    migrate(url, MARK)


@pytest.fixture
def fleet_url(postgres: Postgres) -> Iterator[str]:
    """Yield the URL of a database of this test's own, with an empty fleet."""
    url = postgres.new_database(made)
    yield url
    postgres.drop_database(url)


class FleetTables:
    """The tables of one fleet: tenants, workspaces, arrivals; and stand-ins for processes that hold leases."""

    def __init__(self, url: str, size: int = 8) -> None:
        self.url = url
        self.database = Registry(url, size)
        self.tenants, self.places = self.database.tenants, self.database.places
        self.leases, self.inbox, self.schedule = Leases(self.database), Inbox(self.database), Schedule(self.database)
        self.sessions: dict[UUID, Session] = {}
        self.owner: UUID | None = None
        """The default holder of leases."""

    def close(self) -> None:
        for session in self.sessions.values():
            session.drop()
        self.database.close()

    def tenant(self, name: str = "acme", quotas: Quotas = Quotas()) -> Tenant:  # noqa: B008 - a value
        return self.tenants.add(name, quotas)

    def place(self, tenant: Tenant | None = None, name: str = "") -> Place:
        return self.places.add(tenant or self.tenant(f"t{uuid4().hex[:8]}"), name or f"w{uuid4().hex[:8]}")

    def row(self, place: Place) -> dict[str, Any]:
        found = self.database.row("SELECT * FROM workspaces WHERE id = %(id)s", {"id": place.id})
        assert found is not None
        return found

    # ------------------------------------------------------------ arrivals

    def note(self, place: Place, text: str, key: str = "", **more: str) -> int:
        return self.put(place, key, body=json.dumps({"text": text, "importance": 0.8, **more}))

    def put(self, place: Place, key: str = "", kind: str = "note", body: str = "{}") -> int:
        """Put an arrival into the inbox and return the id of its row."""
        [arrived] = self.inbox.put([Arrival(place.id, place.tenant, kind, key or uuid4().hex, body)])
        assert arrived is not None
        return arrived.id

    def waiting(self, place: Place) -> int:
        return len(self.inbox.waiting(place.id))

    # ------------------------------------------------------------ processes

    def stand_in(self, address: str = "http://127.0.0.1:1") -> UUID:
        """Register a process that does not exist but has a live session; return its id."""
        one = uuid4()
        self.sessions[one] = Session(self.database, one, address, "host", "1", 4)
        self.sessions[one].beat()
        return one

    def live(self) -> None:
        """Register a stand-in as the default holder of leases."""
        self.owner = self.stand_in()

    def dead(self, process: UUID) -> None:
        """End the session of this process."""
        self.sessions[process].drop()
        until(lambda: process not in self.living())

    def die(self) -> None:
        """End the sessions of all processes."""
        for process in self.sessions:
            self.dead(process)

    def living(self) -> list[UUID]:
        return [one.id for one in processes(self.database) if one.alive]

    def lease(self, place: Place, process: UUID | None = None) -> Lease:
        return self.leases.take(place.id, process or self.owner or self.stand_in())
