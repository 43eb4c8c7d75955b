"""Replicas: copies of workspaces at a gateway, to read from: the last generation, and the notes that wait.

A replica is a workspace's folder like any other, so whatever reads a workspace reads it. What a reader writes there
(a search takes pending notes in) stays there, and goes when the next generation comes. What is brought up is as new
as the moment at which whoever asks looked: each acknowledged note is in it.
"""

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.observability import logs
from state.errors import DreamdError, UnreachableError
from state.stores.disk.workspace import contained, init_workspace
from state.stores.generations.generations import Generations
from state.stores.history.bootstraps import carry_receipt
from state.stores.history.inbox import NoteInbox

if TYPE_CHECKING:
    from state.fleet.workspace import InboxRow
    from state.secrets.policy import Redaction
    from state.stores.fleet.standings import Standing, Standings
    from state.stores.generations.objects import Objects

_MOST_REPLICAS = 2_000
_MOST_BYTES = 20 << 30
# An empty workspace's files are not nothing.
_LEAST_BYTES = 1 << 18
_TRIES = 8


class Replica:
    """The copy of one workspace. Many may read it, while nobody brings it up."""

    def __init__(self, folder: Path) -> None:
        self.workspace = contained(folder)
        self.number = -1  # of its generation; -1: nothing is here
        self.rows: frozenset[int] = frozenset()
        self.bytes = _LEAST_BYTES
        self.users = 0
        self.used = time.monotonic()
        self.refreshing = threading.Lock()
        # Of those who read as a workspace's owner does, one at a time.
        self.alone = threading.Lock()
        self._changed = threading.Condition()
        self._readers = 0
        self._is_written = False

    @contextmanager
    def read(self) -> Iterator[None]:
        """Keep the files as they are while the context lasts, but for what is appended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_written)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def written(self) -> Iterator[None]:
        """Let nobody read while the context lasts."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_written)
            self._is_written = True
            self._changed.wait_for(lambda: not self._readers)
        try:
            yield
        finally:
            with self._changed:
                self._is_written = False
                self._changed.notify_all()

    def holds(self, standing: "Standing") -> bool:
        """Tell whether everything is here that was acknowledged when the workspace stood so."""
        newer = self.number > standing.generation.number
        return newer or (self.number == standing.generation.number and self.rows >= standing.waiting)


class Replicas:
    """The replicas of one gateway, below a folder of its own; the ones that were read last stay."""

    def __init__(
        self,
        folder: Path,
        objects: "Objects",
        standings: "Standings",
        redaction: "Callable[[], Redaction]",
    ) -> None:
        self._folder = folder
        self._objects = objects
        self._standings = standings
        self._redaction = redaction
        self._lock = threading.Lock()
        self._replicas: dict[int, Replica] = {}
        # What was forgotten while this gateway was not there lies in none of them.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)

    @contextmanager
    def open(self, standing: "Standing") -> Iterator[Replica]:
        """Open the workspace as it stood then, or newer. Raise UnreachableError, NotFoundError, StorageError."""
        with self._using(standing.place.id) as replica:
            for number in range(_TRIES):
                if number:  # it was dropped, perhaps because of what it held: no older generation comes again
                    standing = self._standings.find(standing.place.tenant, standing.place.name)
                with replica.refreshing:
                    if not replica.holds(standing):
                        standing = self._refresh(replica, standing)
                with replica.read():
                    if replica.holds(standing):
                        yield replica
                        return
            raise UnreachableError(f"{standing.place.handle} changes faster than it is copied", "try again")

    def drop(self, workspace: int) -> None:
        """Remove the copy: something in it was forgotten, or the workspace is gone."""
        with self._lock:
            if workspace not in self._replicas:
                return
        with self._using(workspace) as replica, replica.refreshing, replica.written():
            self._remove(replica)

    def __len__(self) -> int:
        return len(self._replicas)

    @contextmanager
    def _using(self, workspace: int) -> Iterator[Replica]:
        with self._lock:
            replica = self._replicas.get(workspace)
            if replica is None:
                replica = self._replicas[workspace] = Replica(self._folder / f"ws-{workspace}")
            replica.users += 1
        try:
            yield replica
        finally:
            with self._lock:
                replica.users -= 1
                replica.used = time.monotonic()
            self._evict()

    def _refresh(self, replica: Replica, standing: "Standing") -> "Standing":
        """Make the replica hold this standing, or a newer one, which is returned."""
        for _ in range(_TRIES):
            if replica.number != standing.generation.number:
                with replica.written():
                    try:
                        self._bring_up(replica, standing)
                    except BaseException:
                        self._remove(replica)  # half of one that was forgotten meanwhile would stay
                        raise
            wanted = standing.waiting - replica.rows
            rows = self._standings.rows(standing.place.id, wanted)
            if len(rows) == len(wanted):
                self._append(replica, rows)
                return standing
            # Some were taken into a generation meanwhile.
            standing = self._standings.find(standing.place.tenant, standing.place.name)
        raise UnreachableError(f"{standing.place.handle} changes faster than it is copied", "try again")

    def _bring_up(self, replica: Replica, standing: "Standing") -> None:
        replica.number, replica.rows = -1, frozenset()
        folder = replica.workspace.root
        if standing.generation.key:
            generations = Generations(self._objects, standing.place.prefix)
            generations.bring_up(folder, generations.manifest(standing.generation.key))
        else:
            shutil.rmtree(folder, ignore_errors=True)
        init_workspace(replica.workspace)
        replica.number, replica.bytes = standing.generation.number, max(_LEAST_BYTES, standing.bytes)

    def _append(self, replica: Replica, rows: "list[InboxRow]") -> None:
        """Add what waits, as its owner will take it in."""
        for row in rows:
            try:
                if row.kind == "note":
                    NoteInbox(replica.workspace).append(row.note(), self._redaction())
                else:
                    with suppress(DreamdError):  # a receipt is no memory
                        carry_receipt(replica.workspace, json.loads(row.body)["line"])
            except (ValueError, KeyError, TypeError) as error:
                logs.get(workspace=replica.workspace.root.name).error("inbox_row_unreadable", row=row.id, error=error)
            replica.rows |= {row.id}

    def _evict(self) -> None:
        """Remove what was read longest ago, beyond the bounds; what is being read stays."""
        while True:
            with self._lock:
                every = self._replicas
                if len(every) <= _MOST_REPLICAS and sum(one.bytes for one in every.values()) <= _MOST_BYTES:
                    return
                idle = [(one.used, number) for number, one in every.items() if not one.users]
                if not idle:
                    return
                replica = every.pop(min(idle)[1])
                # Under the lock: else it could be brought up again while it is removed.
                self._remove(replica)

    @staticmethod
    def _remove(replica: Replica) -> None:
        replica.number, replica.rows, replica.bytes = -1, frozenset(), _LEAST_BYTES
        shutil.rmtree(replica.workspace.root, ignore_errors=True)
