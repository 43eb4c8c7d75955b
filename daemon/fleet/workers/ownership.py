"""Ownership: which workspaces this worker owns; takes them, brings them up, gives them back, and keeps copies."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

from daemon.fleet.workers.owned import Owned, Surroundings
from daemon.observability import logs
from daemon.workspace.adoption import init_workspace
from state.errors import DreamdError, NotKeptError
from state.fleet.workspace import Lease, Worker
from state.stores.fleet.leases import Leases
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects

# Folders of workspaces that are no longer owned stay for the next time, the last ones at least.
_MOST_COPIES = 1_000


class _Turn:
    """Who takes or gives back one workspace; a lock that can be referred to weakly."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Ownership:
    """The workspaces that one worker owns, each in a folder below `folder`. Any thread may call."""

    def __init__(
        self, folder: Path, leases: Leases, objects: Objects, around: Surroundings, me: Callable[[], Worker]
    ) -> None:
        """`me`: the worker as it is known now."""
        self._folder = folder
        self._leases = leases
        self._objects = objects
        self._around = around
        self._me = me
        self._owned: dict[int, Owned] = {}
        self._turns: WeakValueDictionary[int, _Turn] = WeakValueDictionary()
        self._turns_lock = threading.Lock()

    def all(self) -> list[Owned]:
        """Those that it owns now."""
        return [*self._owned.values()]

    def find(self, workspace: int) -> Owned | None:
        """The workspace, if it is owned."""
        return self._owned.get(workspace)

    @contextmanager
    def owning(self, workspace: int) -> Iterator[Owned]:
        """The workspace, owned by this worker as long as the context lasts; it is taken if nobody owns it.

        Raises NotKeptError when another worker owns it, NotFoundError, UnreachableError, StorageError.
        """
        owned = self._acquire(workspace)
        try:
            yield owned
        finally:
            owned.used = time.monotonic()
            owned.users -= 1

    def _acquire(self, workspace: int) -> Owned:
        with self._turn(workspace).lock:
            owned = self._owned.get(workspace)
            if owned is not None and owned.lost:
                self._forget(owned)
                owned = None
            if owned is None:
                owned = self._take(workspace)
            owned.users += 1
            return owned

    def _turn(self, workspace: int) -> _Turn:
        with self._turns_lock:
            turn = self._turns.get(workspace)
            if turn is None:
                turn = self._turns[workspace] = _Turn()
            return turn

    def _take(self, workspace: int) -> Owned:
        self._around.check()
        lease = self._leases.take(workspace, self._me().id)
        if lease is None:
            raise NotKeptError(f"ws-{workspace} is another worker's", "ask that one")
        try:
            owned = self._brought_up(lease)
        except BaseException:
            with suppress(DreamdError):
                self._leases.release(lease)
            raise
        self._owned[workspace] = owned
        logs.get(workspace=lease.place.handle).info(
            "workspace_taken", fence=lease.fence, generation=lease.generation.number
        )
        return owned

    def _brought_up(self, lease: Lease) -> Owned:
        folder = self._folder / lease.place.handle
        generations = Generations(self._objects, lease.place.prefix)
        manifest = generations.manifest(lease.generation.key) if lease.generation.key else None
        if manifest is None:  # it has never been committed: what lies here, nobody was told of
            shutil.rmtree(folder, ignore_errors=True)
            init_workspace(folder)
        else:
            generations.bring_up(folder, manifest)
            init_workspace(folder)
        owned = Owned(lease, folder, generations, manifest, self._around)
        try:
            owned.open()
        except BaseException:
            owned.drop()
            raise
        return owned

    def _forget(self, owned: Owned) -> None:
        owned.drop()
        if self._owned.get(owned.place.id) is owned:
            del self._owned[owned.place.id]

    def drop_all(self) -> None:
        """The lifetime has ended: whatever it owned is, or may be, another worker's."""
        for owned in [*self._owned.values()]:
            owned.lost = True

    def give_back_idle(self, seconds: float) -> None:
        """Give back what nobody has used for so long."""
        for owned in [*self._owned.values()]:
            with self._turn(owned.place.id).lock:
                idle = not owned.users and time.monotonic() - owned.used >= seconds
                if self._owned.get(owned.place.id) is not owned or not (idle or (owned.lost and not owned.users)):
                    continue
                if owned.lost:
                    self._forget(owned)
                    continue
                del self._owned[owned.place.id]
                try:
                    owned.give_back()
                except DreamdError as error:  # what was not committed, nobody was told of
                    logs.get(workspace=owned.place.handle).warning("not_given_back", error=error)
                    owned.drop()
                    with suppress(DreamdError):
                        self._leases.release(owned.lease)

    def remove_old_copies(self) -> None:
        """Remove the folders that were not used for the longest, beyond the last thousand."""
        names = {f"ws-{one}" for one in self._owned}
        copies = [one for one in self._folder.iterdir() if one.name not in names]
        for folder in sorted(copies, key=lambda one: one.stat().st_mtime)[: max(0, len(copies) - _MOST_COPIES)]:
            self.remove_copy(int(folder.name.removeprefix("ws-")))

    def remove_copy(self, workspace: int) -> None:
        """Remove the folder of a workspace, unless it is owned: then its owner has done what is to be done."""
        with self._turn(workspace).lock:
            if workspace not in self._owned:
                shutil.rmtree(self._folder / f"ws-{workspace}", ignore_errors=True)
