"""Scheduler: looks at each workspace when something is due or has changed, and queues the dream, pass or upkeep."""

import os
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from daemon.config.settings import Config
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome
from daemon.observability import logs
from daemon.service.job_queue import JobQueue
from daemon.service.jobs import Jobs
from daemon.service.keeper import Keeper
from daemon.service.roster import ManagedWorkspace, Roster
from daemon.service.schedule import Action, Decision, History, Thresholds, due, phase
from daemon.service.watcher import Change
from daemon.workspace.status import Problem
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import BusyError, FencedError, StoppedError
from state.stores.database.copies import DAY, is_copy_due

if TYPE_CHECKING:
    from concurrent.futures import Future

TICK_SECONDS = 30.0
# Past these a job is taken to hang and holds no slot: a look takes milliseconds, a pass ends after seconds, and no
# model is waited for so long as a dream may last.
_LOOK_SECONDS = 5.0
_PASS_SECONDS = 120.0
_DREAM_SECONDS = 3_600.0
# Debounce: a burst of notes is ingested at most once a second.
_INGEST_SECONDS = 1.0
_SHORTEST_PAUSE = 0.05
# Wall and monotonic clock apart by this much: the machine slept, or the clock was set.
_GAP = timedelta(seconds=90)


class Scheduler:
    """One thread that queues looks and jobs; the threads of the queues carry them out.

    The scheduling thread touches no workspace, so that one on a hanging disk holds a queue's thread and delays no
    other workspace.
    """

    def __init__(
        self,
        roster: Roster,
        config: Callable[[], Config],
        jobs: Jobs,
        stopping: threading.Event,
    ) -> None:
        self.awake_since = utc_now()
        self.last_tick = time.monotonic()
        self.dreams = JobQueue("dream", config().daemon.concurrent_dreams, _DREAM_SECONDS)
        self.passes = JobQueue("pass", 1, _PASS_SECONDS)
        self.upkeep = JobQueue("upkeep", 4, _LOOK_SECONDS)
        self._queues = (self.dreams, self.passes, self.upkeep)
        self._roster = roster
        self._config = config
        self._jobs = jobs
        self._stopping = stopping
        self._woken = threading.Event()
        self._next_round_at = 0.0  # when all workspaces are looked at, on the monotonic clock
        self._next_tick_at = 0.0  # likewise
        self._thread = threading.Thread(target=self._run, name="look", daemon=True)

    def start(self) -> None:
        """Start the thread; it looks at all workspaces at once."""
        self._thread.start()

    def wake(self) -> None:
        """Look now at the workspaces where something has changed, ended or come due."""
        self._woken.set()

    def want_look(self, managed: ManagedWorkspace) -> None:
        """Look now at this workspace: it was taken up, or a job of it has ended."""
        managed.look_wanted = True
        self.wake()

    def look_at_all(self) -> None:
        """Look now at all workspaces."""
        self._next_round_at = 0.0
        self.wake()

    def stop(self, seconds: float) -> bool:
        """Start no more jobs and wait for those that run; return whether all ended in time. Set `stopping` before."""
        deadline = time.monotonic() + seconds
        self.wake()
        for queue in self._queues:
            queue.close()
        ended = [queue.drained(max(0.0, deadline - time.monotonic())) for queue in self._queues]
        if self._thread.is_alive():
            self._thread.join(max(0.1, deadline - time.monotonic()))
        return all(ended)

    def dream(
        self, keeper: Keeper, reason: Reason, mode: Mode, on_step: Callable[[Step], None] | None
    ) -> "Future[Outcome]":
        """Queue a dream. With `on_step` a client waits for it, and it goes before those that nobody waits for.

        Of the latter at most one for each reason is queued: further requests get its future.
        """
        job = partial(self._jobs.dream, keeper, reason, mode, on_step or (lambda _: None))
        once = f"{keeper.name} {reason} {mode}" if on_step is None else ""
        return self.dreams.submit(job, owner=keeper.name, urgent=on_step is not None, once=once)

    def resume(self, managed: ManagedWorkspace, keeper: Keeper) -> None:
        """Queue the dream that was interrupted."""
        self._dream(managed, keeper, Reason.CATCH_UP)

    def history(self, keeper: Keeper, now: datetime) -> History:
        """Return the history of a workspace, as `due` takes it."""
        return keeper.history(self.awake_since, phase(str(keeper.workspace.root)), now)

    def thresholds(self) -> Thresholds:
        """Return the thresholds of the triggers, as configured."""
        section = self._config().dream
        return Thresholds(
            interval=timedelta(minutes=section.interval_minutes),
            min_chunks=section.min_chunks,
            idle=timedelta(minutes=section.idle_minutes),
            passes_every=timedelta(minutes=self._config().daemon.pass_minutes),
        )

    def _run(self) -> None:
        wall, steady = utc_now(), time.monotonic()
        while not self._stopping.is_set():
            self._woken.wait(self._pause())
            self._woken.clear()
            now, self.last_tick = utc_now(), time.monotonic()
            if abs(now - wall - timedelta(seconds=self.last_tick - steady)) > _GAP:
                self.awake_since, self._next_round_at = now, 0.0
                logs.get().info("gap_noticed", seconds=round((now - wall).total_seconds()))
            wall, steady = now, self.last_tick
            try:
                self._queue_looks(now, steady)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next round comes
                logs.get().error("round_failed", error=error)

    def _queue_looks(self, now: datetime, steady: float) -> None:
        is_round = steady >= self._next_round_at
        if is_round:
            self._next_round_at = steady + TICK_SECONDS
        for queue in self._queues:
            queue.start_waiting()
        for managed in sorted(self._roster.all(), key=lambda one: not one.has_notes):
            if managed.looking:
                managed.look_wanted |= is_round  # once more, at its end
            elif is_round or managed.seconds_until_look(now, steady) <= 0:
                self._queue_look(managed)

    def _pause(self) -> float:
        """Return the seconds until a workspace is due or may be ingested, at most until the next round."""
        now, steady = utc_now(), time.monotonic()
        pauses = (managed.seconds_until_look(now, steady) for managed in self._roster.all())
        pause = max(_SHORTEST_PAUSE, min((self._next_round_at - steady, *pauses)))
        self._next_tick_at = steady + pause
        return pause

    def _queue_look(self, managed: ManagedWorkspace) -> None:
        managed.looking, managed.look_wanted = True, False
        try:
            # Those that wait to be taken up, hundreds perhaps after a start, hold up none that is at work.
            self.upkeep.submit(partial(self._look, managed), owner=managed.name, urgent=managed.holds_lock)
        except StoppedError:  # the daemon ends
            managed.looking = False

    def _look(self, managed: ManagedWorkspace) -> None:
        managed.look_started = time.monotonic()
        try:
            self._look_safely(managed, utc_now())
        finally:
            managed.look_started, managed.looking = None, False
            steady = time.monotonic()
            if steady + managed.seconds_until_look(utc_now(), steady) < self._next_tick_at:
                self.wake()

    def _look_safely(self, managed: ManagedWorkspace, now: datetime) -> None:
        """Look at one workspace; what it fails with becomes its problem."""
        try:
            self._look_at(managed, now)
        except StoppedError:
            return
        except Exception as error:  # noqa: BLE001 - it shows in the status, and once in the log
            problem = Problem.of(error)
            if managed.problem != problem:
                logs.get(workspace=managed.name).error("look_failed", error=error)
            managed.problem, managed.next = problem, None
            managed.ingest_after = managed.maintain_after = time.monotonic() + TICK_SECONDS
        else:
            if managed.keeper is not None and managed.keeper.holds_lock:
                managed.problem = None

    def _look_at(self, managed: ManagedWorkspace, now: datetime) -> None:
        keeper = managed.keeper
        if keeper is not None and keeper.offline_reason:
            return
        if keeper is None or not keeper.holds_lock:
            managed.next = None
            self._roster.acquire(managed)
            return
        if not os.path.isdir(keeper.workspace.state):  # noqa: PTH112 - Path.is_dir may raise here
            keeper.release()
            self.want_look(managed)  # which says what is wrong with it
            return
        if not keeper.check_lock():
            return
        self._roster.watch(managed)
        self._maintain(managed, keeper, now)
        self._ingest(managed, keeper)
        if managed.dreaming or keeper.dreaming:
            managed.next = None
            return
        self._copy(keeper, now)
        keeper.close_idle()
        history, pending = self.history(keeper, now), keeper.pending(now)
        now = utc_now()  # what was appended while it was read does not lie ahead
        decision = due(now, history, pending, self.thresholds())
        managed.next = decision
        if decision.action is Action.SKIP:
            self._skip(keeper, decision, now)
        elif decision.action is Action.PASS:
            self._consolidate(managed, keeper, decision, now)
        elif decision.action is Action.DREAM:
            logs.get(workspace=managed.name).info("dream_due", reason=str(decision.reason), why=decision.detail)
            self._dream(managed, keeper, decision.reason or Reason.INTERVAL)

    def _ingest(self, managed: ManagedWorkspace, keeper: Keeper) -> None:
        """Queue the ingestion of what was just written; one workspace is ingested at a time."""
        if not managed.changes or time.monotonic() < managed.ingest_after or managed.ingesting or managed.dreaming:
            return
        changes = managed.take_changes()
        managed.ingest_after = time.monotonic() + _INGEST_SECONDS
        keeper.changed = True
        if changes == {Change.DOCUMENT}:
            return

        def done(future: "Future[bool]") -> None:
            error = future.exception()
            if error is None and not future.result():  # the rest of the transcripts, after the other workspaces
                managed.changes.update(changes)
            if error is not None and not isinstance(error, StoppedError):
                managed.changes.update(changes)
                managed.ingest_after = time.monotonic() + TICK_SECONDS
            if error is not None and not isinstance(error, StoppedError | BusyError):
                logs.get(workspace=managed.name).error("notes_not_taken_in", error=error)
            managed.ingesting, managed.look_wanted = False, True
            self.wake()

        managed.ingesting = True
        try:
            future = self.passes.submit(
                partial(self._jobs.ingest, keeper, transcripts=Change.TRANSCRIPT in changes), owner=keeper.name
            )
        except BaseException:
            managed.ingesting = False
            raise
        future.add_done_callback(done)

    def _maintain(self, managed: ManagedWorkspace, keeper: Keeper, now: datetime) -> None:
        """Queue what is due in sessions. It takes little time, and runs beside a dream or a pass."""
        due_at = managed.sessions_due(time.monotonic())
        if due_at is None or due_at > now:
            return

        def done(future: "Future[None]") -> None:
            if (error := future.exception()) is not None:
                managed.maintain_after = time.monotonic() + TICK_SECONDS
                if not isinstance(error, StoppedError | BusyError):
                    logs.get(workspace=managed.name).error("sessions_not_maintained", error=error)
            managed.maintaining = False

        managed.maintaining = True
        try:
            future = self.upkeep.submit(partial(self._jobs.maintain, keeper, now), owner=keeper.name)
        except BaseException:
            managed.maintaining = False
            raise
        future.add_done_callback(done)

    def _copy(self, keeper: Keeper, now: datetime) -> None:
        """Queue a copy of state.db once a day, so that damage is noticed within a day."""
        if keeper.last_copy is not None and abs(now - keeper.last_copy) < DAY:
            return
        keeper.last_copy = now
        if not is_copy_due(keeper.workspace.database, now, DAY):
            return

        def done(future: "Future[None]") -> None:
            if isinstance(future.exception(), BusyError | FencedError):  # such as a dream: the next look tries again
                keeper.last_copy = None
            log_failure(keeper.name, "copy_failed", future)

        self.passes.submit(partial(self._jobs.copy, keeper, now), owner=keeper.name).add_done_callback(done)

    def _skip(self, keeper: Keeper, decision: Decision, now: datetime) -> None:
        keeper.last_look = now
        # In a job of its own: a look that waits for the stores would be taken to hang.
        skipped = self.upkeep.submit(
            partial(self._jobs.skip, keeper, decision.reason or Reason.INTERVAL, decision.detail, now),
            owner=keeper.name,
        )
        skipped.add_done_callback(partial(log_failure, keeper.name, "skip_not_recorded"))

    def _consolidate(self, managed: ManagedWorkspace, keeper: Keeper, decision: Decision, now: datetime) -> None:
        before = keeper.last_pass, keeper.last_spike_pass
        if decision.reason is Reason.SPIKE:
            keeper.last_spike_pass = now
        keeper.last_pass = now

        def done(future: "Future[None]") -> None:
            if isinstance(
                future.exception(), BusyError | FencedError
            ):  # such as a dream: the next look decides again
                keeper.last_pass, keeper.last_spike_pass = before
                managed.next = None
            else:
                self.want_look(managed)

        # `last_pass` keeps it from being queued twice; it shares no queue with dreams, which therefore do not wait.
        job = partial(self._jobs.consolidate, keeper, decision.reason, now)
        self.passes.submit(job, owner=keeper.name).add_done_callback(done)

    def _dream(self, managed: ManagedWorkspace, keeper: Keeper, reason: Reason) -> None:
        managed.dreaming = True
        try:
            future = self.dream(keeper, reason, Mode(self._config().dream.mode), None)
        except BaseException:
            managed.dreaming = False
            raise

        def done(_: "Future[Outcome]") -> None:
            managed.dreaming = False
            self.want_look(managed)

        future.add_done_callback(done)


def log_failure(workspace: str, event: str, future: "Future[None]") -> None:
    """Log the error of a job that nobody waits for; who was only in the way is no error."""
    if (error := future.exception()) is not None and not isinstance(error, StoppedError | BusyError):
        logs.get(workspace=workspace).error(event, error=error)
