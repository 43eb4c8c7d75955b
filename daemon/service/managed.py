"""Managed: a workspace that the daemon keeps, and what its thread remembers of it."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.service.facts import Facts
from daemon.service.keeper import Keeper
from daemon.workspace.scan import Change, Watched
from daemon.workspace.status import Problem
from state.dream import Reason

if TYPE_CHECKING:
    from daemon.service.schedule import Decision

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
    maintain_after: float = 0.0  # monotonic; later than now where it has just failed in its sessions
    is_wanted: bool = True  # to be looked at
    changed: int = 0  # so many times
    changes: set[Change] = field(default_factory=set)
    asked: deque[Wish] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)  # of whoever acquires or releases it
    woken: threading.Event = field(default_factory=threading.Event)  # its thread
    thread: threading.Thread | None = None

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
