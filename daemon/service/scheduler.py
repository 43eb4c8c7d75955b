"""Scheduler: one task for each workspace, which waits until something changed, is due or is asked for, and does it.

    look: its lock, its files compared, what is new taken in ─> due(now, history, pending)
                                                                │ DREAM, PASS, SKIP, or WAIT
    a dream that a client asks for ─────────────────────────────┤
                                                                ▼
                                               one thing at a time, in a thread of its own

A task awaits whatever it begins, so nothing of one workspace runs twice; what blocks has a thread of its own, so a
disk that hangs holds up that workspace alone. The loop itself touches no workspace.
"""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.ingest.notes import absorb_notes
from daemon.observability import logs
from daemon.service.facts import Facts, is_copy_wanted, read_facts
from daemon.service.jobs import Jobs
from daemon.service.keeper import Keeper
from daemon.service.roster import ManagedWorkspace, Roster, Wish
from daemon.service.schedule import Action, Decision, Thresholds, due, phase
from daemon.service.slots import Slots, in_thread
from daemon.service.watcher import Change, Events
from daemon.sessions import next_due
from daemon.workspace.status import Problem
from daemon.workspace.stores import Store, utc_now
from state.dream import Reason
from state.errors import BusyError, DreamdError, FencedError, StoppedError

if TYPE_CHECKING:
    from concurrent.futures import Future

# Files are compared so often, and without the kernel's events more often.
TICK_SECONDS = 30.0
_POLL_SECONDS = 5.0
# Past these a job is taken to hang and holds no slot: a look takes milliseconds, a pass ends after seconds, and no
# model is waited for so long as a dream may last.
_LOOK_SECONDS = 5.0
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
    """The tasks, in an event loop in a thread of its own. Any thread may call what has no `_`."""

    def __init__(
        self, roster: Roster, events: Events, config: Callable[[], Config], jobs: Jobs, stopping: threading.Event
    ) -> None:
        self.awake_since = utc_now()
        self.last_tick = time.monotonic()
        self.dreams = Slots(config().daemon.concurrent_dreams, _DREAM_SECONDS)
        self._passes = Slots(1, _PASS_SECONDS)
        self._looks = Slots(4, _LOOK_SECONDS)
        self._roster = roster
        self._events = events
        self._config = config
        self._jobs = jobs
        self._stopping = stopping
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[ManagedWorkspace, asyncio.Task[None]] = {}
        self._others = asyncio.Event()  # the roster is another, or it is the end
        self._thread = threading.Thread(target=self._run, name="tasks", daemon=True)

    # ------------------------------------------------------------ from any thread

    def start(self) -> None:
        """Begin to look after all workspaces."""
        self._thread.start()

    def look_again(self) -> None:
        """Look after those that came into the roster, too."""
        self._call(self._others.set)

    def wake(self, managed: ManagedWorkspace) -> None:
        """Look at this workspace now."""
        managed.is_wanted = True
        self._call(managed.woken.set)

    def look_at_all(self) -> None:
        """Look at all workspaces now."""
        for managed in self._roster.all():
            self.wake(managed)

    def resize(self, dreams: int) -> None:
        """Dream in so many workspaces at once from now on."""
        self._call(partial(self.dreams.resize, dreams))

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
        return wish.outcome

    def stop(self, seconds: float) -> bool:
        """Begin nothing more and wait for what runs; return whether all has ended in time. Set `stopping` before."""
        self.look_again()
        self.look_at_all()
        if self._thread.is_alive():
            self._thread.join(max(0.1, seconds))
        for managed in self._roster.all():
            self._refuse(managed)
        ended = not self._thread.is_alive()
        if ended:
            self._loop.close()
        return ended

    def facts(self, managed: ManagedWorkspace, keeper: Keeper, now: datetime) -> Facts:
        """Return what decisions about it go by, as of now: what was just appended may not be told yet."""
        return keeper.facts(self.awake_since, phase(str(managed.root)), now)

    def thresholds(self) -> Thresholds:
        """Return the thresholds of the triggers, as configured."""
        section = self._config().dream
        return Thresholds(
            interval=timedelta(minutes=section.interval_minutes),
            min_chunks=section.min_chunks,
            idle=timedelta(minutes=section.idle_minutes),
            passes_every=timedelta(minutes=self._config().daemon.pass_minutes),
        )

    def _call(self, what: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(what)

    @staticmethod
    def _refuse(managed: ManagedWorkspace) -> None:
        while managed.asked:
            error = StoppedError("the daemon is stopping", "what was asked for waits for its next start")
            managed.asked.popleft().outcome.set_exception(error)

    # ------------------------------------------------------------ in the loop

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._keep_all())

    async def _keep_all(self) -> None:
        """Have a task for each workspace, and notice when the machine slept or its clock was set."""
        wall, steady = utc_now(), time.monotonic()
        while not self._stopping.is_set():
            self._others.clear()
            for managed in sorted(self._roster.all(), key=lambda one: not one.has_notes):
                if managed not in self._tasks:
                    self._tasks[managed] = self._loop.create_task(self._keep(managed))
            await _event(self._others, TICK_SECONDS)
            now, self.last_tick = utc_now(), time.monotonic()
            if abs(now - wall - timedelta(seconds=self.last_tick - steady)) > _GAP:
                self.awake_since = now
                logs.get().info("gap_noticed", seconds=round((now - wall).total_seconds()))
                self.look_at_all()
            wall, steady = now, self.last_tick
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _keep(self, managed: ManagedWorkspace) -> None:
        """Look after one workspace for as long as it is in the roster."""
        while not self._stopping.is_set() and self._roster.has(managed):
            try:
                seconds = await self._step(managed)
            except Exception as error:  # noqa: BLE001 - it shows in the status, and once in the log
                problem, seconds = Problem.of(error), TICK_SECONDS
                if managed.problem != problem:
                    logs.get(workspace=managed.name).error("look_failed", error=error)
                managed.problem, managed.next = problem, None
            await self._rest(managed, max(seconds, _SHORTEST_REST_SECONDS))
        if not self._stopping.is_set():
            del self._tasks[managed]
        self._refuse(managed)
        if self._roster.find(managed.name) is None:  # else it was added again
            self._events.forget(managed.root)

    async def _rest(self, managed: ManagedWorkspace, seconds: float) -> None:
        """Wait so long, or until it is woken, for which a second has to be past since the last look."""
        began = self._loop.time()
        while not (self._stopping.is_set() or managed.asked):
            until = min(seconds, _BETWEEN_LOOKS_SECONDS) if managed.is_wanted else seconds
            if (left := began + until - self._loop.time()) <= 0:
                return
            managed.woken.clear()
            await _event(managed.woken, left)

    async def _step(self, managed: ManagedWorkspace) -> float:
        """Do the next thing, and return the seconds until there may be another one."""
        if managed.asked and managed.holds_lock:
            await self._dream(managed, managed.asked.popleft())
            return 0.0
        if not await self._turn(self._looks, managed, urgent=managed.holds_lock or managed.has_notes):
            return 0.0
        managed.is_wanted = False
        decision = await self._looks.run(partial(self._look, managed, utc_now()))
        keeper = managed.keeper
        if decision is None or keeper is None:  # it is not to be had, which its problem says
            while managed.asked:
                why = keeper.unkept() if keeper is not None else BusyError(f"{managed.root} is not kept")
                managed.asked.popleft().outcome.set_exception(why)
            return TICK_SECONDS
        managed.problem = None
        if decision.action is Action.DREAM:
            wish = Wish(decision.reason or Reason.INTERVAL, Mode.AUTO)
            logs.get(workspace=managed.name).info("dream_due", reason=str(wish.reason), why=decision.detail)
            await self._dream(managed, wish)
            return 0.0
        if decision.action is Action.PASS:
            return 0.0 if await self._pass(managed, keeper, decision.reason) else _AGAIN_SECONDS
        return self._until_next(managed, decision, utc_now())

    def _until_next(self, managed: ManagedWorkspace, decision: Decision, now: datetime) -> float:
        """Return the seconds until something is due, or files are to be compared."""
        most = TICK_SECONDS if self._events.are_heard else min(_POLL_SECONDS, TICK_SECONDS)
        sessions = managed.facts.sessions_due if managed.facts is not None else None
        if sessions is not None and sessions > now:  # else it could not be done just now
            most = min(most, (sessions - now).total_seconds())
        if managed.changes:  # for which a pass has just been
            most = min(most, _AGAIN_SECONDS)
        return min(most, (decision.at - now).total_seconds())

    async def _turn(
        self, slots: Slots, managed: ManagedWorkspace, *, urgent: bool = False, yields: bool = True
    ) -> bool:
        """Wait for a slot; False, without one, at the end, or if it `yields` to a client who asks for a dream."""
        turn = slots.turn(urgent=urgent)
        turn.add_done_callback(lambda _: managed.woken.set())
        while not turn.done():
            managed.woken.clear()
            await managed.woken.wait()
            is_awaited = bool(managed.asked) and managed.asked[0].on_step is not None
            if not turn.done() and (self._stopping.is_set() or (yields and is_awaited)):
                slots.leave(turn)
                return False
        return True

    async def _dream(self, managed: ManagedWorkspace, wish: Wish) -> None:
        """Dream when there is a slot, and tell whoever asked for it. What is due in sessions is done meanwhile."""
        keeper, is_awaited = managed.keeper, wish.on_step is not None
        assert keeper is not None, "it holds the lock"
        if not await self._turn(self.dreams, managed, urgent=is_awaited, yields=not is_awaited):
            managed.asked.append(wish)
            return
        managed.next, managed.is_wanted = None, True
        job = partial(self._jobs.dream, keeper, wish.reason, wish.mode, wish.on_step or _ignore)
        dreaming = self._loop.create_task(self.dreams.run(job))
        while not (await asyncio.wait((dreaming,), timeout=TICK_SECONDS))[0]:
            with suppress(Exception):  # the next look tells
                await in_thread(partial(self._maintain_beside, managed, keeper))
        if (error := dreaming.exception()) is None:
            wish.outcome.set_result(dreaming.result())
        else:  # it was logged, and the schedule decides when it is tried again
            wish.outcome.set_exception(error)

    async def _pass(self, managed: ManagedWorkspace, keeper: Keeper, reason: Reason | None) -> bool:
        """Run a consolidation pass; False when it has to be tried again."""
        if not await self._turn(self._passes, managed):
            return False
        now, before = utc_now(), (keeper.last_pass, keeper.last_spike_pass)
        keeper.last_pass, keeper.last_spike_pass = now, now if reason is Reason.SPIKE else before[1]
        try:
            await self._passes.run(partial(self._jobs.consolidate, keeper, reason, now))
        except (BusyError, FencedError):
            keeper.last_pass, keeper.last_spike_pass = before
            managed.changes.add(Change.TRANSCRIPT)  # for which it may have been
            return False
        except Exception:  # noqa: BLE001, S110 - it was logged, and is told in the status
            pass
        return True

    # ------------------------------------------------------------ in a thread

    def _look(self, managed: ManagedWorkspace, now: datetime) -> Decision | None:
        """Take in what is new, and say what is to be done; None when the workspace cannot be had."""
        managed.look_started = time.monotonic()
        try:
            is_new = not managed.holds_lock or managed.facts is None
            if (keeper := self._owned(managed)) is None:
                managed.next = None
                return None
            for change in managed.watched.look(self._config().sources.transcripts):
                managed.mark_changed(change)
            self._events.watch(managed.root, managed.watched.views)
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
                self._maintain(managed, keeper, store, now)
                if Change.SCRATCH in changes:
                    absorb_notes(store, utc_now())
                facts = read_facts(store, keeper, self.awake_since, phase(str(managed.root)), now)
                now = utc_now()  # what was appended while it was read does not lie ahead
                decision = due(now, facts.history, facts.pending, self.thresholds())
                if is_new and facts.unfinished_dream:
                    decision = Decision(Action.DREAM, Reason.CATCH_UP, "it was interrupted", now)
                if decision.action is Action.SKIP:
                    self._jobs.skip(keeper, store, decision.reason or Reason.INTERVAL, decision.detail, now)
        except BaseException:
            managed.changes |= changes
            raise
        managed.facts, managed.facts_of = facts, moment
        if Change.TRANSCRIPT in changes and decision.action is Action.WAIT:
            last = keeper.last_pass
            if last is None or abs(now - last) > timedelta(seconds=_AGAIN_SECONDS):
                return Decision(Action.PASS, None, "a transcript was written", now)
            managed.changes.add(Change.TRANSCRIPT)
        if decision.action is Action.WAIT and is_copy_wanted(keeper, now):
            return Decision(Action.PASS, None, "state.db was not copied for a day", now)
        return decision

    def _maintain(self, managed: ManagedWorkspace, keeper: Keeper, store: Store, now: datetime) -> None:
        """Do what is due in sessions; what fails is tried again at the next look."""
        try:
            if (at := next_due(store, now)) is not None and at <= now:
                self._jobs.maintain(keeper, store, now)
        except (sqlite3.Error, DreamdError) as error:
            logs.get(workspace=managed.name).error("sessions_not_maintained", error=error)

    def _maintain_beside(self, managed: ManagedWorkspace, keeper: Keeper) -> None:
        with keeper.store() as store:
            self._maintain(managed, keeper, store, utc_now())


async def _event(event: asyncio.Event, seconds: float) -> None:
    """Wait for it so long at most."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def _ignore(_: Step) -> None:
    pass
