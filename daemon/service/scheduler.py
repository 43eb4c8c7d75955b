"""Scheduler: one thread for each workspace, which waits until something changed, is due or is asked for, and does it.

    registry, configuration ─> look_up ─> ManagedWorkspace ─> acquire (its lock), then again and again:

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
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.registry import Entry, WorkspaceList, name_of
from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.ingest.notes import absorb_notes
from daemon.observability import logs
from daemon.service.facts import is_copy_wanted, read_facts
from daemon.service.jobs import Jobs
from daemon.service.keeper import Keeper
from daemon.service.managed import ManagedWorkspace, Wish
from daemon.service.schedule import Action, Decision, Thresholds, due, phase
from daemon.service.slots import Slots
from daemon.sessions import next_due
from daemon.workspace.scan import Change
from daemon.workspace.status import Problem
from daemon.workspace.stores import Store, utc_now
from daemon.workspace.vector_index import Embedding
from state.dream import Reason
from state.errors import (
    BusyError,
    DreamdError,
    FencedError,
    NotKeptError,
    StoppedError,
    UnknownWorkspaceError,
    UsageError,
)
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from concurrent.futures import Future

# How long a client waits for a workspace that another thread is opening or releasing, or that is yet to be looked up.
_LOCK_SECONDS = 10.0
# How long a start or a reload waits for the folders of all entries to be looked up: what is on a disk that hangs is
# taken up when it answers, and holds up nothing.
_LOOK_UP_SECONDS = 1.0
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
    """All workspaces to keep, by name, each with its thread. Any thread may call.

    A disk that hangs delays only its own workspace.
    """

    def __init__(
        self,
        listing: WorkspaceList,
        config: Callable[[], Config],
        embedding: Embedding,
        open_workspace: Callable[[Path], Workspace],
        jobs: Jobs,
        stopping: threading.Event,
    ) -> None:
        self.awake_since = utc_now()
        self.last_tick = time.monotonic()
        self.dreams = Slots(config().daemon.concurrent_dreams, _DREAM_SECONDS)
        self._passes = Slots(1, _PASS_SECONDS)
        self._openings = Slots(4, _OPENING_SECONDS)
        self._listing = listing
        self._config = config
        self._embedding = embedding
        self._open_workspace = open_workspace
        self._jobs = jobs
        self._stopping = stopping
        self._looked_up = threading.Event()  # all entries, but those on a disk that does not answer in a second
        self._lock = threading.Lock()  # of `_listing` and `_managed`; no workspace's folder is touched under it
        self._managed: dict[str, ManagedWorkspace] = {}
        self._ticking = threading.Thread(target=self._tick, name="ticking", daemon=True)

    # ------------------------------------------------------------ which workspaces there are

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
        """Keep what the entry names, and no longer what no entry names."""
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

    def add(self, workspace: Workspace) -> ManagedWorkspace:
        """Keep the workspace from now on, also after a restart. Raise UsageError when its name is taken."""
        with self._lock:
            managed = self._put(workspace.root, self._listing.add)
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
            if not (managed.holds_lock or offline or self._stopping.is_set()) and self._has(managed):
                self._acquire_now(managed)
            if managed.keeper is not None and not self._has(managed):
                managed.keeper.release()  # removed meanwhile
        finally:
            managed.lock.release()
        return True

    def _has(self, managed: ManagedWorkspace) -> bool:
        return self._managed.get(managed.name) is managed

    def _put(self, root: Path, record: Callable[[Path], None] = lambda _: None) -> ManagedWorkspace:
        """Return the one with this root, or a new one. Raise UsageError if a workspace elsewhere has its name."""
        name = name_of(root)
        managed = self._managed.get(name) or ManagedWorkspace(name, root)
        if managed.root != root:
            what = f"{root} would be called {name}, as {managed.root} is already"
            raise UsageError(what, "rename one of the folders")
        record(root)
        self._managed[name] = managed
        self._begin(managed)
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
        self.wake(managed)
        if managed.lock.acquire(timeout=_LOCK_SECONDS):  # else the thread that acquires it now releases it
            try:
                if managed.keeper is not None:
                    managed.keeper.release()
            finally:
                managed.lock.release()
        logs.get(workspace=managed.name).info("workspace_released")

    # ------------------------------------------------------------ their threads

    def start(self) -> None:
        """Look up all workspaces, and begin to look after them."""
        self.look_up_all()
        if not self._ticking.is_alive():
            self._ticking.start()
        self._begin_all()

    def _begin_all(self) -> None:
        with self._lock:
            for managed in self.all():
                self._begin(managed)

    def _begin(self, managed: ManagedWorkspace) -> None:
        if managed.thread is None and self._ticking.is_alive() and not self._stopping.is_set():
            thread = threading.Thread(target=self._keep, args=(managed,), name=managed.name, daemon=True)
            with suppress(RuntimeError):  # there can be no more now: the next tick tries again
                thread.start()
                managed.thread = thread

    def wake(self, managed: ManagedWorkspace) -> None:
        """Look at this workspace now."""
        managed.is_wanted = True
        managed.woken.set()

    def look_at_all(self) -> None:
        """Look at all workspaces now."""
        for managed in self.all():
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
        self.look_at_all()
        for slots in (self.dreams, self._passes, self._openings):
            slots.look_again()
        ended = True
        for managed in self.all():
            if managed.thread is not None:
                managed.thread.join(max(0.1, deadline - time.monotonic()))
                ended &= not managed.thread.is_alive()
            self._refuse(managed)
        return ended

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
        """Notice when the machine slept or its clock was set, and begin what could not begin."""
        wall, steady = utc_now(), time.monotonic()
        while not self._stopping.wait(TICK_SECONDS):
            now, self.last_tick = utc_now(), time.monotonic()
            if abs(now - wall - timedelta(seconds=self.last_tick - steady)) > _GAP:
                self.awake_since = now
                logs.get().info("gap_noticed", seconds=round((now - wall).total_seconds()))
                self.look_at_all()
            wall, steady = now, self.last_tick
            self._begin_all()

    # ------------------------------------------------------------ in the thread of one workspace

    def _keep(self, managed: ManagedWorkspace) -> None:
        """Look after one workspace for as long as it is in the roster."""
        while not self._stopping.is_set() and self._has(managed):
            try:
                seconds = self.step(managed)
            except Exception as error:  # noqa: BLE001 - it shows in the status, and once in the log
                problem, seconds = Problem.of(error), TICK_SECONDS
                if managed.problem != problem:
                    logs.get(workspace=managed.name).error("look_failed", error=error)
                managed.problem, managed.next = problem, None
            self._rest(managed, max(seconds, _SHORTEST_REST_SECONDS))
        self._refuse(managed)

    def _rest(self, managed: ManagedWorkspace, seconds: float) -> None:
        """Wait so long, or until it is woken, for which a second has to be past since the last look."""
        began = time.monotonic()
        while not (self._stopping.is_set() or managed.asked):
            until = min(seconds, _BETWEEN_LOOKS_SECONDS) if managed.is_wanted else seconds
            if (left := began + until - time.monotonic()) <= 0 or not self._has(managed):
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
            managed.look_started = None  # it does not hang while it waits
            with self._openings.turn(managed, self._stopping.is_set):
                managed.look_started = time.monotonic()
                self.acquire(managed)
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
                self._maintain(managed, keeper, store, now)
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

    def _maintain(self, managed: ManagedWorkspace, keeper: Keeper, store: Store, now: datetime) -> None:
        """Do what is due in sessions; what fails is tried again, and told, after a while."""
        if time.monotonic() < managed.maintain_after:
            return
        try:
            if (at := next_due(store, now)) is not None and at <= now:
                self._jobs.maintain(keeper, store, now)
        except (sqlite3.Error, DreamdError) as error:
            managed.maintain_after = time.monotonic() + TICK_SECONDS
            logs.get(workspace=keeper.name).error("sessions_not_maintained", error=error)


def _ignore(_: Step) -> None:
    pass


def _log_failure(name: str, what: str, error: Exception) -> None:
    logs.get(workspace=name).error(f"{what}_failed", error=error)
