"""Managed workspace: one thread that waits until something has changed, is due or was requested, and does it.

    its lock, then again and again:

    compare files ─> look: take in what is new ─> DREAM, PASS, SKIP, or WAIT
    a dream that was asked for ─────────────────────┘

A hanging disk blocks only its own workspace. A client that waits for a dream runs it in its own thread.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.per_dream import DreamSettings
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.engine.held import Facts, Held, is_copy_wanted
from daemon.engine.schedule import Action, Decision
from daemon.engine.work import Slots, Work
from daemon.observability import logs
from daemon.workspace.scan import Change, Watched
from daemon.workspace.status import Problem
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.errors import BusyError, FencedError, StoppedError
from state.stores.disk.places import keep_place
from state.stores.disk.stamp import Stamp
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.dream.run import Mode, Outcome

# How long a client waits for a workspace that another thread is opening or releasing.
_LOCK_SECONDS = 10.0
# Files are compared at least this often.
TICK_SECONDS = 30.0
# After activity files are compared this often at first, then at intervals of a thirtieth of the time since: every ten
# seconds after five minutes.
_LOOK_SECONDS = 2.0
_LONGER_BY = 30.0
_UNUSED_SECONDS = 60.0
# A look that takes longer is reported as hanging.
_HANGS_SECONDS = 20.0
# Opening takes milliseconds; one that takes longer hangs, and gives up its slot.
_OPENING_SECONDS = 5.0
# A burst of changes is taken in at most once a second, and consecutive actions are at least this far apart.
_BETWEEN_LOOKS_SECONDS = 1.0
_SHORTEST_REST_SECONDS = 0.05
# How soon a busy workspace is tried again, and the shortest time between passes for growing transcripts.
_AGAIN_SECONDS = 2.0


@dataclass(eq=False)
class Shared:
    """What all workspaces of a daemon share.

    `awake_since`: since when the daemon has been watching without a gap. `stopping` is set when it ends.
    """

    config: Callable[[], Config]
    embedding: Embedding
    opening: Callable[[Path], Workspace]
    work: Work
    stopping: threading.Event
    openings: Slots = field(default_factory=lambda: Slots(4, _OPENING_SECONDS))
    awake_since: datetime = field(default_factory=utc_now)


@dataclass(eq=False)
class ManagedWorkspace:
    """One workspace that the daemon keeps, with its thread. Public methods except `step` are thread-safe.

    `row`: the stamp of its place when that was read. `facts` and `next` are from the last look, and `facts_of` is the
    `moment` of the facts; `changes` have not been taken in yet; `look_started` is set during a look, and `used` is
    when it was last used (both monotonic).
    """

    name: str
    root: Path
    shared: Shared
    row: Stamp | None = None
    held: Held | None = None
    problem: Problem | None = None
    facts: Facts | None = None
    facts_of: tuple[int, int] = (-1, -1)
    next: Decision | None = None
    look_started: float | None = None
    used: float = field(default_factory=time.monotonic)
    is_wanted: bool = True  # a look is wanted
    is_gone: bool = False  # it is not kept any longer
    changed: int = 0  # how many times
    changes: set[Change] = field(default_factory=set)
    asked: list[Reason] = field(default_factory=list)  # requested dreams that no client waits for
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while acquiring or releasing
    woken: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.watched = Watched(self.root)

    # ------------------------------------------------------------ state

    @property
    def moment(self) -> tuple[int, int]:
        """A value that changes whenever the facts may have changed, apart from the passage of time."""
        return (self.changed, self.held.written if self.held is not None else 0)

    @property
    def pulse(self) -> str:
        """A text that changes whenever something shown to a person may have changed."""
        held = self.held
        at_work = (held.dreaming, held.offline_reason) if held is not None else ()
        return f"{self.name} {self.moment} {at_work} {self.problem} {self.next}"

    @property
    def hanging(self) -> Problem | None:
        """The problem that a look is hanging, as anything else that touches this folder would; else None."""
        started = self.look_started
        if started is None or time.monotonic() - started < _HANGS_SECONDS:
            return None
        return Problem(
            f"{self.root} has not answered for {time.monotonic() - started:.0f} s",
            "look at the disk that it is on; when it answers, all goes on by itself",
        )

    @property
    def holds_lock(self) -> bool:
        """Return whether this daemon holds the workspace's lock."""
        return self.held is not None and self.held.holds_lock

    @property
    def is_dreaming(self) -> bool:
        """Return whether one of its dreams is running, in any thread."""
        return self.held is not None and bool(self.held.dreaming)

    @property
    def is_kept(self) -> bool:
        """Return whether it is open: the lock is held, and interrupted work is recovered."""
        return self.holds_lock and not self.lock.locked()

    # ------------------------------------------------------------ the lock

    def acquire(self) -> bool:
        """Try to take the workspace's lock and open it; a failure becomes its `problem` and is not raised.

        Return False if another thread has been trying for ten seconds and still is, perhaps on a hanging disk.
        """
        if not self.lock.acquire(timeout=_LOCK_SECONDS):
            return False
        try:
            offline = self.held is not None and self.held.offline_reason
            if not (self.holds_lock or offline or self.is_gone or self.shared.stopping.is_set()):
                self._acquire_now()
            if self.held is not None and self.is_gone:
                self.held.release()  # removed meanwhile
        finally:
            self.lock.release()
        return True

    def _acquire_now(self) -> None:
        log, config = logs.get(workspace=self.name), self.shared.config
        try:
            workspace = self.shared.opening(self.root)
            if workspace.name != self.name:
                self._give_way(workspace)
                return
            if self.held is None:
                self.held = Held(workspace, config, self.shared.embedding, self.shared.awake_since)
            self.held.acquire()
            self.watched.look(config().sources.transcripts)  # report changes from now on
            self.problem, self.facts, self.next = None, None, None
            log.info("workspace_adopted", root=str(self.root))
        except Exception as error:  # noqa: BLE001 - one bad workspace does not stop the others
            problem = Problem.of(error)
            if self.problem != problem:
                log.warning("workspace_refused", error=error)
            self.problem = problem

    def _give_way(self, other: Workspace) -> None:
        """Be kept no longer, as the folder was deleted and made again: it has another memory now."""
        if self.held is not None:
            self.held.release()
        keep_place(other.state.parent, self.name, kept=False)
        self.problem = Problem(f"{self.root} has another memory now, {other.name}")

    def leave(self) -> None:
        """Close it and end its thread, as it is not kept any longer."""
        self.is_gone = True
        self.wake()
        if self.lock.acquire(timeout=_LOCK_SECONDS):  # else the thread that is acquiring it releases it
            try:
                if self.held is not None:
                    self.held.release()
            finally:
                self.lock.release()
        logs.get(workspace=self.name).info("workspace_released")

    # ------------------------------------------------------------ requests

    def watch_anew(self, since: datetime) -> None:
        """Look now, and count as watched since this moment, as the machine slept before or its clock was set."""
        if self.held is not None:
            self.held.awake_since = since
        self.wake()

    def wake(self) -> None:
        """Make its thread look now."""
        self.is_wanted = True
        self.woken.set()

    def mark_changed(self, change: Change) -> None:
        """Remember the change until it is taken in."""
        self.changes.add(change)
        self.changed += 1
        self.used = time.monotonic()

    def use(self) -> None:
        """Record a use; a workspace that was idle for long is looked at."""
        before, self.used = self.used, time.monotonic()
        if self.used - before > _UNUSED_SECONDS:
            self.wake()

    def note_taken(self) -> None:
        """Make its thread take in a new note at once."""
        self.mark_changed(Change.SCRATCH)
        self.wake()

    def ask(self, reason: Reason) -> None:
        """Request a dream; at most one per reason is queued."""
        if reason not in self.asked:
            self.asked.append(reason)
        self.wake()

    def dream(
        self,
        reason: Reason,
        mode: "Mode",
        on_step: Callable[[Step], None] | None = None,
        settings: DreamSettings | None = None,
    ) -> "Outcome":
        """Run a dream in this thread. Raise as `Work.dream`."""
        self.next, held = None, self.held
        assert held is not None, "it was opened"
        try:
            return self.shared.work.dream(held, reason, mode, on_step, settings)
        finally:
            self.wake()

    # ------------------------------------------------------------ the thread

    def begin(self) -> None:
        """Start its thread unless it has one; if that fails, the next call tries again."""
        if self.thread is None and not self.shared.stopping.is_set():
            thread = threading.Thread(target=self._keep, name=self.name, daemon=True)
            with suppress(RuntimeError):  # no more threads are possible now
                thread.start()
                self.thread = thread

    def _keep(self) -> None:
        """Run steps for as long as the workspace is kept."""
        while not (self.shared.stopping.is_set() or self.is_gone):
            try:
                seconds = self.step()
            except Exception as error:  # noqa: BLE001 - it shows in the status, and once in the log
                problem, seconds = Problem.of(error), TICK_SECONDS
                if self.problem != problem:
                    logs.get(workspace=self.name).error("look_failed", error=error)
                self.problem, self.next = problem, None
            self._rest(max(seconds, _SHORTEST_REST_SECONDS))

    def _rest(self, seconds: float) -> None:
        """Wait this long, or until woken, but at least until a second after the last look."""
        began = time.monotonic()
        while not (self.shared.stopping.is_set() or self.is_gone or self._has_wish):
            until = min(seconds, _BETWEEN_LOOKS_SECONDS) if self.is_wanted else seconds
            if (left := began + until - time.monotonic()) <= 0:
                return
            self.woken.wait(left)
            self.woken.clear()

    @property
    def _has_wish(self) -> bool:
        """Return whether a requested dream can start now."""
        return bool(self.asked) and self.holds_lock and not self.is_dreaming

    def step(self) -> float:
        """Do what is due next; return the seconds until the next step."""
        if self.is_dreaming:  # in a client's thread
            return _AGAIN_SECONDS
        if self._has_wish:
            self._dream(self.asked.pop(0))
            return 0.0
        decision, held = self._look(utc_now()), self.held
        if decision is None or held is None:  # not available; `problem` says why
            return TICK_SECONDS
        self.problem = None
        if decision.action not in (Action.DREAM, Action.PASS):
            return self._until_next(decision, utc_now())
        self.next = None
        try:
            self.shared.work.do(held, decision)
        except (BusyError, FencedError, StoppedError):
            if decision.action is Action.PASS:
                self.changes.add(Change.TRANSCRIPT)  # the pass may have been for it
            return _AGAIN_SECONDS
        except Exception:  # noqa: BLE001, S110 - it is logged, told in the status, and the schedule decides when to retry
            pass
        return 0.0

    def _until_next(self, decision: Decision, now: datetime) -> float:
        """Return the seconds until something is due or files should be compared."""
        most = min(TICK_SECONDS, max(_LOOK_SECONDS, (time.monotonic() - self.used) / _LONGER_BY))
        sessions = self.facts.sessions_due if self.facts is not None else None
        return min(most, *((at - now).total_seconds() for at in (sessions, decision.at) if at is not None))

    def _dream(self, reason: Reason) -> None:
        from daemon.dream.run import Mode  # late, as in `Work`

        with suppress(Exception):  # it is logged, and the schedule decides when to retry
            self.dream(reason, Mode.AUTO)

    def _look(self, now: datetime) -> Decision | None:
        """Take in new notes and return what to do; None if the workspace is not available."""
        self.is_wanted = False
        self.look_started = time.monotonic()
        try:
            if (held := self._owned()) is None:
                self.next = None
                return None
            for change in self.watched.look(self.shared.config().sources.transcripts):
                self.mark_changed(change)
            held.close_idle()
            if self.next is None or not self._is_at_rest(now):
                self.next = self._decide(held, now)
        except BusyError:  # released for an examination or repair; the next look acquires it
            self.next = None
        finally:
            self.look_started = None
        return self.next

    def _owned(self) -> Held | None:
        """Return the workspace, taken if it was free; None if it is not ours. Raise FencedError if it was lost."""
        held = self.held
        if held is not None and held.offline_reason:
            return None
        if held is not None and not os.path.isdir(held.workspace.state):  # noqa: PTH112 - Path.is_dir may raise here
            held.release()
        if not self.holds_lock:
            self.look_started = None  # waiting for a slot is not hanging
            with self.shared.openings.turn(self.shared.stopping.is_set):
                self.look_started = time.monotonic()
                self.acquire()
        held = self.held
        return held if held is not None and held.check_lock() else None

    def _is_at_rest(self, now: datetime) -> bool:
        """Tell whether nothing is due before the time foreseen at the last look, so that no store need be opened."""
        facts, foreseen = self.facts, self.next
        if facts is None or foreseen is None or self.changes or self.facts_of != self.moment:
            return False
        is_due = facts.sessions_due is not None and facts.sessions_due <= now
        return foreseen.action is Action.WAIT and now < foreseen.at and not is_due

    def _decide(self, held: Held, now: datetime) -> Decision:
        """Have what is new taken in, and return what to do: a pass also for a grown transcript or a missing copy."""
        moment, changes = self.moment, set[Change]()
        while self.changes:  # a concurrent change is in this set or the next
            changes.add(self.changes.pop())
        held.changed |= bool(changes)
        try:
            facts, decision = self.shared.work.look(held, notes_came=Change.SCRATCH in changes)
        except BaseException:
            self.changes |= changes
            raise
        assert decision is not None, "an end of the interval is always foreseen"
        self.facts, self.facts_of = facts, moment
        if decision.action is Action.WAIT and Change.TRANSCRIPT in changes:
            last = held.last_pass
            if last is None or abs(now - last) > timedelta(seconds=_AGAIN_SECONDS):
                return Decision(Action.PASS, None, "a transcript was written", now)
            self.changes.add(Change.TRANSCRIPT)
        if decision.action is Action.WAIT and is_copy_wanted(held, now):
            return Decision(Action.PASS, None, "state.db was not copied for a day", now)
        return decision
