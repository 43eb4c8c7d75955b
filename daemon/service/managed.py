"""Managed workspace: one thread that waits until something has changed, is due or was requested, and does it.

    its lock, then again and again:

    look: compare files, take in what is new ─> due(now, history, pending) ─> DREAM, PASS, SKIP, or WAIT
    a dream that was asked for ────────────────────────────────────────────────────┘

Nothing runs twice in one workspace, and a hanging disk blocks only its own workspace. A client that waits for a dream
runs it in its own thread.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.per_dream import DreamSettings
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.ingest.notes import absorb_notes
from daemon.observability import logs
from daemon.service.jobs import Jobs
from daemon.service.keeper import Facts, Keeper, is_copy_wanted, read_facts
from daemon.service.schedule import Action, Decision, Thresholds, due, phase
from daemon.sessions import next_due
from daemon.workspace.scan import Change, Watched
from daemon.workspace.searching import embed_new
from daemon.workspace.status import Problem
from daemon.workspace.stores import Store, utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.errors import BusyError, DreamdError, FencedError, StoppedError
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.dream.run import Mode, Outcome

# How long a client waits for a workspace that another thread is opening or releasing.
LOCK_SECONDS = 10.0
# Files are compared at least this often.
TICK_SECONDS = 30.0
# After activity files are compared this often at first, then at intervals of a thirtieth of the time since: every ten
# seconds after five minutes.
_LOOK_SECONDS = 2.0
_LONGER_BY = 30.0
_UNUSED_SECONDS = 60.0
# A look that takes longer is reported as hanging.
_HANGS_SECONDS = 20.0
# A job that takes longer counts as hanging and gives up its slot. Opening takes milliseconds, a pass seconds, and the
# timeouts of models are shorter than this limit for dreams.
_OPENING_SECONDS = 5.0
_PASS_SECONDS = 120.0
_DREAM_SECONDS = 3_600.0
_SLOT_SECONDS = 0.5
# A burst of changes is taken in at most once a second, and consecutive actions are at least this far apart.
_BETWEEN_LOOKS_SECONDS = 1.0
_SHORTEST_REST_SECONDS = 0.05
# How soon a busy workspace is tried again, and the shortest time between passes for growing transcripts.
_AGAIN_SECONDS = 2.0


class Slots:
    """Lets at most `size` long jobs run at once, those that a client awaits first. Thread-safe.

    A job that takes longer than `patience` seconds no longer counts; it hangs, perhaps on a disk.
    """

    def __init__(self, size: int, patience: float) -> None:
        self.size = size
        self._patience = patience
        self._moved = threading.Condition()
        self._queues: tuple[list[object], list[object]] = [], []  # awaited by a client, and others
        self._since: dict[object, float] = {}  # when each got its slot

    @property
    def running(self) -> int:
        """Return how many jobs have a slot."""
        return len(self._since)

    @property
    def waiting(self) -> int:
        """Return how many jobs wait for a slot."""
        return sum(map(len, self._queues))

    @contextmanager
    def turn(self, gives_up: Callable[[], bool], *, is_awaited: bool = False) -> Iterator[bool]:
        """Wait for a slot and hold it during the context; yield False, without a slot, if `gives_up` first."""
        one, queue = object(), self._queues[not is_awaited]
        with self._moved:
            queue.append(one)
            while not (has_slot := self._is_next(one)) and not gives_up():
                self._moved.wait(_SLOT_SECONDS)
            queue.remove(one)
            if has_slot:
                self._since[one] = time.monotonic()
            self._moved.notify_all()
        try:
            yield has_slot
        finally:
            with self._moved:
                self._since.pop(one, None)
                self._moved.notify_all()

    def _is_next(self, one: object) -> bool:
        now, (awaited, others) = time.monotonic(), self._queues
        busy = sum(now - since < self._patience for since in self._since.values())
        return busy < self.size and (awaited or others)[0] is one


@dataclass(eq=False)
class Shared:
    """What all workspaces of a daemon share: configuration, embedding model, jobs and slots.

    `awake_since`: since when the daemon has been watching without a gap. `stopping` is set when it ends.
    """

    config: Callable[[], Config]
    embedding: Embedding
    opening: Callable[[Path], Workspace]
    jobs: Jobs
    stopping: threading.Event
    awake_since: datetime = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        self.dreams = Slots(self.config().daemon.concurrent_dreams, _DREAM_SECONDS)
        self.passes = Slots(1, _PASS_SECONDS)
        self.openings = Slots(4, _OPENING_SECONDS)


@dataclass(eq=False)
class ManagedWorkspace:
    """One workspace of the roster, with its thread. Public methods except `step` are thread-safe.

    `facts` and `next` are from the last look, and `facts_of` is the `moment` of the facts; `changes` have not been
    taken in yet; `look_started` is set during a look, and `used` is when it was last used (both monotonic).
    """

    name: str
    root: Path
    shared: Shared
    keeper: Keeper | None = None
    problem: Problem | None = None
    facts: Facts | None = None
    facts_of: tuple[int, int] = (-1, -1)
    next: Decision | None = None
    look_started: float | None = None
    used: float = field(default_factory=time.monotonic)
    maintain_after: float = 0.0  # monotonic; in the future after session maintenance has failed
    is_wanted: bool = True  # a look is wanted
    is_gone: bool = False  # removed from the roster
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
        return (self.changed, self.keeper.written if self.keeper is not None else 0)

    @property
    def pulse(self) -> str:
        """A text that changes whenever something shown to a person may have changed."""
        keeper = self.keeper
        at_work = (keeper.dreaming, keeper.offline_reason) if keeper is not None else ()
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
        return self.keeper is not None and self.keeper.holds_lock

    @property
    def is_dreaming(self) -> bool:
        """Return whether one of its dreams is running, in any thread."""
        return self.keeper is not None and bool(self.keeper.dreaming)

    @property
    def is_kept(self) -> bool:
        """Return whether it is open: the lock is held, and interrupted work is recovered."""
        return self.holds_lock and not self.lock.locked()

    # ------------------------------------------------------------ the lock

    def acquire(self) -> bool:
        """Try to take the workspace's lock and open it; a failure becomes its `problem` and is not raised.

        Return False if another thread has been trying for ten seconds and still is, perhaps on a hanging disk.
        """
        if not self.lock.acquire(timeout=LOCK_SECONDS):
            return False
        try:
            offline = self.keeper is not None and self.keeper.offline_reason
            if not (self.holds_lock or offline or self.is_gone or self.shared.stopping.is_set()):
                self._acquire_now()
            if self.keeper is not None and self.is_gone:
                self.keeper.release()  # removed meanwhile
        finally:
            self.lock.release()
        return True

    def _acquire_now(self) -> None:
        log, config = logs.get(workspace=self.name), self.shared.config
        try:
            workspace = self.shared.opening(self.root)
            if self.keeper is not None and self.keeper.workspace != workspace:
                self.keeper.release()  # the folder was deleted and created again, so it is another workspace
                self.keeper = None
            if self.keeper is None:
                self.keeper = Keeper(workspace, self.name, config, self.shared.embedding)
            self.keeper.acquire()
            self.watched.look(config().sources.transcripts)  # report changes from now on
            self.problem, self.facts, self.next = None, None, None
            log.info("workspace_adopted", root=str(self.root))
        except Exception as error:  # noqa: BLE001 - one bad workspace does not stop the others
            problem = Problem.of(error)
            if self.problem != problem:
                log.warning("workspace_refused", error=error)
            self.problem = problem

    def leave(self) -> None:
        """Close it and end its thread, because it left the roster."""
        self.is_gone = True
        self.wake()
        if self.lock.acquire(timeout=LOCK_SECONDS):  # else the thread that is acquiring it releases it
            try:
                if self.keeper is not None:
                    self.keeper.release()
            finally:
                self.lock.release()
        logs.get(workspace=self.name).info("workspace_released")

    # ------------------------------------------------------------ requests

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
        """Run a dream in this thread once there is a slot; with `on_step`, ahead of those that no client awaits.

        Raise BusyError while another of its dreams is running, and StoppedError if the daemon stops first.
        """
        with self.shared.dreams.turn(self.shared.stopping.is_set, is_awaited=on_step is not None) as has_slot:
            if not has_slot or (keeper := self.keeper) is None:
                raise StoppedError("the daemon is stopping", "what was asked for waits for its next start")
            keeper.require_awake()
            self.next = None
            try:
                return self.shared.jobs.dream(keeper, reason, mode, on_step or _ignore, settings)
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
        """Run steps for as long as the workspace is in the roster."""
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
        decision, keeper = self._look(utc_now()), self.keeper
        if decision is None or keeper is None:  # not available; `problem` says why
            return TICK_SECONDS
        self.problem = None
        if decision.action is Action.DREAM:
            reason = decision.reason or Reason.INTERVAL
            logs.get(workspace=self.name).info("dream_due", reason=str(reason), why=decision.detail)
            self._dream(reason)
            return 0.0
        if decision.action is Action.PASS:
            return 0.0 if self._pass(keeper, decision.reason) else _AGAIN_SECONDS
        return self._until_next(decision, utc_now())

    def _until_next(self, decision: Decision, now: datetime) -> float:
        """Return the seconds until something is due or files should be compared."""
        most = min(TICK_SECONDS, max(_LOOK_SECONDS, (time.monotonic() - self.used) / _LONGER_BY))
        sessions = self.facts.sessions_due if self.facts is not None else None
        return min(most, *((at - now).total_seconds() for at in (sessions, decision.at) if at is not None))

    def _dream(self, reason: Reason) -> None:
        from daemon.dream.run import Mode  # late, as in `Jobs`

        with suppress(Exception):  # it is logged, and the schedule decides when to retry
            self.dream(reason, Mode.AUTO)

    def _pass(self, keeper: Keeper, reason: Reason | None) -> bool:
        """Run a consolidation pass; return False if it must be retried."""
        with self.shared.passes.turn(self.shared.stopping.is_set) as has_slot:
            if not has_slot:
                return False
            try:
                self.shared.jobs.consolidate(keeper, reason, utc_now())
            except (BusyError, FencedError):
                self.changes.add(Change.TRANSCRIPT)  # the pass may have been for it
                return False
            except Exception:  # noqa: BLE001, S110 - it was logged, and is told in the status
                pass
        return True

    def _look(self, now: datetime) -> Decision | None:
        """Take in new notes and return what to do; None if the workspace is not available."""
        self.is_wanted = False
        is_new = not self.holds_lock or self.facts is None
        self.look_started = time.monotonic()
        try:
            if (keeper := self._owned()) is None:
                self.next = None
                return None
            for change in self.watched.look(self.shared.config().sources.transcripts):
                self.mark_changed(change)
            keeper.close_idle()
            if is_new or self.next is None or not self._is_at_rest(now):
                self.next = self._decide(keeper, now, is_new=is_new)
        except BusyError:  # released for an examination or repair; the next look acquires it
            self.next = None
        finally:
            self.look_started = None
        return self.next

    def _owned(self) -> Keeper | None:
        """Return the keeper if the workspace is ours or was free, else None. Raise FencedError if it was lost."""
        keeper = self.keeper
        if keeper is not None and keeper.offline_reason:
            return None
        if keeper is not None and not os.path.isdir(keeper.workspace.state):  # noqa: PTH112 - Path.is_dir may raise here
            keeper.release()
        if not self.holds_lock:
            self.look_started = None  # waiting for a slot is not hanging
            with self.shared.openings.turn(self.shared.stopping.is_set):
                self.look_started = time.monotonic()
                self.acquire()
        keeper = self.keeper
        return keeper if keeper is not None and keeper.check_lock() else None

    def _is_at_rest(self, now: datetime) -> bool:
        """Tell whether nothing is due before the time foreseen at the last look, so that no store need be opened."""
        facts, foreseen = self.facts, self.next
        if facts is None or foreseen is None or self.changes or self.facts_of != self.moment:
            return False
        is_due = facts.sessions_due is not None and facts.sessions_due <= now
        return foreseen.action is Action.WAIT and now < foreseen.at and not is_due

    def _decide(self, keeper: Keeper, now: datetime, *, is_new: bool) -> Decision:
        """Take in notes, so that searches find them at once, do due session maintenance, and decide."""
        moment, changes = self.moment, set[Change]()
        while self.changes:  # a concurrent change is in this set or the next
            changes.add(self.changes.pop())
        keeper.changed |= bool(changes)
        try:
            with keeper.store() as store:
                self._maintain(keeper, store, now)
                if Change.SCRATCH in changes:
                    absorb_notes(store, utc_now())
                embed_new(store)
                facts = read_facts(store, keeper, self.shared.awake_since, phase(str(self.root)), now)
                now = utc_now()  # so that notes appended during the read are not in the future
                decision = due(now, facts.history, facts.pending, Thresholds.of(self.shared.config()))
                if is_new and facts.unfinished_dream:
                    decision = Decision(Action.DREAM, Reason.CATCH_UP, "it was interrupted", now)
                if facts.sessions_due is not None and facts.sessions_due <= now:  # maintenance has just failed
                    facts = replace(facts, sessions_due=now + timedelta(seconds=TICK_SECONDS))
                if decision.action is Action.SKIP:
                    self.shared.jobs.skip(
                        keeper, store.ledger, decision.reason or Reason.INTERVAL, decision.detail, now
                    )
        except BaseException:
            self.changes |= changes
            raise
        self.facts, self.facts_of = facts, moment
        if decision.action is Action.WAIT and Change.TRANSCRIPT in changes:
            last = keeper.last_pass
            if last is None or abs(now - last) > timedelta(seconds=_AGAIN_SECONDS):
                return Decision(Action.PASS, None, "a transcript was written", now)
            self.changes.add(Change.TRANSCRIPT)
        if decision.action is Action.WAIT and is_copy_wanted(keeper, now):
            return Decision(Action.PASS, None, "state.db was not copied for a day", now)
        return decision

    def _maintain(self, keeper: Keeper, store: Store, now: datetime) -> None:
        """Do due session maintenance; after a failure, report it and retry after a while."""
        if time.monotonic() < self.maintain_after:
            return
        try:
            if (at := next_due(store.connection, now)) is not None and at <= now:
                self.shared.jobs.maintain(keeper, store, now)
        except (sqlite3.Error, DreamdError) as error:
            self.maintain_after = time.monotonic() + TICK_SECONDS
            logs.get(workspace=self.name).error("sessions_not_maintained", error=error)


def _ignore(_: Step) -> None:
    pass
