"""A fleet as its operator keeps it: processes that are none, which hold workspaces, commit, and die."""

from datetime import UTC, datetime

from daemon.fleet.connections import Connections
from state.budget import Spend
from state.fleet import Lease, Place
from state.scratch import Note
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.fleet.leases import Commit
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects, open_objects
from state.stores.history.inbox import NoteInbox
from tests.daemon.fleet.running import Fleet


class Kept(Fleet):
    """One fleet; `folder` has its objects and the owners' copies."""

    @property
    def objects(self) -> Objects:
        return open_objects(self.objects_url, self.options)

    @property
    def connections(self) -> Connections:
        return Connections(self.database, self.objects)

    def begin(self, lease: Lease, *notes: str, number: int = 0, at: datetime | None = None) -> tuple[int, int]:
        """Put the next generation with these notes into the store, as an owner does that dies before its commit."""
        place, root = lease.place, self.folder / "copies" / lease.place.handle
        generations = Generations(self.objects, place.prefix)
        if (newest := generations.newest(place, lease.generation)) is not None:
            generations.bring_up(root, newest)
        workspace = init_workspace(contained(root))
        for note in notes:
            append(workspace, note, at)
        taken = generations.take(root)
        generations.close()
        number = number or (newest.number if newest is not None else 0) + 1
        return generations.put(taken, place, number), taken.bytes

    def commit(self, place: Place, *notes: str, spent: Spend | None = None, taken: tuple[int, ...] = ()) -> int:
        """Hold the workspace, add these notes and commit."""
        lease = self.lease(place)
        generation, size = self.begin(lease, *notes)
        self.leases.commit(lease, Commit(generation, size, taken, 1 if spent else None, spent or Spend()))
        self.leases.release(lease)
        return generation


def append(workspace: Workspace, text: str, at: datetime | None = None) -> None:
    NoteInbox(workspace).append(Note(text, at or datetime.now(UTC), 0.8))
