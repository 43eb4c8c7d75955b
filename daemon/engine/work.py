"""Work: what is done in a held workspace, at home and in a fleet alike: look, dream, consolidate, skip.

    look: session maintenance, new notes ─> decide: DREAM, PASS, SKIP or WAIT ─> dream or pass ─> settle

Nothing runs twice in one workspace, and slots bound how many dreams and passes run at once.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from daemon.config.per_dream import DreamSettings
from daemon.dream.consolidation import consolidate
from daemon.dream.progress import Step
from daemon.engine.held import Facts, Held, RunningDream, read_facts, sessions_due
from daemon.engine.schedule import Action, Decision
from daemon.ingest.notes import absorb_notes
from daemon.observability import logs
from daemon.observability.metrics import Metrics
from daemon.sessions import maintain
from daemon.workspace.retention import copy_if_due
from daemon.workspace.searching import embed_new
from daemon.workspace.status import Problem
from daemon.workspace.stores import Store, utc_now
from state.dream import Reason
from state.errors import BusyError, DreamdError, FencedError, NothingToDoError, RejectedError, StoppedError
from state.stores.database.copies import DAY
from state.stores.history.ledger import Ledger

if TYPE_CHECKING:
    from daemon.dream.run import Mode, Outcome

# A pass or ingestion that takes longer continues after other workspaces have had their turn.
_TURN_SECONDS = 5.0
# A job that takes longer counts as hanging and gives up its slot. Passes take seconds, and the timeouts of models are
# shorter than this limit for dreams.
_PASS_SECONDS = 120.0
_DREAM_SECONDS = 3_600.0
_SLOT_SECONDS = 0.5
# The steps after which a dream stops with the daemon. Later steps are short and commit it.
_STOPPABLE = {"ingest", "absorb", "sessions", "embed", "resume", "gather", "synthesize", "guard"}


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
class Work:
    """Does the work of all held workspaces of a process, counts and logs it. Any thread may call.

    `stopping` is set when the process ends. `dreams_at_once` and `passes_at_once` are numbers of slots. `discreet`:
    errors of a model are only logged.
    """

    metrics: Metrics
    stopping: threading.Event
    dreams_at_once: int
    passes_at_once: int = 1
    discreet: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self.dreams = Slots(self.dreams_at_once, _DREAM_SECONDS)
        self._passes = Slots(self.passes_at_once, _PASS_SECONDS)

    def look(self, held: Held, *, notes_came: bool = False) -> tuple[Facts, Decision | None]:
        """Maintain sessions, take in what is new, so that searches find it at once, and return what is due."""
        with held.store() as store:
            self._maintain(held, store, utc_now())
            if notes_came:
                absorb_notes(store, utc_now())
            embed_new(store)
            facts = read_facts(store, held, utc_now())
            now = utc_now()  # so that notes appended during the read are not in the future
            decision = held.decide(facts, now)
            if decision is not None and decision.action is Action.SKIP:
                self._skip(held, store.ledger, decision, now)
        return facts, decision

    def do(self, held: Held, decision: Decision) -> None:
        """Dream or run a pass, as decided. Raise as these do."""
        if decision.action is Action.DREAM:
            from daemon.dream.run import Mode  # late: an idle daemon does not load what dreams need

            logs.get(workspace=held.name).info("dream_due", reason=str(decision.reason), why=decision.detail)
            self.dream(held, decision.reason or Reason.INTERVAL, Mode.AUTO)
        elif decision.action is Action.PASS:
            self.consolidate(held, decision.reason)

    # ------------------------------------------------------------ dreams

    def dream(
        self,
        held: Held,
        reason: Reason,
        mode: "Mode",
        on_step: Callable[[Step], None] | None = None,
        settings: DreamSettings | None = None,
    ) -> "Outcome":
        """Run a dream once there is a slot; with `on_step`, ahead of those that no client awaits.

        Raise BusyError while another dream of the workspace is running, and StoppedError if the process stops: the
        next start resumes the dream after its last step.
        """
        with self.dreams.turn(self.stopping.is_set, is_awaited=on_step is not None) as has_slot:
            if not has_slot:
                raise StoppedError("the daemon is stopping", "what was asked for waits for its next start")
            held.require_awake()
            held.admit(mode)
            error: BaseException | None = None
            try:
                return self._dream(held, reason, mode, on_step or _ignore, settings)
            except BaseException as failed:
                error = failed
                raise
            finally:
                held.dreamt(mode, error)

    def _dream(
        self,
        held: Held,
        reason: Reason,
        mode: "Mode",
        on_step: Callable[[Step], None],
        settings: DreamSettings | None,
    ) -> "Outcome":
        """Run one dream like `dream_now`, with settings of its own if there are any; log and count its outcome."""
        from daemon.dream.process import dream_beside  # late, as above

        began, since = time.monotonic(), utc_now()
        held.dreaming, held.running = "a dream begins now", (running := RunningDream(mode, since))
        try:
            with held.exclusive(settings=settings) as store:
                logs.get(workspace=held.name, reason=reason.value).info("dream_started", mode=mode.value)
                on_node = self._steps(held, on_step)
                try:
                    held.written += 1
                    outcome = dream_beside(
                        store, held.lock, reason, mode, on_node, discreetly=self.discreet,
                        variables=settings.variables if settings is not None else {},
                    )  # fmt: skip
                finally:  # after a failure, too
                    self._tell(held, store, since)
        except BaseException as error:
            running.end.set_exception(error)
            self._record_failure(held, reason, mode, error, time.monotonic() - began)
            raise
        finally:
            held.dreaming, held.running = "", None
        running.end.set_result(outcome)
        held.failures, held.dream_problem = 0, None
        self._record_dream(held, reason, outcome, time.monotonic() - began)
        return outcome

    def _tell(self, held: Held, store: Store, since: datetime) -> None:
        """Log a dream's notices, and count what was paid."""
        for notice in store.notices:
            logs.get(workspace=held.name).warning("dream_noticed", problem=notice)
        # Failed and refused calls cost money, too. An unreadable ledger makes the dream itself fail.
        with suppress(sqlite3.Error):
            self.metrics.paid(held.name, store.ledger.spent(since=since))

    # ------------------------------------------------------------ shorter work

    def _maintain(self, held: Held, store: Store, now: datetime) -> None:
        """Expire, evict and promote what is due in sessions' working memory; a failure waits for the next time."""
        try:
            if (at := sessions_due(store, held, now)) is None or at > now:
                return
            held.maintained_at = now
            done = maintain(store, now)
        except (sqlite3.Error, DreamdError) as error:
            logs.get(workspace=held.name).error("sessions_not_maintained", error=error)
            return
        if done.changed:
            held.changed = True
            logs.get(workspace=held.name).info("sessions_maintained", **asdict(done))

    def consolidate(self, held: Held, reason: Reason | None) -> None:
        """Run one consolidation pass once there is a slot.

        Raise BusyError while something else, such as a dream, is running, and StoppedError if the process stops.
        """
        with self._passes.turn(self.stopping.is_set) as has_slot:
            if not has_slot:
                raise StoppedError("the daemon is stopping", "what was new is taken in at its next start")
            try:
                self._consolidate(held, reason, utc_now())
            finally:
                held.settle()

    def _consolidate(self, held: Held, reason: Reason | None, now: datetime) -> None:
        log, began = logs.get(workspace=held.name), time.monotonic()
        before = held.last_pass, held.last_spike_pass
        held.last_pass, held.last_spike_pass = now, now if reason is Reason.SPIKE else before[1]
        try:
            with held.exclusive(wait=False) as store:
                held.changed = False
                until = time.monotonic() + _TURN_SECONDS
                done = consolidate(store, now, lambda: self.stopping.is_set() or time.monotonic() >= until)
                held.last_copy = now
                store.notices.clear()
                copy_if_due(store, now, DAY)
                for notice in store.notices:
                    log.error("copy_failed", problem=notice)
        except BaseException as error:
            held.changed = True
            if isinstance(error, BusyError | FencedError):
                held.last_pass, held.last_spike_pass = before
            if isinstance(error, FencedError):
                log.warning("pass_interrupted", why=str(error))
            elif not isinstance(error, BusyError):
                why = Problem.of(error)
                held.pass_problem = Problem(f"the last consolidation pass failed: {why.what}", why.advice)
                self.metrics.passed(held.name, "failed")
                log.error("pass_failed", error=error, seconds=round(time.monotonic() - began, 3))
            raise
        held.pass_problem = None
        self.metrics.passed(held.name)
        if not done.complete:
            held.changed = True
            if done.changed:  # continue at once; a pass without progress waits for the next interval
                held.last_pass = None
        figures = {name: value for name, value in asdict(done).items() if name != "problems"}
        log.info("pass_done", reason=reason or "interval", seconds=round(time.monotonic() - began, 3), **figures)
        for problem in done.problems:
            log.warning("transcript_unread", problem=problem)

    def _skip(self, held: Held, ledger: Ledger, decision: Decision, now: datetime) -> None:
        """Record in the ledger why no dream was due."""
        held.last_look, reason = now, (decision.reason or Reason.INTERVAL).value
        ledger.skip(f"{now:%Y%m%dT%H%M%S%f}Z", reason, decision.detail, now)
        self.metrics.dreamed(held.name, reason, "skipped")
        logs.get(workspace=held.name).debug("dream_skipped", reason=reason, why=decision.detail)

    def _steps(self, held: Held, on_step: Callable[[Step], None]) -> Callable[[Step], None]:
        from daemon.api.words import step_words  # late, as above

        last = time.monotonic()

        def report(step: Step) -> None:
            nonlocal last
            before, last = last, time.monotonic()
            self.metrics.node_took(step.node, last - before)
            held.note_step()
            held.dreaming = f"a dream runs now (it has {step_words(step.node)})"
            on_step(step)
            if self.stopping.is_set() and step.node in _STOPPABLE:
                kept = f"the dream is checkpointed after {step.node} and goes on at the next start"
                raise StoppedError("the daemon stops", kept)

        return report

    def _record_dream(self, held: Held, reason: Reason, outcome: "Outcome", seconds: float) -> None:
        dream, usage, log = outcome.dream, outcome.dream.usage, logs.get(workspace=held.name)
        ended = "dry" if outcome.mode.value == "dry" else "committed"
        event = f"dream_{ended}"
        self.metrics.dreamed(held.name, reason.value, ended, seconds=seconds)
        for problem in dream.problems:
            log.warning("dream_noticed", problem=problem)
        for refusal in outcome.refused:
            self.metrics.refused(refusal.guard)
        log.info(
            event, dream=dream.id, version=dream.number, reason=dream.reason, notes=dream.notes,
            births=len(dream.came), deaths=len(dream.left), refused=len(outcome.refused), resumed=outcome.resumed,
            model=usage.model, calls=usage.calls, tokens=usage.tokens, usd=round(usage.usd, 6),
            seconds=round(seconds, 3),
        )  # fmt: skip

    def _record_failure(self, held: Held, reason: Reason, mode: "Mode", error: BaseException, seconds: float) -> None:
        log = logs.get(workspace=held.name, reason=reason.value, seconds=round(seconds, 3))
        match error:
            case NothingToDoError():
                held.last_look = utc_now()
                self.metrics.dreamed(held.name, reason.value, "skipped")
                log.info("dream_skipped", why=str(error))
                return
            case StoppedError() | FencedError():
                log.warning("dream_interrupted", why=str(error))
                return
            case BusyError():
                log.info("dream_held_up", why=str(error))
                return
            case RejectedError():
                outcome = "rejected"
                log.warning("dream_rejected", why=str(error))
            case _:
                outcome = "failed"
                log.error("dream_failed", error=error, mode=mode.value)
        # Back off, longer after each failure, even if the ledger could not be written.
        held.dream_problem = replace(Problem.of(error), deed="dream")
        held.last_look = held.failed_at = utc_now()
        held.failures += 1
        self.metrics.dreamed(held.name, reason.value, outcome, seconds=seconds)


def _ignore(_: Step) -> None:
    pass
