"""Ownership: which workspaces this worker owns; takes them, brings them up, and gives them back."""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID
from weakref import WeakValueDictionary

from daemon.fleet.workers.owned import Owned, Surroundings
from daemon.observability import logs
from state.errors import DreamdError, NotKeptError
from state.fleet.workspace import Lease
from state.stores.disk.workspace import contained, init_workspace
from state.stores.fleet.leases import Leases
from state.stores.fleet.places import ERASURES_KEPT_DAYS
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects
from state.stores.generations.placing import clear

# Vectors of workspaces that are no longer owned stay for the next time, as long as the disk has room for others.
_MOST_COPIES = 1_000
_LEAST_FREE = 0.05
# An older folder may hold the vectors of a text whose erasure notice was swept already.
_OLDEST_SECONDS = (ERASURES_KEPT_DAYS - 1) * 86_400.0
_GIVEN_BACK_AT_ONCE = 8
# A folder that is removed begins with this, so that nobody takes half of it for a workspace.
_GONE = "gone-"


class _Turn:
    """Who takes or gives back one workspace: a lock that lives as long as somebody has it or waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Ownership:
    """The workspaces that one worker owns, each in a folder below `folder`. Any thread may call."""

    def __init__(self, folder: Path, leases: Leases, objects: Objects, around: Surroundings, me: UUID) -> None:
        """`me`: the worker's number."""
        self._folder = folder
        self._leases = leases
        self._objects = objects
        self._around = around
        self._me = me
        self._owned: dict[int, Owned] = {}
        self._turns: WeakValueDictionary[int, _Turn] = WeakValueDictionary()
        self._turns_lock = threading.Lock()
        self._counting = threading.Lock()

    def all(self) -> list[Owned]:
        """Return the workspaces that it owns now."""
        return [*self._owned.values()]

    def find(self, workspace: int) -> Owned | None:
        """Return the workspace, if it is owned."""
        return self._owned.get(workspace)

    @contextmanager
    def owning(self, workspace: int) -> Iterator[Owned]:
        """Own the workspace while the context lasts; it is taken if nobody owns it.

        Raise NotKeptError when another worker owns it, NotFoundError, UnreachableError, StorageError.
        """
        owned = self._acquire(workspace)
        try:
            yield owned
        finally:
            with self._counting:
                owned.used = time.monotonic()
                owned.users -= 1

    def _acquire(self, workspace: int) -> Owned:
        with self._turn(workspace):
            owned = self._owned.get(workspace)
            if owned is not None and owned.lost:
                if owned.users:  # they find out at their next step; until then the folder is no other's
                    raise NotKeptError(
                        f"what was under way in ws-{workspace} when it was lost has to end", "ask another worker"
                    )
                self._forget(owned)
                owned = None
            if owned is None:
                owned = self._take(workspace)
            with self._counting:
                owned.users += 1
            return owned

    def _turn(self, workspace: int) -> _Turn:
        with self._turns_lock:
            turn = self._turns.get(workspace)
            if turn is None:
                turn = self._turns[workspace] = _Turn()
            return turn

    def _take(self, workspace: int) -> Owned:
        lease = self._leases.take(workspace, self._me)
        if lease is None:
            raise NotKeptError(f"ws-{workspace} is another worker's", "ask that one")
        try:
            owned = self._brought_up(lease)
        except BaseException:
            with suppress(DreamdError):
                self._leases.release(lease)
            raise
        self._owned[workspace] = owned
        logs.get(workspace=lease.place.handle).info("workspace_taken", generation=lease.generation.number)
        return owned

    def _brought_up(self, lease: Lease) -> Owned:
        folder = self._folder / lease.place.handle
        generations = Generations(self._objects, lease.place.prefix)
        manifest = generations.manifest(lease.generation.key) if lease.generation.key else None
        if manifest is None:  # it has never been committed: what lies here, nobody was told of
            clear(folder)
        else:
            generations.bring_up(folder, manifest)
        init_workspace(contained(folder))
        owned = Owned(lease, folder, generations, manifest, self._around)
        try:
            owned.open()
        except BaseException:
            owned.drop()
            raise
        return owned

    def _forget(self, owned: Owned) -> None:
        """Close the workspace and remove its folder: whoever is still at work in it finds nothing."""
        owned.drop()
        if self._owned.get(owned.place.id) is owned:
            del self._owned[owned.place.id]
        folder = self._folder / owned.place.handle
        gone = folder.with_name(f"{_GONE}{folder.name}-{os.urandom(4).hex()}")
        with suppress(OSError):
            folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def give_back_idle(self, seconds: float) -> None:
        """Give back what nobody has used for so long."""
        idle = [owned for owned in self.all() if _is_idle(owned, seconds)]
        if len(idle) < _GIVEN_BACK_AT_ONCE:
            for owned in idle:
                self._give_back(owned, seconds)
        else:
            with ThreadPoolExecutor(_GIVEN_BACK_AT_ONCE, "give-back") as threads:
                list(threads.map(lambda owned: self._give_back(owned, seconds), idle))

    def _give_back(self, owned: Owned, seconds: float) -> None:
        with self._turn(owned.place.id):
            if self._owned.get(owned.place.id) is not owned or not _is_idle(owned, seconds):
                return
            if owned.lost:
                self._forget(owned)
                return
            del self._owned[owned.place.id]
            try:
                owned.give_back()
            except (DreamdError, sqlite3.Error, OSError) as error:  # what was not committed, nobody was told of
                logs.get(workspace=owned.place.handle).warning("not_given_back", error=error)
                self._forget(owned)
                with suppress(DreamdError):
                    self._leases.release(owned.lease)

    def cut_off(self) -> list[int]:
        """Commit those that are still in use as they are, own them no more, and return which they are.

        There is no time to wait for them. What is under way in them commits nothing more; a dream goes on elsewhere
        after the last of its nodes that has ended.
        """
        left = [owned for owned in self.all() if not owned.lost]
        if left:
            with ThreadPoolExecutor(_GIVEN_BACK_AT_ONCE, "cut-off") as threads:
                list(threads.map(self._cut_off, left))
        return [owned.place.id for owned in left]

    def _cut_off(self, owned: Owned) -> None:
        try:
            owned.commit()
        except (DreamdError, sqlite3.Error) as error:
            logs.get(workspace=owned.place.handle).warning("not_given_back", error=error)
        owned.lost = True

    def remove_old_copies(self, least_free: float = _LEAST_FREE) -> None:
        """Remove folders not used for a month, the oldest beyond the last thousand, and remains of others.

        The oldest go too while less than this part of the disk is free.
        """
        copies = list[tuple[float, int]]()
        for folder in self._folder.iterdir():
            name = folder.name.removeprefix("ws-")
            if folder.name.startswith(_GONE):
                shutil.rmtree(folder, ignore_errors=True)
            elif name.isdecimal() and int(name) not in self._owned:
                with suppress(OSError):
                    copies.append((folder.stat().st_mtime, int(name)))
        oldest, many = time.time() - _OLDEST_SECONDS, len(copies) - _MOST_COPIES
        for number, (used, workspace) in enumerate(sorted(copies)):
            if number < many or used < oldest or _free(self._folder) < least_free:
                with suppress(OSError):  # the next look tries again
                    self.remove_copy(workspace)

    def remove_copy(self, workspace: int) -> bool:
        """Remove the folder of a workspace, unless it is owned: then its owner has done what is to be done.

        What this worker believes is not enough: the lease may be gone, and with it the workspace. Return whether the
        folder could be removed: while somebody is still at work in it, it cannot. Raise UnreachableError, and OSError
        when something of it stays.
        """
        with self._turn(workspace):
            owned = self._owned.get(workspace)
            if owned is not None:
                if not owned.lost and self._leases.holds(owned.lease):
                    return True
                owned.lost = True
                if owned.users:
                    return False
                self._forget(owned)
            folder = self._folder / f"ws-{workspace}"
            if folder.exists():
                shutil.rmtree(folder)
            return True


def _free(folder: Path) -> float:
    disk = shutil.disk_usage(folder)
    return disk.free / disk.total


def _is_idle(owned: Owned, seconds: float) -> bool:
    return not owned.users and (owned.lost or time.monotonic() - owned.used >= seconds)
