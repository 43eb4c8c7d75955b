"""Roster: the workspaces that the daemon keeps: which, whether each could be taken, and what is known of it.

registry, configuration ─> look_up ─> ManagedWorkspace ─> acquire (its lock)
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.registry import Entry, WorkspaceList, name_of
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.observability import logs
from daemon.service.facts import Facts
from daemon.service.keeper import Keeper
from daemon.workspace.scan import Change, Watched
from daemon.workspace.status import Problem
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.errors import NotKeptError, UnknownWorkspaceError, UsageError
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.service.schedule import Decision

# How long a client waits for a workspace that another thread is opening or releasing, or that is yet to be looked up.
_LOCK_SECONDS = 10.0
# How long a start or a reload waits for the folders of all entries to be looked up: what is on a disk that hangs is
# taken up when it answers, and holds up nothing.
_LOOK_UP_SECONDS = 1.0
_UNUSED_SECONDS = 60.0
# A look that lasts longer is reported as hanging.
_HANGS_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Wish:
    """A dream that is asked for; `on_step`: by a client who waits for it."""

    reason: Reason
    mode: Mode
    on_step: Callable[[Step], None] | None = None
    outcome: "Future[Outcome]" = field(default_factory=Future)


@dataclass(eq=False)
class ManagedWorkspace:
    """One workspace of the roster. What its thread of the scheduler does in it is remembered here.

    `facts` and `next` are of the last look, and `facts_of` is the `moment` of the facts; `changes` were not taken in
    yet; `look_started` is set while a look runs, and `used` when anybody last did anything there (both monotonic).
    """

    name: str
    root: Path
    keeper: Keeper | None = None
    problem: Problem | None = None
    facts: Facts | None = None
    facts_of: tuple[int, int] = (-1, -1)
    next: "Decision | None" = None
    look_started: float | None = None
    used: float = field(default_factory=time.monotonic)
    is_wanted: bool = True  # to be looked at
    changed: int = 0  # so many times
    changes: set[Change] = field(default_factory=set)
    asked: deque[Wish] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)  # of whoever acquires or releases it
    woken: threading.Event = field(default_factory=threading.Event)  # its thread

    def __post_init__(self) -> None:
        self.watched = Watched(self.root)

    def mark_changed(self, change: Change) -> None:
        """Remember the change until it is taken in."""
        self.changes.add(change)
        self.changed += 1
        self.used = time.monotonic()

    def use(self) -> bool:
        """Note that somebody is there; tell whether nobody was for a while."""
        before, self.used = self.used, time.monotonic()
        return self.used - before > _UNUSED_SECONDS

    def take_changes(self) -> set[Change]:
        """Return the changes since the last call; one that comes meanwhile is in this set or in the next."""
        changes = set[Change]()
        while self.changes:
            changes.add(self.changes.pop())
        return changes

    @property
    def is_awaited(self) -> bool:
        """Whether a client waits for a dream of it."""
        return any(one.on_step is not None for one in self.asked.copy())

    @property
    def moment(self) -> tuple[int, int]:
        """Another value whenever facts may be others than they were, but for the time."""
        return (self.changed, self.keeper.written if self.keeper is not None else 0)

    @property
    def pulse(self) -> str:
        """Another text whenever something that a person is shown of it may have changed."""
        keeper = self.keeper
        at_work = (keeper.dreaming, keeper.offline_reason) if keeper is not None else ()
        return f"{self.name} {self.moment} {at_work} {self.problem} {self.next}"

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
        """Whether it has been taken: the lock is held, and what was interrupted in it is recovered."""
        return self.holds_lock and not self.lock.locked()


class Roster:
    """All workspaces to keep, by name. Any thread may call; a disk that hangs delays only its own workspace.

    `on_change` is called when there are others, with the one that is kept no more.
    """

    def __init__(
        self,
        listing: WorkspaceList,
        config: Callable[[], Config],
        embedding: Embedding,
        open_workspace: Callable[[Path], Workspace],
        stopping: threading.Event,
        on_change: Callable[[ManagedWorkspace | None], None],
    ) -> None:
        self._listing = listing
        self._config = config
        self._embedding = embedding
        self._open_workspace = open_workspace
        self._stopping = stopping
        self._on_change = on_change
        self._looked_up = threading.Event()  # all entries, but those on a disk that does not answer in a second
        self._lock = threading.Lock()  # of `_listing` and `_managed`; no workspace's folder is touched under it
        self._managed: dict[str, ManagedWorkspace] = {}

    @property
    def is_ready(self) -> bool:
        """Whether all that were listed at the start were looked up, or are on a disk that hangs."""
        return self._looked_up.is_set()

    def all(self) -> list[ManagedWorkspace]:
        """Return all of them, by name."""
        return [managed for _, managed in sorted(self._managed.copy().items())]

    def find(self, name: str) -> ManagedWorkspace | None:
        """Return the workspace of this name, if there is one."""
        return self._managed.get(name)

    def has(self, managed: ManagedWorkspace) -> bool:
        """Tell whether this one is in the roster."""
        return self._managed.get(managed.name) is managed

    def get(self, name: str) -> ManagedWorkspace:
        """Return the workspace of this name; while entries are looked up, wait for it.

        Raise UnknownWorkspaceError, or NotKeptError when the daemon has not looked them up in ten seconds.
        """
        if name not in self._managed and not self._looked_up.wait(_LOCK_SECONDS):
            raise NotKeptError("the daemon is starting: it looks up its workspaces", "try again")
        if (managed := self._managed.get(name)) is None:
            known = ", ".join(sorted(self._managed)) or "none yet"
            what = f"the daemon keeps no workspace {name!r} (it keeps {known})"
            raise UnknownWorkspaceError(what, "'dreamd init' adds one")
        return managed

    def problems(self) -> list[Problem]:
        """Return what is wrong with entries."""
        return [Problem.of(error) for error in self._listing.problems()]

    def look_up_all(self) -> None:
        """Read all entries anew and look up what each names, in a thread of its own; wait for disks that answer."""
        with self._lock:
            entries = self._listing.read(self._config().daemon.workspaces)
        threads = [threading.Thread(target=self._look_up, args=(entry,), daemon=True) for entry in entries]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + _LOOK_UP_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._looked_up.set()

    def _look_up(self, entry: Entry) -> None:
        """Put what the entry names into the roster, and take out what no entry names any longer."""
        try:
            named = self._listing.look_up(entry)
            with self._lock:
                for root in self._listing.record(entry, named):
                    self._put(root)
                by_root = {managed.root: managed for managed in self.all()}
                gone = [self._managed.pop(by_root[root].name) for root in self._listing.unlisted(by_root)]
            for managed in gone:
                self._release(managed)
        except Exception as error:  # noqa: BLE001 - it holds up no other
            logs.get(workspace=entry.text).error("entry_not_looked_up", error=error)
        self._on_change(None)

    def add(self, workspace: Workspace) -> ManagedWorkspace:
        """Keep the workspace from now on, also after a restart. Raise UsageError when its name is taken."""
        with self._lock:
            managed = self._put(workspace.root, self._listing.add)
        self.acquire(managed)
        self._on_change(None)
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
            if not (managed.holds_lock or offline or self._stopping.is_set()) and self.has(managed):
                self._acquire_now(managed)
            if managed.keeper is not None and not self.has(managed):
                managed.keeper.release()  # removed meanwhile
        finally:
            managed.lock.release()
        return True

    def _put(self, root: Path, record: Callable[[Path], None] = lambda _: None) -> ManagedWorkspace:
        """Return the one with this root, or a new one. Raise UsageError if a workspace elsewhere has its name."""
        name = name_of(root)
        managed = self._managed.get(name) or ManagedWorkspace(name, root)
        if managed.root != root:
            what = f"{root} would be called {name}, as {managed.root} is already"
            raise UsageError(what, "rename one of the folders")
        record(root)
        self._managed[name] = managed
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
            managed.watched.look(self._config().sources.transcripts)  # what changes from now on is told
            managed.problem, managed.facts, managed.next = None, None, None
            log.info("workspace_adopted", root=str(managed.root))
        except Exception as error:  # noqa: BLE001 - one bad workspace does not stop the others
            problem = Problem.of(error)
            if managed.problem != problem:
                log.warning("workspace_refused", error=error)
            managed.problem = problem

    def _release(self, managed: ManagedWorkspace) -> None:
        """Close one that is no longer in the roster."""
        self._on_change(managed)
        if managed.lock.acquire(timeout=_LOCK_SECONDS):  # else the thread that acquires it now releases it
            try:
                if managed.keeper is not None:
                    managed.keeper.release()
            finally:
                managed.lock.release()
        logs.get(workspace=managed.name).info("workspace_released")


def _log_failure(name: str, what: str, error: Exception) -> None:
    logs.get(workspace=name).error(f"{what}_failed", error=error)
