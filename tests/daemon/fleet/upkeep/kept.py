"""A fleet as its operator keeps it: PostgreSQL, a folder of objects, and holders that commit."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

from daemon.config.settings import Config
from daemon.fleet.connections import Connections, connect
from state.budget import Spend
from state.fleet import Generation, Lease, Place
from state.scratch import Note
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.fleet.inbox import Arrival
from state.stores.fleet.leases import Commit
from state.stores.fleet.registry import Registry
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects
from state.stores.history.inbox import NoteInbox
from tests.stores.fleet.fleet import Fleet, wait_for


class Kept(Fleet):
    """One fleet; `folder` has its objects and the owners' copies."""

    def __init__(self, url: str, folder: Path, connections: Connections) -> None:
        super().__init__(connections.database)
        self.url, self.folder, self.connections = url, folder, connections
        self.owner = uuid4()

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

    def live(self) -> None:
        """Be a process of the fleet."""
        self.owner = self.process()

    def die(self) -> None:
        """Have every process die."""
        for session in self.sessions.values():
            session.drop()
        wait_for(lambda: not self.living())

    def lease(self, place: Place, process: UUID | None = None) -> Lease:
        return super().lease(place, process or self.owner)

    def put_generation(self, lease: Lease, *notes: str, at: datetime | None = None) -> tuple[Generation, int]:
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
        generation, size = self.put_generation(lease, *notes)
        self.leases.commit(lease, Commit(generation, size, taken, int(spent is not None), spent or Spend()))
        self.leases.release(place.id, lease.owner)
        return generation

    def arrive(self, place: Place, text: str, at: datetime | None = None) -> int:
        """A note that is acknowledged; its row."""
        at = at or datetime.now(UTC)
        body = json.dumps({"text": text, "importance": 0.7, "at": at.isoformat()})
        [arrived] = self.inbox.put([Arrival(place.id, place.tenant, "note", uuid4().hex, body)])
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
        one.close()
