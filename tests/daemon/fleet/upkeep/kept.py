"""A fleet as its operator keeps it: processes that are none, which hold workspaces, commit, and die."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID, uuid4

from daemon.fleet.connections import Connections
from state.budget import Spend
from state.fleet import Generation, Lease, Place
from state.scratch import Note
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.fleet.leases import Commit, Leases, Session
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects, open_objects
from state.stores.history.inbox import NoteInbox
from tests.daemon.fleet.running import Fleet


@dataclass(slots=True)
class Kept(Fleet):
    """One fleet; `folder` has its objects and the owners' copies."""

    owner: UUID = field(default_factory=uuid4)
    sessions: list[Session] = field(default_factory=list)

    @property
    def objects(self) -> Objects:
        return open_objects(self.objects_url, self.options)

    @property
    def connections(self) -> Connections:
        return Connections(self.database, self.objects)

    def close(self) -> None:
        for session in self.sessions:
            session.drop()
        self.database.close()

    def live(self) -> None:
        """Be a process of the fleet."""
        self.owner = uuid4()
        session = Session(self.database, self.owner, "http://127.0.0.1:1", "here", "1.0", 4)
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

    def begin(self, lease: Lease, *notes: str, at: datetime | None = None) -> tuple[Generation, int]:
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
        generation, size = self.begin(lease, *notes)
        Leases(self.database).commit(lease, Commit(generation, size, taken, 1 if spent else None, spent or Spend()))
        Leases(self.database).release(lease)
        return generation


def append(workspace: Workspace, text: str, at: datetime | None = None) -> None:
    NoteInbox(workspace).append(Note(text, at or datetime.now(UTC), 0.8))
