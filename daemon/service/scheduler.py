"""Scheduler: one thread for each workspace, which waits until something changed, is due or is asked for, and does it.

    look: its lock, its files compared, what is new taken in ─> due(now, history, pending)
                                                                │ DREAM, PASS, SKIP, or WAIT
    a dream that a client asks for ─────────────────────────────┤
                                                                ▼
                                                      one thing at a time

Nothing of one workspace runs twice, and a disk that hangs holds up that workspace alone.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.ingest.notes import absorb_notes
from daemon.observability import logs
from daemon.service.facts import is_copy_wanted, read_facts
from daemon.service.jobs import Jobs
from daemon.service.keeper import Keeper
from daemon.service.roster import ManagedWorkspace, Roster, Wish
from daemon.service.schedule import Action, Decision, Thresholds, due, phase
from daemon.service.slots import Slots
from daemon.sessions import next_due
from daemon.workspace.scan import Change
from daemon.workspace.status import Problem
from daemon.workspace.stores import Store, utc_now
from state.dream import Reason
from state.errors import BusyError, DreamdError, FencedError, StoppedError

if TYPE_CHECKING:
    from concurrent.futures import Future

# Files are compared so often at least.
TICK_SECONDS = 30.0
# Where something was done a moment ago they are compared so often, and a thirtieth as often as it is past: every ten
# seconds after five minutes.
_LOOK_SECONDS = 2.0
_LONGER_BY = 30.0
# Past these a job is taken to hang and holds no slot: a workspace is opened in milliseconds, a pass ends after
# seconds, and no model is waited for so long as a dream may last.
_OPENING_SECONDS = 5.0
_PASS_SECONDS = 120.0
_DREAM_SECONDS = 3_600.0
# A burst of changes is taken in once a second at most, and no thing follows another one more closely than this.
_BETWEEN_LOOKS_SECONDS = 1.0
_SHORTEST_REST_SECONDS = 0.05
# What met somebody at work is tried again; and for what is written to transcripts passes do not come faster.
_AGAIN_SECONDS = 2.0
# Wall and monotonic clock apart by this much: the machine slept, or the clock was set.
_GAP = timedelta(seconds=90)


class Scheduler:
    """The threads of all workspaces in the roster. Any thread may call."""

    def __init__(self, roster: Roster, config: Callable[[], Config], jobs: Jobs, stopping: threading.Event) -> None:
        self.awake_since = utc_now()
        self.last_tick = time.monotonic()
        self.dreams = Slots(config().daemon.concurrent_dreams, _DREAM_SECONDS)
        self._passes = Slots(1, _PASS_SECONDS)
        self._openings = Slots(4, _OPENING_SECONDS)
        self._roster = roster
        self._config = config
        self._jobs = jobs
        self._stopping = stopping
        self._lock = threading.Lock()
        self._threads: dict[ManagedWorkspace, threading.Thread] = {}
        self._ticking = threading.Thread(target=self._tick, name="ticking", daemon=True)

    def start(self) -> None:
        """Begin to look after all workspaces."""
        self._ticking.start()
        self.look_after_all()

    def look_after_all(self) -> None:
        """Have a thread for each workspace that is in the roster now."""
        with self._lock:
            if self._stopping.is_set() or not self._ticking.is_alive():
                return
            for managed in self._roster.all():
                if managed not in self._threads:
                    thread = threading.Thread(target=self._keep, args=(managed,), name=managed.name, daemon=True)
                    self._threads[managed] = thread
                    thread.start()

    def wake(self, managed: ManagedWorkspace) -> None:
        """Look at this workspace now."""
        managed.is_wanted = True
        managed.woken.set()

    def look_at_all(self) -> None:
        """Look at all workspaces now."""
        for managed in self._roster.all():
            self.wake(managed)

    def dream(self, managed: ManagedWorkspace, wish: Wish) -> "Future[Outcome]":
        """Have it dreamt, and return its future; one that a client waits for comes before all others.

        Of the others at most one for each reason waits: further ones get its future.
        """
        for one in managed.asked.copy():
            if one.on_step is wish.on_step is None and (one.reason, one.mode) == (wish.reason, wish.mode):
                return one.outcome
        if wish.on_step is not None:
            managed.asked.appendleft(wish)
        else:
            managed.asked.append(wish)
        if self._stopping.is_set():
            self._refuse(managed)
        self.wake(managed)
        self._passes.look_again()
        self.dreams.look_again()
        return wish.outcome

    def stop(self, seconds: float) -> bool:
        """Begin nothing more and wait for what runs; return whether all has ended in time. Set `stopping` before."""
        deadline = time.monotonic() + seconds
        with self._lock:
            threads = dict(self._threads)
        for managed in threads:
            self.wake(managed)
        for slots in (self.dreams, self._passes, self._openings):
            slots.look_again()
        for managed, thread in threads.items():
            thread.join(max(0.1, deadline - time.monotonic()))
            self._refuse(managed)
        return not any(thread.is_alive() for thread in threads.values())

    def thresholds(self) -> Thresholds:
        """Return the thresholds of the triggers, as configured."""
        section = self._config().dream
        return Thresholds(
            interval=timedelta(minutes=section.interval_minutes),
            min_chunks=section.min_chunks,
            idle=timedelta(minutes=section.idle_minutes),
            passes_every=timedelta(minutes=self._config().daemon.pass_minutes),
        )

    @staticmethod
    def _refuse(managed: ManagedWorkspace) -> None:
        while managed.asked:
            error = StoppedError("the daemon is stopping", "what was asked for waits for its next start")
            managed.asked.popleft().outcome.set_exception(error)

    def _tick(self) -> None:
        """Notice when the machine slept or its clock was set."""
        wall, steady = utc_now(), time.monotonic()
        while not self._stopping.wait(TICK_SECONDS):
            now, self.last_tick = utc_now(), time.monotonic()
            if abs(now - wall - timedelta(seconds=self.last_tick - steady)) > _GAP:
                self.awake_since = now
                logs.get().info("gap_noticed", seconds=round((now - wall).total_seconds()))
                self.look_at_all()
            wall, steady = now, self.last_tick

    # ------------------------------------------------------------ in the thread of one workspace

    def _keep(self, managed: ManagedWorkspace) -> None:
        """Look after one workspace for as long as it is in the roster."""
        while not self._stopping.is_set() and self._roster.has(managed):
            try:
                seconds = self.step(managed)
            except Exception as error:  # noqa: BLE001 - it shows in the status, and once in the log
                problem, seconds = Problem.of(error), TICK_SECONDS
                if managed.problem != problem:
                    logs.get(workspace=managed.name).error("look_failed", error=error)
                managed.problem, managed.next = problem, None
            self._rest(managed, max(seconds, _SHORTEST_REST_SECONDS))
        with self._lock:
            if not self._stopping.is_set():
                del self._threads[managed]
        self._refuse(managed)

    def _rest(self, managed: ManagedWorkspace, seconds: float) -> None:
        """Wait so long, or until it is woken, for which a second has to be past since the last look."""
        began = time.monotonic()
        while not (self._stopping.is_set() or managed.asked):
            until = min(seconds, _BETWEEN_LOOKS_SECONDS) if managed.is_wanted else seconds
            if (left := began + until - time.monotonic()) <= 0 or not self._roster.has(managed):
                return
            managed.woken.wait(left)
            managed.woken.clear()

    def step(self, managed: ManagedWorkspace) -> float:
        """Do the next thing, and return the seconds until there may be another one."""
        if managed.asked and managed.holds_lock:
            self._dream(managed)
            return 0.0
        decision, keeper = self._look(managed, utc_now()), managed.keeper
        if decision is None or keeper is None:  # it is not to be had, which its problem says
            while managed.asked:
                why = keeper.unkept() if keeper is not None else BusyError(f"{managed.root} is not kept")
                managed.asked.popleft().outcome.set_exception(why)
            return TICK_SECONDS
        managed.problem = None
        if decision.action is Action.DREAM:
            wish = Wish(decision.reason or Reason.INTERVAL, Mode.AUTO)
            logs.get(workspace=managed.name).info("dream_due", reason=str(wish.reason), why=decision.detail)
            self._dream(managed, wish)
            return 0.0
        if decision.action is Action.PASS:
            return 0.0 if self._pass(managed, keeper, decision.reason) else _AGAIN_SECONDS
        return self._until_next(managed, decision, utc_now())

    def _until_next(self, managed: ManagedWorkspace, decision: Decision, now: datetime) -> float:
        """Return the seconds until something is due, or files are to be compared."""
        most = min(TICK_SECONDS, max(_LOOK_SECONDS, (time.monotonic() - managed.used) / _LONGER_BY))
        sessions = managed.facts.sessions_due if managed.facts is not None else None
        if sessions is not None:
            most = min(most, (sessions - now).total_seconds())
        return min(most, (decision.at - now).total_seconds())

    def _dream(self, managed: ManagedWorkspace, due_now: Wish | None = None) -> None:
        """Dream when there is a slot: what was asked for by then, else what is due. Tell whoever asked for it."""
        with self.dreams.turn(managed, self._stopping.is_set) as has_slot:
            wish = managed.asked.popleft() if has_slot and managed.asked else due_now
            if not has_slot or wish is None:
                return
            managed.next, managed.is_wanted = None, True
            keeper = managed.keeper
            assert keeper is not None, "it holds the lock"
            try:
                outcome = self._jobs.dream(keeper, wish.reason, wish.mode, wish.on_step or _ignore)
            except BaseException as error:  # noqa: BLE001 - it was logged, and the schedule decides when it is tried again
                wish.outcome.set_exception(error)
            else:
                wish.outcome.set_result(outcome)

    def _pass(self, managed: ManagedWorkspace, keeper: Keeper, reason: Reason | None) -> bool:
        """Run a consolidation pass; False when it has to be tried again."""
        with self._passes.turn(managed, lambda: self._stopping.is_set() or managed.is_awaited) as has_slot:
            if not has_slot:
                return False
            now, before = utc_now(), (keeper.last_pass, keeper.last_spike_pass)
            keeper.last_pass, keeper.last_spike_pass = now, now if reason is Reason.SPIKE else before[1]
            try:
                self._jobs.consolidate(keeper, reason, now)
            except (BusyError, FencedError):
                keeper.last_pass, keeper.last_spike_pass = before
                managed.changes.add(Change.TRANSCRIPT)  # for which it may have been
                return False
            except Exception:  # noqa: BLE001, S110 - it was logged, and is told in the status
                pass
        return True

    def _look(self, managed: ManagedWorkspace, now: datetime) -> Decision | None:
        """Take in what is new, and say what is to be done; None when the workspace cannot be had."""
        managed.is_wanted = False
        is_new = not managed.holds_lock or managed.facts is None
        managed.look_started = time.monotonic()
        try:
            if (keeper := self._owned(managed)) is None:
                managed.next = None
                return None
            for change in managed.watched.look(self._config().sources.transcripts):
                managed.mark_changed(change)
            keeper.close_idle()
            if is_new or managed.next is None or not self._is_at_rest(managed, now):
                managed.next = self._decide(managed, keeper, now, is_new=is_new)
            return managed.next
        finally:
            managed.look_started = None

    def _owned(self, managed: ManagedWorkspace) -> Keeper | None:
        """Return the keeper, if the workspace is this daemon's, or was free. Raise FencedError if it was lost."""
        keeper = managed.keeper
        if keeper is not None and keeper.offline_reason:
            return None
        if keeper is not None and not os.path.isdir(keeper.workspace.state):  # noqa: PTH112 - Path.is_dir may raise here
            keeper.release()
        if not managed.holds_lock:
            with self._openings.turn(managed, self._stopping.is_set):
                self._roster.acquire(managed)
        keeper = managed.keeper
        return keeper if keeper is not None and keeper.check_lock() else None

    def _is_at_rest(self, managed: ManagedWorkspace, now: datetime) -> bool:
        """Tell whether there is nothing to do before the moment that was foreseen: no store is opened then."""
        facts, foreseen = managed.facts, managed.next
        if facts is None or foreseen is None or managed.changes or managed.facts_of != managed.moment:
            return False
        is_due = facts.sessions_due is not None and facts.sessions_due <= now
        return foreseen.action is Action.WAIT and now < foreseen.at and not is_due

    def _decide(self, managed: ManagedWorkspace, keeper: Keeper, now: datetime, *, is_new: bool) -> Decision:
        """Take in notes, so that they are found at once, do what is due in sessions, and decide."""
        changes, moment = managed.take_changes(), managed.moment
        keeper.changed |= bool(changes)
        try:
            with keeper.store() as store:
                self._maintain(keeper, store, now)
                if Change.SCRATCH in changes:
                    absorb_notes(store, utc_now())
                facts = read_facts(store, keeper, self.awake_since, phase(str(managed.root)), now)
                now = utc_now()  # what was appended while it was read does not lie ahead
                decision = due(now, facts.history, facts.pending, self.thresholds())
                if is_new and facts.unfinished_dream:
                    decision = Decision(Action.DREAM, Reason.CATCH_UP, "it was interrupted", now)
                if facts.sessions_due is not None and facts.sessions_due <= now:  # it could not be done just now
                    facts = replace(facts, sessions_due=now + timedelta(seconds=TICK_SECONDS))
                if decision.action is Action.SKIP:
                    self._jobs.skip(keeper, store, decision.reason or Reason.INTERVAL, decision.detail, now)
        except BaseException:
            managed.changes |= changes
            raise
        managed.facts, managed.facts_of = facts, moment
        if decision.action is Action.WAIT and Change.TRANSCRIPT in changes:
            last = keeper.last_pass
            if last is None or abs(now - last) > timedelta(seconds=_AGAIN_SECONDS):
                return Decision(Action.PASS, None, "a transcript was written", now)
            managed.changes.add(Change.TRANSCRIPT)
        if decision.action is Action.WAIT and is_copy_wanted(keeper, now):
            return Decision(Action.PASS, None, "state.db was not copied for a day", now)
        return decision

    def _maintain(self, keeper: Keeper, store: Store, now: datetime) -> None:
        """Do what is due in sessions; what fails is tried again at the next look."""
        try:
            if (at := next_due(store, now)) is not None and at <= now:
                self._jobs.maintain(keeper, store, now)
        except (sqlite3.Error, DreamdError) as error:
            logs.get(workspace=keeper.name).error("sessions_not_maintained", error=error)


def _ignore(_: Step) -> None:
    pass
