"""Desk: the workspaces that this process holds: it leases and downloads them, commits, and gives them back.

    take the lease ─> download the newest generation ─> take in inbox rows ─> work ─> upload: the commit ─> PostgreSQL

Uncommitted writes are lost when another holder commits. None of them was acknowledged, and the inbox rows among them
still wait for the next holder. A folder exists only while its workspace is held: no other machine has a copy, so
what is forgotten in it is forgotten everywhere.
"""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

from daemon.fleet.leased import Leased, Surroundings
from daemon.observability import logs
from state.errors import DreamdError, NotKeptError
from state.fleet import Lease
from state.stores.disk.workspace import contained, init_workspace
from state.stores.generations.generations import Generations

_GIVEN_BACK_AT_ONCE = 8
# Prefix of a folder that is being removed, so that no half of it is taken for a workspace.
_GONE = "gone-"


class Desk:
    """The workspaces that one process holds, each in a folder below `folder`. Any thread may call."""

    def __init__(self, folder: Path, around: Surroundings, me: UUID) -> None:
        """Empty the folder, which an earlier process may have left. `me`: the process's id."""
        self._folder = folder
        self._around = around
        self._me = me
        self._held: dict[int, Leased] = {}
        # A lock per workspace to take or give it back. They are never removed, at a hundred bytes each.
        self._turns: dict[int, threading.Lock] = {}
        self._counting = threading.Lock()
        self.closed = False
        """Once set, no more workspaces are taken."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)

    def all(self) -> list[Leased]:
        """Return the workspaces held now."""
        return [*self._held.values()]

    def find(self, workspace: int) -> Leased | None:
        """Return the workspace if it is held here."""
        return self._held.get(workspace)

    @contextmanager
    def holding(self, workspace: int) -> Iterator[Leased]:
        """Hold the workspace in this context; take it first if nobody holds it.

        Raise HeldElsewhereError; NotKeptError if this process is stopping, or still works in the workspace though
        it lost it; NotFoundError, UnreachableError, StorageError.
        """
        with self._turn(workspace):
            held = self._held.get(workspace)
            if held is not None and held.lost:
                if held.callers:  # they learn of the loss at their next step, and use the folder until then
                    what = f"what was under way in ws-{workspace} when it was lost has to end"
                    raise NotKeptError(what, "ask again soon")
                self._forget(held)
                held = None
            if held is None:
                if self.closed:
                    raise NotKeptError("this process is stopping", "ask another one")
                held = self._take(workspace)
            with self._counting:
                held.callers += 1
        try:
            yield held
        finally:
            with self._counting:
                held.called = time.monotonic()
                held.callers -= 1

    def _turn(self, workspace: int) -> threading.Lock:
        return self._turns.setdefault(workspace, threading.Lock())

    def _take(self, workspace: int) -> Leased:
        self._around.objects.require()
        lease = self._around.leases.take(workspace, self._me)
        try:
            held = self._download_and_open(lease)
        except BaseException:
            with suppress(DreamdError):
                self._around.leases.release(lease)
            shutil.rmtree(self._folder / lease.place.handle, ignore_errors=True)
            raise
        self._held[workspace] = held
        logs.get(workspace=lease.place.handle).info("workspace_taken", generation=held.lease.generation)
        return held

    def _download_and_open(self, lease: Lease) -> Leased:
        folder = self._folder / lease.place.handle
        generations = Generations(self._around.objects, lease.place.prefix)
        newest = generations.newest(lease.place, lease.generation)
        shutil.rmtree(folder, ignore_errors=True)
        if newest is not None:
            generations.bring_up(folder, newest)
        init_workspace(contained(folder))
        held = Leased(lease, folder, generations, self._around, newest.number if newest is not None else 0)
        try:
            held.open()
        except BaseException:
            held.drop()
            raise
        return held

    def _forget(self, held: Leased) -> None:
        """Close the workspace and remove its folder, even from work that still goes on in it."""
        held.drop()
        if self._held.get(held.place.id) is held:
            del self._held[held.place.id]
        folder = self._folder / held.place.handle
        gone = folder.with_name(f"{_GONE}{folder.name}-{os.urandom(4).hex()}")
        with suppress(OSError):
            folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    # ------------------------------------------------------------ giving back

    def tidy(self, idle_seconds: float) -> None:
        """Give back workspaces idle for this long, close idle stores, and delete leftover folders."""
        if not self._around.objects.problem:  # else nobody could open them, and the store may have lost them
            self.give_back_idle(idle_seconds)
        for held in self.all():
            held.close_idle()
        for rest in self._folder.glob(f"{_GONE}*"):
            shutil.rmtree(rest, ignore_errors=True)

    def drop_lost(self) -> None:
        """Drop workspaces that another process has taken or that were removed. Raise UnreachableError."""
        before = self.all()
        ours = self._around.leases.held(self._me) if before else set()
        for held in before:
            if held.place.id in ours:
                continue
            with self._turn(held.place.id):
                held.lost = True
                if not held.callers and self._held.get(held.place.id) is held:
                    self._forget(held)

    def give_back_idle(self, seconds: float) -> None:
        """Give back workspaces that nobody has used for this long."""
        idle = [held for held in self.all() if _is_idle(held, seconds)]
        _for_each(idle, lambda held: self._give_back(held, seconds))

    def _give_back(self, held: Leased, seconds: float) -> None:
        with self._turn(held.place.id):
            if self._held.get(held.place.id) is not held or not _is_idle(held, seconds):
                return
            if not held.lost:
                _log_failure_of(held, held.close)
            self._forget(held)
            with suppress(DreamdError):
                self._around.leases.release(held.lease)

    def distrust_store(self) -> None:
        """Have each workspace's next generation be whole: earlier ones may be missing."""
        for held in self.all():
            held.is_store_trusted = False

    def cut_off(self) -> list[int]:
        """Commit the workspaces still in use as they are, mark them lost, and return their ids.

        There is no time to wait for the work in them, which commits nothing more; another process resumes a dream
        after the last node that ended.
        """
        left = [held for held in self.all() if not held.lost]
        _for_each(left, _cut_off)
        return [held.place.id for held in left]


def _cut_off(held: Leased) -> None:
    _log_failure_of(held, held.commit)
    held.lost = True


def _log_failure_of(held: Leased, act: Callable[[], None]) -> None:
    """Call `act` and log a failure, which loses nothing that was acknowledged."""
    try:
        act()
    except (DreamdError, sqlite3.Error, OSError) as error:
        logs.get(workspace=held.place.handle).warning("not_given_back", error=error)


def _for_each(every: list[Leased], act: Callable[[Leased], None]) -> None:
    """Call `act` for each in eight threads, as each waits for the object store and PostgreSQL."""
    if every:
        with ThreadPoolExecutor(min(len(every), _GIVEN_BACK_AT_ONCE), "give-back") as threads:
            list(threads.map(act, every))


def _is_idle(held: Leased, seconds: float) -> bool:
    return not held.callers and (held.lost or time.monotonic() - held.called >= seconds)
