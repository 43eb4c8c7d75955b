"""Roster: the workspaces that the daemon keeps; opens, watches and releases each of them.

registry, configuration ─> look_up ─> ManagedWorkspace ─> acquire (lock, stores) ─> watch
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.registry import Entry, WorkspaceList, name_of
from daemon.config.settings import Config
from daemon.observability import logs
from daemon.service.keeper import Keeper
from daemon.service.watcher import Change, Watcher
from daemon.workspace.adoption import workspace_at
from daemon.workspace.files import WorkspaceFiles
from daemon.workspace.status import Problem
from daemon.workspace.vector_index import Embedding
from state.errors import NotKeptError, UnknownWorkspaceError, UsageError
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.service.schedule import Decision

# How long a client waits for a workspace that another thread is opening or releasing, or that is yet to be looked up.
_LOCK_SECONDS = 10.0
# A look that lasts longer is reported as hanging.
_HANGS_SECONDS = 20.0


class ManagedWorkspace:
    """One workspace of the roster: its keeper, its problem, and what changed since the scheduler's last look."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.root = root
        self.has_notes = False  # when it was looked up: it is taken up before the others
        self.keeper: Keeper | None = None
        self.problem: Problem | None = None
        self.lock = threading.Lock()  # of whoever acquires or releases it
        self.watched: object = None  # by which watcher, and for which transcripts
        self.looking = False  # a look is queued or runs
        self.look_started: float | None = None  # of the look that runs, on the monotonic clock
        self.look_wanted = True  # it is new, or a job of it has ended
        self.changes: set[Change] = set()
        self._changed = 0  # so many times
        self.ingesting = False  # ingestion of what changed is queued or runs
        self.ingest_after = 0.0  # on the monotonic clock
        self.dreaming = False  # a dream of the scheduler's is queued or runs
        self.maintaining = False  # maintenance of its sessions is queued or runs
        self.maintain_after = 0.0  # on the monotonic clock, after maintenance that failed
        self.next: Decision | None = None

    def mark_changed(self, change: Change) -> None:
        """Remember the change until it is ingested."""
        self.changes.add(change)
        self._changed += 1

    @property
    def pulse(self) -> str:
        """Another text whenever something that a person is shown of it may have changed."""
        keeper = self.keeper
        at_work = (keeper.written, keeper.dreaming, keeper.offline_reason) if keeper is not None else ()
        return f"{self.name} {self._changed} {at_work} {self.problem} {self.next}"

    def take_changes(self) -> set[Change]:
        """Return the changes since the last call; one that comes meanwhile is in this set or in the next."""
        changes = set[Change]()
        while self.changes:
            changes.add(self.changes.pop())
        return changes

    def seconds_until_look(self, now: datetime, steady: float) -> float:
        """Return the seconds until a look may find work, infinite if only the next round has to look.

        One without its lock is tried again in that round alone, whatever changes in it: a try writes to the disk.
        """
        if self.looking:
            return math.inf
        if not self.holds_lock:
            return 0.0 if self.look_wanted else math.inf
        waits = [(at - now).total_seconds()] if (at := self.sessions_due(steady)) is not None else []
        if not self.dreaming:
            waits += [0.0] if self.look_wanted else []
            waits += [(self.next.at - now).total_seconds()] if self.next is not None else []
            waits += [self.ingest_after - steady] if self.changes and not self.ingesting else []
        return min(waits, default=math.inf)

    @property
    def hanging(self) -> Problem | None:
        """Set while a look does not end: whoever touches this folder now would wait as long."""
        started = self.look_started
        if started is None or time.monotonic() - started < _HANGS_SECONDS:
            return None
        return Problem(
            f"{self.root} has not answered for {time.monotonic() - started:.0f} s",
            "look at the disk that it is on; when it answers, all goes on by itself",
        )

    @property
    def holds_lock(self) -> bool:
        """Whether this daemon holds the workspace's lock."""
        return self.keeper is not None and self.keeper.holds_lock

    @property
    def is_kept(self) -> bool:
        """Whether it has been taken up: the lock is held, and what was interrupted in it is recovered."""
        return self.holds_lock and not self.lock.locked()

    def sessions_due(self, steady: float) -> datetime | None:
        """Return when maintenance of its sessions is to begin; None if none is due or one is under way."""
        if self.keeper is None or self.maintaining or steady < self.maintain_after:
            return None
        return self.keeper.sessions_due


class Roster:
    """All workspaces to keep, by name. Any thread may call; a disk that hangs delays only its own workspace.

    `on_change` is called when there is something to look at, `on_acquired` when a workspace was opened.
    """

    def __init__(
        self,
        listing: WorkspaceList,
        config: Callable[[], Config],
        embedding: Embedding,
        open_workspace: Callable[[Path], Workspace],
        stopping: threading.Event,
        on_change: Callable[[], None],
        on_acquired: Callable[[ManagedWorkspace, Keeper], None],
    ) -> None:
        self.ready = False  # all that were listed at the start were looked up, or are on a disk that hangs
        self.watcher = Watcher(self.mark_changed)
        self._listing = listing
        self._config = config
        self._embedding = embedding
        self._open_workspace = open_workspace
        self._stopping = stopping
        self._on_change = on_change
        self._on_acquired = on_acquired
        self._lock = threading.Lock()  # of `_listing` and `_managed`; no workspace's folder is touched under it
        self._looked_up = threading.Condition(self._lock)  # notified when an entry was
        self._unknown: set[Entry] = set()  # entries that were not looked up yet
        self._known_by = time.monotonic() + _LOCK_SECONDS  # so long a client waits for them
        self._managed: dict[str, ManagedWorkspace] = {}
        self._name_clashes: dict[Path, Problem] = {}

    def all(self) -> list[ManagedWorkspace]:
        """Return all of them, by name."""
        return [managed for _, managed in sorted(self._managed.copy().items())]

    def find(self, name: str) -> ManagedWorkspace | None:
        """Return the workspace of this name, if there is one."""
        return self._managed.get(name)

    def get(self, name: str) -> ManagedWorkspace:
        """Return the workspace of this name; while entries are looked up, wait for it.

        Raise UnknownWorkspaceError, or NotKeptError when the daemon has not looked them up in ten seconds.
        """
        managed = self._managed.get(name)
        if managed is None:
            with self._looked_up:
                self._looked_up.wait_for(lambda: self._is_settled(name), self._known_by - time.monotonic())
            managed = self._managed.get(name)
        if managed is None and not self.ready:
            raise NotKeptError("the daemon is starting: it looks up its workspaces", "try again")
        if managed is None:
            known = ", ".join(sorted(self._managed)) or "none yet"
            raise UnknownWorkspaceError(
                f"the daemon keeps no workspace {name!r} (it keeps {known})", "'dreamd init' adds one"
            )
        return managed

    def problems(self) -> Iterator[Problem]:
        """Return what is wrong with entries, names and the watching."""
        yield from map(Problem.of, self._listing.problems())
        yield from self._name_clashes.copy().values()
        if self.watcher.problem:
            yield self.watcher.problem

    def read_entries(self) -> tuple[Entry, ...]:
        """Read the entries of command line, registry and configuration anew; `look_up` is due for each."""
        with self._lock:
            entries = self._listing.read(self._config().daemon.workspaces)
            self._unknown, self._known_by = set(entries), time.monotonic() + _LOCK_SECONDS
        self._name_clashes = {}
        return entries

    def look_up(self, entry: Entry) -> None:
        """Put what the entry names into the roster, and take out what no entry names any longer."""
        named = self._listing.look_up(entry)
        with_notes = {root for root in named.roots if _has_notes(root)}
        with self._looked_up:
            for root in self._listing.record(entry, named):
                try:
                    managed = self._managed_at(root)
                except UsageError as error:
                    self._name_clashes[root] = Problem.of(error)
                else:
                    managed.has_notes = root in with_notes
                    self._managed[managed.name] = managed
            self._unknown.discard(entry)
            self._looked_up.notify_all()
            by_root = {managed.root: managed for managed in self.all()}
            gone = [self._managed.pop(by_root[root].name) for root in self._listing.unlisted(by_root)]
        for managed in gone:
            self._release(managed)
        self._on_change()

    def add(self, workspace: Workspace) -> ManagedWorkspace:
        """Keep the workspace from now on, also after a restart. Raise UsageError when its name is taken."""
        with self._lock:
            managed = self._managed_at(workspace.root)
            self._listing.add(workspace.root)
            self._managed[managed.name] = managed
        self.acquire(managed)
        return managed

    def remove(self, name: str) -> None:
        """Release the workspace, and keep it no more until it is added again. Raise as `get` does."""
        managed = self.get(name)
        with self._lock:
            self._listing.remove(managed.root)
            self._managed.pop(name, None)
        self._release(managed)

    def acquire(self, managed: ManagedWorkspace) -> bool:
        """Try to take the workspace's lock and open it; a failure becomes its problem and is not raised.

        False when another thread has been at that for ten seconds, and goes on: perhaps its disk hangs.
        """
        if not managed.lock.acquire(timeout=_LOCK_SECONDS):
            return False
        try:
            offline = managed.keeper is not None and managed.keeper.offline_reason
            if not (managed.holds_lock or offline or self._stopping.is_set()) and self._is_listed(managed):
                self._acquire_now(managed)
            if managed.keeper is not None and not self._is_listed(managed):
                managed.keeper.release()  # removed meanwhile
        finally:
            managed.lock.release()
        return True

    def watch(self, managed: ManagedWorkspace) -> None:
        """Watch its files, with the watcher and the transcript patterns that are current now."""
        watcher, transcripts = self.watcher, self._config().sources.transcripts
        ended = self._stopping.is_set() or not self._is_listed(managed)
        if managed.watched != (watcher, transcripts) and not ended:
            watcher.watch(managed.root, transcripts)
            managed.watched = (watcher, transcripts)

    def replace_watcher(self) -> None:
        """Leave a watcher that is stuck at a disk; each workspace's next look has it watched by the new one."""
        stuck, self.watcher = self.watcher, Watcher(self.mark_changed)
        stuck.close(wait=False)
        logs.get().error("watcher_stuck", seconds=round(stuck.stuck_for))

    def mark_changed(self, root: Path, change: Change) -> None:
        """Note that something in this workspace may have changed."""
        managed = self._managed.get(name_of(root))
        if managed is not None:
            managed.mark_changed(change)
            self._on_change()

    def _is_settled(self, name: str) -> bool:
        return name in self._managed or (self.ready and not self._unknown)

    def _is_listed(self, managed: ManagedWorkspace) -> bool:
        return self._managed.get(managed.name) is managed

    def _managed_at(self, root: Path) -> ManagedWorkspace:
        """Return the one with this root, or a new one. Raise UsageError if a workspace elsewhere has its name."""
        name = name_of(root)
        managed = self._managed.get(name) or ManagedWorkspace(name, root)
        if managed.root != root:
            what = f"{root} would be called {name}, as {managed.root} is already"
            raise UsageError(what, "rename one of the folders")
        return managed

    def _acquire_now(self, managed: ManagedWorkspace) -> None:
        log = logs.get(workspace=managed.name)
        try:
            workspace = self._open_workspace(managed.root)
            if managed.keeper is not None and managed.keeper.workspace != workspace:
                managed.keeper.release()  # the folder was deleted and made again: that is another workspace
                managed.keeper = None
            if managed.keeper is None:
                on_failure = partial(_log_failure, managed.name)
                managed.keeper = Keeper(workspace, managed.name, self._config, self._embedding, on_failure)
            managed.keeper.acquire()
            managed.problem, managed.watched = None, None
            self.watch(managed)
            log.info("workspace_adopted", root=str(managed.root))
            self._on_acquired(managed, managed.keeper)
        except Exception as error:  # noqa: BLE001 - one bad workspace does not stop the others
            problem = Problem.of(error)
            if managed.problem != problem:
                log.warning("workspace_refused", error=error)
            managed.problem = problem

    def _release(self, managed: ManagedWorkspace) -> None:
        """Close one that is no longer in the roster."""
        self.watcher.forget(managed.root)
        if managed.lock.acquire(timeout=_LOCK_SECONDS):  # else the thread that acquires it now releases it
            try:
                if managed.keeper is not None:
                    managed.keeper.release()
            finally:
                managed.lock.release()
        logs.get(workspace=managed.name).info("workspace_released")


def _log_failure(name: str, what: str, error: Exception) -> None:
    logs.get(workspace=name).error(f"{what}_failed", error=error)


def _has_notes(root: Path) -> bool:
    """Return whether notes wait in a workspace, which is then opened first."""
    workspace = workspace_at(root)
    return workspace is not None and WorkspaceFiles(workspace).appended_at() is not None
