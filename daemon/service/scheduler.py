"""Tending the workspaces: what is due in each of them, now and whenever something stirs."""

import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.observability import logs
from daemon.service.job_queue import JobQueue
from daemon.service.jobs import Jobs
from daemon.service.keeper import Keeper
from daemon.service.schedule import Action, Decision, History, Thresholds, due, phase
from daemon.service.watcher import Change
from daemon.workspace.status import Problem
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import BusyError, StoppedError

if TYPE_CHECKING:
    from concurrent.futures import Future

TICK_SECONDS = 30.0
# A look takes milliseconds: one that lasts so long holds no slot, and after so long it is told that it hangs.
_LOOK_SECONDS = 5.0
_HANGS_SECONDS = 20.0
# Nor does a pass, of which each turn lasts some seconds, or a dream, for which no model is asked for so long.
_PASS_SECONDS = 120.0
_DREAM_SECONDS = 3_600.0
# A storm of notes is taken in once in so many seconds. A clock that is so far off: the machine slept, or it was set.
_STIR_SECONDS = 1.0
_SHORTEST_PAUSE = 0.05
_GAP = timedelta(seconds=90)


class ManagedWorkspace:
    """A workspace that is to be kept: its keeper, what is in the way, and what stirred since it was looked at."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.root = root
        self.keeper: Keeper | None = None
        self.problem: Problem | None = None
        self.entering = threading.Lock()  # whoever takes it up, or lets it go
        self.watched: object = None  # by which watcher, and for which transcripts
        self.looking = False  # a look is queued or runs
        self.look_began: float | None = None  # of one that runs, on the monotonic clock
        self.stirred: set[Change] = set()
        self.stirred_at = 0.0
        self.working = False  # a dream of the looker's is queued or runs
        self.taking_in = False  # what was just written is queued to be taken in, or is
        self.asks = True  # for a look: it is new, or what was under way has ended
        self.maintaining = False  # the maintenance of its sessions is queued or runs
        self.maintained_at = 0.0  # not before that moment of the monotonic clock, after one that failed
        self.next: Decision | None = None

    def stir(self, change: Change) -> None:
        """Something of it has changed."""
        self.stirred.add(change)

    def settle(self) -> set[Change]:
        """What has stirred since the last time; what stirs meanwhile is among it, or is kept for the next time."""
        stirred = set[Change]()
        while self.stirred:
            stirred.add(self.stirred.pop())
        return stirred

    def pause(self, now: datetime, steady: float) -> float:
        """Seconds until it is worth a look before all get one: with hundreds, most looks would find nothing new.

        One that is not kept is tried again when all are looked at, whatever stirs in it: a try writes to the disk.
        """
        if self.looking:
            return math.inf
        if not self.is_kept:
            return 0.0 if self.asks else math.inf
        moments = [(at - now).total_seconds()] if (at := self.sessions_due(steady)) is not None else []
        if not self.working:
            moments += [0.0] if self.asks else []
            moments += [(self.next.at - now).total_seconds()] if self.next is not None else []
            moments += [self.stirred_at - steady] if self.stirred and not self.taking_in else []
        return min(moments, default=math.inf)

    @property
    def hanging(self) -> Problem | None:
        """A look that does not end: whoever touches its folder now would wait as long."""
        began = self.look_began
        if began is None or time.monotonic() - began < _HANGS_SECONDS:
            return None
        return Problem(
            f"{self.root} has not answered for {time.monotonic() - began:.0f} s",
            "look at the disk that it is on; when it answers, all goes on by itself",
        )

    @property
    def is_kept(self) -> bool:
        """Whether the workspace is in this daemon's keeping."""
        return self.keeper is not None and self.keeper.kept

    def sessions_due(self, steady: float) -> datetime | None:
        """When maintenance of its sessions is to begin; None: it is not to, or goes on."""
        if self.keeper is None or self.maintaining or steady < self.maintained_at:
            return None
        return self.keeper.sessions_due


class Scheduler:
    """One thread that hands out what is to be looked at; the slots look, and do the work.

    That thread touches no workspace: one on a disk that hangs keeps a slot's thread, and nobody waiting. `charges`
    are all that are to be kept, `enter` takes one up, `watch` has its changes told.
    """

    def __init__(
        self,
        charges: Callable[[], Iterable[ManagedWorkspace]],
        enter: Callable[[ManagedWorkspace], None],
        watch: Callable[[ManagedWorkspace], None],
        config: Callable[[], Config],
        duties: Jobs,
        stopping: threading.Event,
    ) -> None:
        self.awake_since = utc_now()
        self.beat = time.monotonic()
        self.dreams = JobQueue("dream", config().daemon.concurrent_dreams, _DREAM_SECONDS)
        self.passes = JobQueue("pass", 1, _PASS_SECONDS)
        self.upkeep = JobQueue("upkeep", 4, _LOOK_SECONDS)
        self._charges = charges
        self._enter = enter
        self._watch = watch
        self._config = config
        self._duties = duties
        self._stopping = stopping
        self._woken = threading.Event()
        self._round_at = 0.0  # when every one is looked at, on the monotonic clock
        self._until = 0.0  # when it looks next, likewise
        self._thread = threading.Thread(target=self._looking, name="look", daemon=True)

    def start(self) -> None:
        """Begin to look, at once."""
        self._thread.start()

    def wake(self) -> None:
        """Look now at what has stirred, ended or come due."""
        self._woken.set()

    def look_at_all(self) -> None:
        """Look now at every one."""
        self._round_at = 0.0
        self.wake()

    def end(self, seconds: float) -> bool:
        """Begin nothing more, and wait for what runs; whether it ended within the time. `stopping` is set before."""
        deadline = time.monotonic() + seconds
        self.wake()
        every = (self.dreams, self.passes, self.upkeep)
        for slots in every:
            slots.close()
        ended = [slots.drained(max(0.0, deadline - time.monotonic())) for slots in every]
        if self._thread.is_alive():
            self._thread.join(max(0.1, deadline - time.monotonic()))
        return all(ended)

    def dream(
        self, keeper: Keeper, reason: Reason, mode: Mode, told: Callable[[Step], None] | None
    ) -> "Future[Outcome]":
        """A dream in a slot; one that somebody waits for (`told`) goes before those that nobody does.

        Of the latter one for each reason waits: the next one that is asked for is that one.
        """
        job = partial(self._duties.dream, keeper, reason, mode, told or (lambda _: None))
        once = f"{keeper.name} {reason} {mode}" if told is None else ""
        return self.dreams.submit(job, whose=keeper.name, urgent=told is not None, once=once)

    def resume(self, charge: ManagedWorkspace, keeper: Keeper) -> None:
        """Go on with the dream that was interrupted."""
        self._dream(charge, keeper, Reason.CATCH_UP)

    def history(self, keeper: Keeper, now: datetime) -> History:
        """What deciding needs of a workspace's past."""
        return keeper.history(self.awake_since, phase(str(keeper.workspace.root)), now)

    def thresholds(self) -> Thresholds:
        """As configured."""
        section = self._config().dream
        return Thresholds(
            interval=timedelta(minutes=section.interval_minutes),
            min_chunks=section.min_chunks,
            idle=timedelta(minutes=section.idle_minutes),
            passes_every=timedelta(minutes=self._config().daemon.pass_minutes),
        )

    def _looking(self) -> None:
        wall, steady = utc_now(), time.monotonic()
        while not self._stopping.is_set():
            self._woken.wait(self._pause())
            self._woken.clear()
            now, self.beat = utc_now(), time.monotonic()
            if abs(now - wall - timedelta(seconds=self.beat - steady)) > _GAP:
                self.awake_since, self._round_at = now, 0.0
                logs.get().info("gap_noticed", seconds=round((now - wall).total_seconds()))
            wall, steady = now, self.beat
            try:
                self._hand_all_out(now, steady)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next round comes
                logs.get().error("round_failed", error=error)

    def _hand_all_out(self, now: datetime, steady: float) -> None:
        everyone = steady >= self._round_at
        if everyone:
            self._round_at = steady + TICK_SECONDS
        for slots in (self.dreams, self.passes, self.upkeep):
            slots.go_on()
        for charge in self._charges():
            if charge.looking:
                charge.asks |= everyone  # once more, at its end
            elif everyone or charge.pause(now, steady) <= 0:
                self._hand_out(charge)

    def _pause(self) -> float:
        """Until the next one is due, or has stirred; at most until all are looked at."""
        now, steady = utc_now(), time.monotonic()
        pauses = (charge.pause(now, steady) for charge in self._charges())
        pause = max(_SHORTEST_PAUSE, min((self._round_at - steady, *pauses)))
        self._until = steady + pause
        return pause

    def _hand_out(self, charge: ManagedWorkspace) -> None:
        charge.looking, charge.asks = True, False
        try:
            self.upkeep.submit(partial(self._look, charge), whose=charge.name)
        except StoppedError:  # nothing is looked at any more
            charge.looking = False

    def _look(self, charge: ManagedWorkspace) -> None:
        charge.look_began = time.monotonic()
        try:
            self._look_safely(charge, utc_now())
        finally:
            charge.look_began, charge.looking = None, False
            steady = time.monotonic()
            if steady + charge.pause(utc_now(), steady) < self._until:
                self.wake()

    def _look_safely(self, charge: ManagedWorkspace, now: datetime) -> None:
        """What goes wrong with one workspace is its problem, and the others are looked at."""
        try:
            self._look_at(charge, now)
        except StoppedError:
            return
        except Exception as error:  # noqa: BLE001 - told in the status, and in the log once
            problem = Problem.of(error)
            if charge.problem != problem:
                logs.get(workspace=charge.name).error("look_failed", error=error)
            charge.problem, charge.next = problem, None
            charge.stirred_at = charge.maintained_at = time.monotonic() + TICK_SECONDS
        else:
            if charge.keeper is not None and charge.keeper.kept:
                charge.problem = None

    def _look_at(self, charge: ManagedWorkspace, now: datetime) -> None:
        keeper = charge.keeper
        if keeper is not None and keeper.lent:
            return
        if keeper is None or not keeper.kept:
            charge.next = None
            self._enter(charge)
            return
        if not os.path.isdir(keeper.workspace.state):  # noqa: PTH112 - Path.is_dir may raise here
            keeper.leave()
            self._ask(charge)  # what is wrong with it is told at once
            return
        keeper.check()
        self._watch(charge)
        self._maintain(charge, keeper, now)
        self._take_in(charge, keeper)
        if charge.working or keeper.dreaming:
            charge.next = None
            return
        keeper.rest()
        decision = due(now, self.history(keeper, now), keeper.pending(now), self.thresholds())
        charge.next = decision
        if decision.act is Action.SKIP:
            self._skip(keeper, decision, now)
        elif decision.act is Action.PASS:
            self._consolidate(charge, keeper, decision, now)
        elif decision.act is Action.DREAM:
            logs.get(workspace=charge.name).info("dream_due", reason=str(decision.reason), why=decision.detail)
            self._dream(charge, keeper, decision.reason or Reason.INTERVAL)

    def _take_in(self, charge: ManagedWorkspace, keeper: Keeper) -> None:
        """What was just written becomes crystals and feelings: soon, and one workspace after the other."""
        if not charge.stirred or time.monotonic() < charge.stirred_at or charge.taking_in or charge.working:
            return
        stirred = charge.settle()
        charge.stirred_at = time.monotonic() + _STIR_SECONDS
        keeper.changed = True
        if stirred == {Change.DOCUMENT}:
            return

        def done(future: "Future[bool]") -> None:
            error = future.exception()
            if error is None and not future.result():  # the rest of the transcripts, after the other workspaces
                charge.stirred.update(stirred)
            if error is not None and not isinstance(error, StoppedError):
                charge.stirred.update(stirred)
                charge.stirred_at = time.monotonic() + TICK_SECONDS
            if error is not None and not isinstance(error, StoppedError | BusyError):
                logs.get(workspace=charge.name).error("notes_not_taken_in", error=error)
            charge.taking_in, charge.asks = False, True
            self.wake()

        charge.taking_in = True
        try:
            future = self.passes.submit(
                partial(self._duties.take_in, keeper, transcripts=Change.TRANSCRIPT in stirred), whose=keeper.name
            )
        except BaseException:
            charge.taking_in = False
            raise
        future.add_done_callback(done)

    def _maintain(self, charge: ManagedWorkspace, keeper: Keeper, now: datetime) -> None:
        """Sessions whose moment has come, beside a dream or a pass that runs: it is soon done."""
        moment = charge.sessions_due(time.monotonic())
        if moment is None or moment > now:
            return

        def done(future: "Future[None]") -> None:
            if (error := future.exception()) is not None:
                charge.maintained_at = time.monotonic() + TICK_SECONDS
                if not isinstance(error, StoppedError):
                    logs.get(workspace=charge.name).error("sessions_not_maintained", error=error)
            charge.maintaining = False

        charge.maintaining = True
        try:
            future = self.upkeep.submit(partial(self._duties.maintain, keeper, now), whose=keeper.name)
        except BaseException:
            charge.maintaining = False
            raise
        future.add_done_callback(done)

    def _skip(self, keeper: Keeper, decision: Decision, now: datetime) -> None:
        keeper.last_look = now
        # Not in the look: whoever is at work in the stores for long is not somebody that hangs.
        skipped = self.upkeep.submit(
            partial(self._duties.skip, keeper, decision.reason or Reason.INTERVAL, decision.detail, now),
            whose=keeper.name,
        )
        skipped.add_done_callback(partial(told, keeper.name, "skip_not_recorded"))

    def _consolidate(self, charge: ManagedWorkspace, keeper: Keeper, decision: Decision, now: datetime) -> None:
        before = keeper.last_pass, keeper.last_spike_pass
        if decision.reason is Reason.SPIKE:
            keeper.last_spike_pass = now
        keeper.last_pass = now

        def done(future: "Future[None]") -> None:
            if isinstance(future.exception(), BusyError):  # it met a dream: the next look has it again
                keeper.last_pass, keeper.last_spike_pass = before
                charge.next = None
            else:
                self._ask(charge)

        # Its stamp keeps it from being due again; a dream does not wait for it to have its turn.
        job = partial(self._duties.consolidate, keeper, decision.reason, now)
        self.passes.submit(job, whose=keeper.name).add_done_callback(done)

    def _dream(self, charge: ManagedWorkspace, keeper: Keeper, reason: Reason) -> None:
        charge.working = True
        try:
            future = self.dream(keeper, reason, Mode(self._config().dream.mode), None)
        except BaseException:
            charge.working = False
            raise

        def done(_: "Future[Outcome]") -> None:
            charge.working = False
            self._ask(charge)

        future.add_done_callback(done)

    def _ask(self, charge: ManagedWorkspace) -> None:
        charge.asks = True
        self.wake()


def told(workspace: str, event: str, future: "Future[None]") -> None:
    """Log what a job failed with for which nobody waits."""
    if (error := future.exception()) is not None and not isinstance(error, StoppedError):
        logs.get(workspace=workspace).error(event, error=error)
