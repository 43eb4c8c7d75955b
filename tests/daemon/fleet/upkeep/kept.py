"""A fleet as its operator keeps it: PostgreSQL, a folder of objects, and holders that commit."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

from daemon.config.settings import Config
from daemon.fleet.connections import Connections, connect
from state.budget import Spend
from state.fleet import Generation, Lease, Place, Tenant
from state.scratch import Note
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.fleet.inbox import Arrival, Inbox
from state.stores.fleet.leases import Commit, Leases, Session
from state.stores.fleet.registry import Places, Registry, Tenants
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects
from state.stores.history.inbox import NoteInbox


@dataclass(slots=True)
class Kept:
    """One fleet; `folder` has its objects and the owners' copies."""

    url: str
    folder: Path
    connections: Connections
    owner: UUID = field(default_factory=uuid4)
    sessions: list[Session] = field(default_factory=list)

    @property
    def database(self) -> Registry:
        return self.connections.database

    @property
    def objects(self) -> Objects:
        return self.connections.objects

    @property
    def config(self) -> Config:
        return config_of(self.url, self.folder)

    @property
    def variables(self) -> dict[str, str]:
        """By which commands find it."""
        return {
            "DREAMD_FLEET__DATABASE": self.url,
            "DREAMD_FLEET__OBJECTS": str(self.folder / "objects"),
            "DREAMD_FLEET__FOLDER": str(self.folder / "own"),
        }

    def tenant(self, name: str) -> Tenant:
        return Tenants(self.database).add(name)

    def place(self, tenant: Tenant, name: str) -> Place:
        return Places(self.database).add(tenant, name)

    def live(self) -> None:
        """Be a process of the fleet."""
        self.owner = uuid4()
        session = Session(self.database, "serve", self.owner, "http://127.0.0.1:1", "here", "1.0", 4)
        session.beat()
        self.sessions.append(session)

    def die(self) -> None:
        """Have every process die."""
        while self.sessions:
            self.sessions.pop().drop()
        while self.database.rows("SELECT 1 FROM living"):
            time.sleep(0.01)

    def lease(self, place: Place) -> Lease:
        return Leases(self.database).take(place.id, self.owner)

    def put(self, lease: Lease, *notes: str, at: datetime | None = None) -> tuple[Generation, int]:
        """Put the next generation with these notes into the store, as an owner does that dies before its commit."""
        place, root = lease.place, self.folder / "copies" / lease.place.handle
        generations = Generations(self.objects, place.prefix)
        if lease.generation.key:
            generations.bring_up(root, lease.generation.key)
        workspace = init_workspace(contained(root))
        for note in notes:
            append(workspace, note)
        taken = generations.take(root)
        return generations.put(taken, lease, at or datetime.now(UTC)), taken.bytes

    def commit(
        self, place: Place, *notes: str, spent: Spend | None = None, taken: tuple[int, ...] = ()
    ) -> Generation:
        """Hold the workspace, add these notes and commit."""
        lease = self.lease(place)
        generation, size = self.put(lease, *notes)
        Leases(self.database).commit(lease, Commit(generation, size, taken, int(spent is not None), spent or Spend()))
        Leases(self.database).release(lease)
        return generation

    def arrive(self, place: Place, text: str, at: datetime | None = None) -> int:
        """A note that is acknowledged; its row."""
        at = at or datetime.now(UTC)
        body = json.dumps({"text": text, "importance": 0.7, "at": at.isoformat()})
        [arrived] = Inbox(self.database).put([Arrival(place.id, place.tenant, "note", uuid4().hex, body)])
        assert arrived is not None
        return arrived.id

    def rows(self, statement: str) -> list[dict[str, object]]:
        return self.database.rows(statement)

    def again(self, url: str) -> "Kept":
        """The same store with another database."""
        return Kept(url, self.folder, Connections(Registry(url, 4, os.urandom), self.objects))


def append(workspace: Workspace, text: str, at: datetime | None = None) -> None:
    NoteInbox(workspace).append(Note(text, at or datetime.now(UTC)))


def config_of(url: str, folder: Path) -> Config:
    return Config.model_validate(
        {"fleet": {"database": url, "objects": str(folder / "objects"), "folder": folder / "own"}}
    )


@contextmanager
def kept(url: str, folder: Path) -> Iterator[Kept]:
    """A fleet with nobody in it, whose store is in this folder."""
    connections = connect(config_of(url, folder), {}, 4)
    one = Kept(url, folder, connections)
    try:
        yield one
    finally:
        for session in one.sessions:
            session.drop()
        connections.close()
