"""Tending the workspaces: what is due in each of them, now and whenever something stirs."""

import os
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from daemon import logs
from daemon.compose import clock
from daemon.config import Config
from daemon.dreaming import Mode, Outcome
from daemon.duties import Duties
from daemon.keeping import Keeper
from daemon.progress import Step
from daemon.schedule import Act, Due, History, Thresholds, due, phase
from daemon.slots import Slots
from daemon.status import Problem
from daemon.watching import Change
from state.dream import Reason
from state.errors import BusyError, StoppedError

if TYPE_CHECKING:
    from concurrent.futures import Future

TICK_SECONDS = 30.0
# A storm of notes is taken in once in so many seconds. A clock that is so far off: the machine slept, or it was set.
_STIR_SECONDS = 1.0
_GAP = timedelta(seconds=90)


class Charge:
    """A workspace that is to be kept: its keeper, what is in the way, and what stirred since it was looked at."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.root = root
        self.keeper: Keeper | None = None
        self.problem: Problem | None = None
        self.stirred: set[Change] = set()
        self.stirred_at = 0.0
        self.working = False  # a dream of the looker's is queued or runs
        self.taking_in = False  # what was just written is queued to be taken in, or is
        self.asks = True  # for a look: it is new, or what was under way has ended
        self.maintaining = False  # the maintenance of its sessions is queued or runs
        self.maintained_at = 0.0  # not before that moment of the monotonic clock, after one that failed
        self.next: Due | None = None

    def stir(self, change: Change) -> None:
        """Something of it has changed."""
        self.stirred.add(change)

    def calls(self, now: datetime, steady: float) -> bool:
        """Whether it is worth a look before all get one; with hundreds of them, most looks would find nothing new.

        One that is not kept is tried again when all are looked at, whatever stirs in it: a try writes to the disk.
        """
        if not self.is_kept:
            return self.asks
        if (due := self.sessions_due(steady)) is not None and due <= now:
            return True
        if self.working:
            return False
        stirred = bool(self.stirred) and not self.taking_in and steady >= self.stirred_at
        return stirred or self.asks or (self.next is not None and self.next.at <= now)

    @property
    def is_kept(self) -> bool:
        """Whether the workspace is in this daemon's keeping."""
        return self.keeper is not None and self.keeper.kept

    def sessions_due(self, steady: float) -> datetime | None:
        """When maintenance of its sessions is to begin; None: it is not to, or goes on."""
        if self.keeper is None or self.maintaining or steady < self.maintained_at:
            return None
        return self.keeper.sessions_due


class Looker:
    """One thread that looks; the slots do the work. `charges` are all that are to be kept, `enter` takes one up."""

    def __init__(
        self,
        charges: Callable[[], Iterable[Charge]],
        enter: Callable[[Charge], None],
        config: Callable[[], Config],
        duties: Duties,
        stopping: threading.Event,
    ) -> None:
        self.awake_since = clock()
        self.beat = time.monotonic()
        self.dreams = Slots("dream", config().daemon.concurrent_dreams)
        self.passes = Slots("pass", 1)
        self.upkeep = Slots("upkeep", 4)
        self._charges = charges
        self._enter = enter
        self._config = config
        self._duties = duties
        self._stopping = stopping
        self._woken = threading.Event()
        self._round_at = 0.0  # when every one is looked at, on the monotonic clock
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
        """A dream in a slot; one that somebody waits for (`told`) goes before those that nobody does."""
        job = partial(self._duties.dream, keeper, reason, mode, told or (lambda _: None))
        return self.dreams.submit(job, whose=keeper.name, urgent=told is not None)

    def resume(self, charge: Charge, keeper: Keeper) -> None:
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
        wall, steady = clock(), time.monotonic()
        while not self._stopping.is_set():
            self._woken.wait(self._pause())
            self._woken.clear()
            now, self.beat = clock(), time.monotonic()
            if abs(now - wall - timedelta(seconds=self.beat - steady)) > _GAP:
                self.awake_since, self._round_at = now, 0.0
                logs.get().info("gap_noticed", seconds=round((now - wall).total_seconds()))
            wall, steady = now, self.beat
            everyone = steady >= self._round_at
            if everyone:
                self._round_at = steady + TICK_SECONDS
            for charge in self._charges():
                if self._stopping.is_set():
                    return
                if everyone or charge.calls(now, steady):
                    self._look_safely(charge, now)

    def _pause(self) -> float:
        """Until the next one is due, or has stirred; at most until all are looked at."""
        now, steady = clock(), time.monotonic()
        pause = self._round_at - steady
        for charge in self._charges():
            if not charge.is_kept:
                continue
            if (due := charge.sessions_due(steady)) is not None:
                pause = min(pause, (due - now).total_seconds())
            if charge.working:
                continue
            if charge.next is not None:
                pause = min(pause, (charge.next.at - now).total_seconds())
            if charge.stirred and not charge.taking_in:
                pause = min(pause, charge.stirred_at - steady)
        return max(0.05, pause)

    def _look_safely(self, charge: Charge, now: datetime) -> None:
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

    def _look_at(self, charge: Charge, now: datetime) -> None:
        keeper, charge.asks = charge.keeper, False
        if keeper is None or not keeper.kept:
            charge.next = None
            self._enter(charge)
            return
        if not os.path.isdir(keeper.workspace.state):  # noqa: PTH112 - Path.is_dir may raise here
            keeper.leave()
            self._ask(charge)  # what is wrong with it is told at once
            return
        keeper.check()
        self._maintain(charge, keeper, now)
        self._take_in(charge, keeper)
        if charge.working or keeper.dreaming:
            charge.next = None
            return
        keeper.rest()
        decision = due(now, self.history(keeper, now), keeper.pending(now), self.thresholds())
        charge.next = decision
        if decision.act is Act.SKIP:
            self._skip(keeper, decision, now)
        elif decision.act is Act.PASS:
            self._consolidate(charge, keeper, decision, now)
        elif decision.act is Act.DREAM:
            logs.get(workspace=charge.name).info("dream_due", reason=str(decision.reason), why=decision.detail)
            self._dream(charge, keeper, decision.reason or Reason.INTERVAL)

    def _take_in(self, charge: Charge, keeper: Keeper) -> None:
        """What was just written becomes crystals and feelings: soon, and one workspace after the other."""
        if not charge.stirred or time.monotonic() < charge.stirred_at or charge.taking_in or charge.working:
            return
        stirred, charge.stirred = charge.stirred, set()
        charge.stirred_at = time.monotonic() + _STIR_SECONDS
        keeper.changed = True
        if stirred == {Change.DOCUMENT}:
            return

        def done(future: "Future[bool]") -> None:
            error = future.exception()
            if error is None and not future.result():  # the rest of the transcripts, after the other workspaces
                charge.stirred |= stirred
            if error is not None and not isinstance(error, StoppedError):
                charge.stirred |= stirred
                charge.stirred_at = time.monotonic() + TICK_SECONDS
            if error is not None and not isinstance(error, StoppedError | BusyError):
                logs.get(workspace=charge.name).error("notes_not_taken_in", error=error)
            charge.taking_in, charge.asks = False, True
            self.wake()

        charge.taking_in = True
        try:
            future = self.passes.submit(
                partial(self._duties.take_in, keeper, transcripts=Change.TRANSCRIPT in stirred)
            )
        except BaseException:
            charge.taking_in = False
            raise
        future.add_done_callback(done)

    def _maintain(self, charge: Charge, keeper: Keeper, now: datetime) -> None:
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

    def _skip(self, keeper: Keeper, decision: Due, now: datetime) -> None:
        keeper.last_look = now
        # Not in the looker's thread: one workspace whose stores are at work would keep all others waiting.
        skipped = self.upkeep.submit(
            partial(self._duties.skip, keeper, decision.reason or Reason.INTERVAL, decision.detail, now),
            whose=keeper.name,
        )
        skipped.add_done_callback(partial(_told, keeper.name, "skip_not_recorded"))

    def _consolidate(self, charge: Charge, keeper: Keeper, decision: Due, now: datetime) -> None:
        if decision.reason is Reason.SPIKE:
            keeper.last_spike_pass = now
        keeper.last_pass = now
        # Its stamp keeps it from being due again; a dream does not wait for it to have its turn.
        self.passes.submit(partial(self._duties.consolidate, keeper, decision.reason, now)).add_done_callback(
            lambda _: self._ask(charge)
        )

    def _dream(self, charge: Charge, keeper: Keeper, reason: Reason) -> None:
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

    def _ask(self, charge: Charge) -> None:
        charge.asks = True
        self.wake()


def _told(workspace: str, event: str, future: "Future[None]") -> None:
    if (error := future.exception()) is not None and not isinstance(error, StoppedError):
        logs.get(workspace=workspace).error(event, error=error)
