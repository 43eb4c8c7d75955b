"""Managed workspace: one thread waits until something changed, is due or was asked for, and does it.

    its lock, then again and again:

    look: files compared, what is new taken in ─> due(now, history, pending) ─> DREAM, PASS, SKIP, or WAIT
    a dream that was asked for ────────────────────────────────────────────────────┘

Nothing of one workspace runs twice, and a disk that hangs holds up that workspace alone. A client who waits for a
dream dreams in its own thread.
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

from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.ingest.notes import absorb_notes
from daemon.observability import logs
from daemon.service.jobs import Jobs
from daemon.service.keeper import Facts, Keeper, is_copy_wanted, read_facts
from daemon.service.schedule import Action, Decision, Thresholds, due, phase
from daemon.sessions import next_due
from daemon.workspace.scan import Change, Watched
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
# Files are compared so often at least.
TICK_SECONDS = 30.0
# Where something was done a moment ago they are compared so often, and a thirtieth as often as it is past: every ten
# seconds after five minutes.
_LOOK_SECONDS = 2.0
_LONGER_BY = 30.0
_UNUSED_SECONDS = 60.0
# A look that lasts longer is reported as hanging.
_HANGS_SECONDS = 20.0
# Past these a job is taken to hang and holds no slot: a workspace is opened in milliseconds, a pass ends after
# seconds, and no model is waited for so long as a dream may last.
_OPENING_SECONDS = 5.0
_PASS_SECONDS = 120.0
_DREAM_SECONDS = 3_600.0
_SLOT_SECONDS = 0.5
# A burst of changes is taken in once a second at most, and no thing follows another one more closely than this.
_BETWEEN_LOOKS_SECONDS = 1.0
_SHORTEST_REST_SECONDS = 0.05
# What met somebody at work is tried again; and for what is written to transcripts passes do not come faster.
_AGAIN_SECONDS = 2.0


class Slots:
    """At most `size` at once do what takes long, those first for which a client waits. Any thread may call.

    One that takes longer than `patience` seconds counts no more: it hangs, on a disk perhaps.
    """

    def __init__(self, size: int, patience: float) -> None:
        self.size = size
        self._patience = patience
        self._moved = threading.Condition()
        self._queues: tuple[list[object], list[object]] = [], []  # of those that a client awaits, and of others
        self._since: dict[object, float] = {}  # of each that has a slot

    @property
    def running(self) -> int:
        """Return how many have a slot."""
        return len(self._since)

    @property
    def waiting(self) -> int:
        """Return how many wait for one."""
        return sum(map(len, self._queues))

    @contextmanager
    def turn(self, gives_up: Callable[[], bool], *, is_awaited: bool = False) -> Iterator[bool]:
        """Wait for a slot and have it for the context; False, and none, if it gives up first."""
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
    """What all workspaces of a daemon share: configuration, model, jobs, and how many may do what at once.

    `awake_since`: since when the daemon watches without a gap. `stopping` is set when it ends.
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
    """One workspace of the roster, with its thread. Any thread may call what has no underscore, but `step`.

    `facts` and `next` are of the last look, and `facts_of` is the `moment` of the facts; `changes` were not taken in
    yet; `look_started` is set while a look runs, and `used` when anybody last did anything there (both monotonic).
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
    maintain_after: float = 0.0  # monotonic; later than now where it has just failed in its sessions
    is_wanted: bool = True  # to be looked at
    is_gone: bool = False  # out of the roster
    changed: int = 0  # so many times
    changes: set[Change] = field(default_factory=set)
    asked: list[Reason] = field(default_factory=list)  # for dreams that nobody waits for
    lock: threading.Lock = field(default_factory=threading.Lock)  # of whoever acquires or releases it
    woken: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.watched = Watched(self.root)

    # ------------------------------------------------------------ how it stands

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
        """Return whether this daemon holds the workspace's lock."""
        return self.keeper is not None and self.keeper.holds_lock

    @property
    def is_dreaming(self) -> bool:
        """Return whether a dream of it runs, in whatever thread."""
        return self.keeper is not None and bool(self.keeper.dreaming)

    @property
    def is_kept(self) -> bool:
        """Return whether it has been taken: the lock is held, and what was interrupted in it is recovered."""
        return self.holds_lock and not self.lock.locked()

    # ------------------------------------------------------------ its lock

    def acquire(self) -> bool:
        """Try to take the workspace's lock and open it; a failure becomes its problem and is not raised.

        False when another thread has been at that for ten seconds, and goes on: perhaps its disk hangs.
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
                self.keeper.release()  # the folder was deleted and made again: that is another workspace
                self.keeper = None
            if self.keeper is None:
                self.keeper = Keeper(workspace, self.name, config, self.shared.embedding)
            self.keeper.acquire()
            self.watched.look(config().sources.transcripts)  # what changes from now on is told
            self.problem, self.facts, self.next = None, None, None
            log.info("workspace_adopted", root=str(self.root))
        except Exception as error:  # noqa: BLE001 - one bad workspace does not stop the others
            problem = Problem.of(error)
            if self.problem != problem:
                log.warning("workspace_refused", error=error)
            self.problem = problem

    def leave(self) -> None:
        """Close it and end its thread: it is in the roster no longer."""
        self.is_gone = True
        self.wake()
        if self.lock.acquire(timeout=LOCK_SECONDS):  # else the thread that acquires it now releases it
            try:
                if self.keeper is not None:
                    self.keeper.release()
            finally:
                self.lock.release()
        logs.get(workspace=self.name).info("workspace_released")

    # ------------------------------------------------------------ what others want of it

    def wake(self) -> None:
        """Look at it now."""
        self.is_wanted = True
        self.woken.set()

    def mark_changed(self, change: Change) -> None:
        """Remember the change until it is taken in."""
        self.changes.add(change)
        self.changed += 1
        self.used = time.monotonic()

    def use(self) -> None:
        """Note that somebody is there: what has not been used for long is looked at."""
        before, self.used = self.used, time.monotonic()
        if self.used - before > _UNUSED_SECONDS:
            self.wake()

    def note_taken(self) -> None:
        """Take in a note that was just taken, at once."""
        self.mark_changed(Change.SCRATCH)
        self.wake()

    def ask(self, reason: Reason) -> None:
        """Have it dreamt soon; at most one dream for each reason waits."""
        if reason not in self.asked:
            self.asked.append(reason)
        self.wake()

    def dream(self, reason: Reason, mode: "Mode", on_step: Callable[[Step], None] | None = None) -> "Outcome":
        """Dream in this thread when there is a slot, with `on_step` before those that nobody waits for.

        Raise BusyError while another dream of it runs, and StoppedError when the daemon stops before.
        """
        with self.shared.dreams.turn(self.shared.stopping.is_set, is_awaited=on_step is not None) as has_slot:
            if not has_slot or (keeper := self.keeper) is None:
                raise StoppedError("the daemon is stopping", "what was asked for waits for its next start")
            keeper.require_awake()
            self.next = None
            try:
                return self.shared.jobs.dream(keeper, reason, mode, on_step or _ignore)
            finally:
                self.wake()

    # ------------------------------------------------------------ its thread

    def begin(self) -> None:
        """Start its thread, if it has none; one that cannot be started now is tried again by the next call."""
        if self.thread is None and not self.shared.stopping.is_set():
            thread = threading.Thread(target=self._keep, name=self.name, daemon=True)
            with suppress(RuntimeError):  # there can be no more now
                thread.start()
                self.thread = thread

    def _keep(self) -> None:
        """Look after the workspace for as long as it is in the roster."""
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
        """Wait so long, or until it is woken, for which a second has to be past since the last look."""
        began = time.monotonic()
        while not (self.shared.stopping.is_set() or self.is_gone or self._has_wish):
            until = min(seconds, _BETWEEN_LOOKS_SECONDS) if self.is_wanted else seconds
            if (left := began + until - time.monotonic()) <= 0:
                return
            self.woken.wait(left)
            self.woken.clear()

    @property
    def _has_wish(self) -> bool:
        """Return whether a dream was asked for that can begin now."""
        return bool(self.asked) and self.holds_lock and not self.is_dreaming

    def step(self) -> float:
        """Do the next thing, and return the seconds until there may be another one."""
        if self.is_dreaming:  # for a client
            return _AGAIN_SECONDS
        if self._has_wish:
            self._dream(self.asked.pop(0))
            return 0.0
        decision, keeper = self._look(utc_now()), self.keeper
        if decision is None or keeper is None:  # it is not to be had, which its problem says
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
        """Return the seconds until something is due, or files are to be compared."""
        most = min(TICK_SECONDS, max(_LOOK_SECONDS, (time.monotonic() - self.used) / _LONGER_BY))
        sessions = self.facts.sessions_due if self.facts is not None else None
        return min(most, *((at - now).total_seconds() for at in (sessions, decision.at) if at is not None))

    def _dream(self, reason: Reason) -> None:
        from daemon.dream.run import Mode  # as in `Jobs`: an idle daemon does without

        with suppress(Exception):  # it was logged, and the schedule decides when it is tried again
            self.dream(reason, Mode.AUTO)

    def _pass(self, keeper: Keeper, reason: Reason | None) -> bool:
        """Run a consolidation pass; False when it has to be tried again."""
        with self.shared.passes.turn(self.shared.stopping.is_set) as has_slot:
            if not has_slot:
                return False
            try:
                self.shared.jobs.consolidate(keeper, reason, utc_now())
            except (BusyError, FencedError):
                self.changes.add(Change.TRANSCRIPT)  # for which it may have been
                return False
            except Exception:  # noqa: BLE001, S110 - it was logged, and is told in the status
                pass
        return True

    def _look(self, now: datetime) -> Decision | None:
        """Take in what is new, and say what is to be done; None when the workspace cannot be had."""
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
        except BusyError:  # it was released meanwhile, to be examined or repaired: the next look acquires it
            self.next = None
        finally:
            self.look_started = None
        return self.next

    def _owned(self) -> Keeper | None:
        """Return the keeper, if the workspace is this daemon's, or was free. Raise FencedError if it was lost."""
        keeper = self.keeper
        if keeper is not None and keeper.offline_reason:
            return None
        if keeper is not None and not os.path.isdir(keeper.workspace.state):  # noqa: PTH112 - Path.is_dir may raise here
            keeper.release()
        if not self.holds_lock:
            self.look_started = None  # it does not hang while it waits
            with self.shared.openings.turn(self.shared.stopping.is_set):
                self.look_started = time.monotonic()
                self.acquire()
        keeper = self.keeper
        return keeper if keeper is not None and keeper.check_lock() else None

    def _is_at_rest(self, now: datetime) -> bool:
        """Tell whether there is nothing to do before the moment that was foreseen: no store is opened then."""
        facts, foreseen = self.facts, self.next
        if facts is None or foreseen is None or self.changes or self.facts_of != self.moment:
            return False
        is_due = facts.sessions_due is not None and facts.sessions_due <= now
        return foreseen.action is Action.WAIT and now < foreseen.at and not is_due

    def _decide(self, keeper: Keeper, now: datetime, *, is_new: bool) -> Decision:
        """Take in notes, so that they are found at once, do what is due in sessions, and decide."""
        moment, changes = self.moment, set[Change]()
        while self.changes:  # one that comes meanwhile is in this set or in the next
            changes.add(self.changes.pop())
        keeper.changed |= bool(changes)
        try:
            with keeper.store() as store:
                self._maintain(keeper, store, now)
                if Change.SCRATCH in changes:
                    absorb_notes(store, utc_now())
                facts = read_facts(store, keeper, self.shared.awake_since, phase(str(self.root)), now)
                now = utc_now()  # what was appended while it was read does not lie ahead
                decision = due(now, facts.history, facts.pending, Thresholds.of(self.shared.config()))
                if is_new and facts.unfinished_dream:
                    decision = Decision(Action.DREAM, Reason.CATCH_UP, "it was interrupted", now)
                if facts.sessions_due is not None and facts.sessions_due <= now:  # it could not be done just now
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
        """Do what is due in sessions; what fails is tried again, and told, after a while."""
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
