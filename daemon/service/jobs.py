"""Jobs: the daemon's work on one workspace: dream, consolidation pass, session maintenance, skip."""

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from daemon.config.per_dream import DreamSettings
from daemon.dream.consolidation import consolidate
from daemon.dream.progress import Step
from daemon.observability import logs
from daemon.observability.metrics import Metrics
from daemon.service.keeper import Keeper, RunningDream
from daemon.sessions import maintain
from daemon.workspace.retention import copy_if_due
from daemon.workspace.status import Problem
from daemon.workspace.stores import Store, utc_now
from state.dream import Reason
from state.errors import BusyError, FencedError, NothingToDoError, RejectedError, StoppedError
from state.stores.database.copies import DAY
from state.stores.history.ledger import Ledger

if TYPE_CHECKING:
    from daemon.dream.run import Mode, Outcome

# A pass or ingestion that takes longer continues after other workspaces have had their turn.
_TURN_SECONDS = 5.0
# The steps after which a dream stops with the daemon. Later steps are short and commit it.
_STOPPABLE = {"ingest", "absorb", "sessions", "embed", "resume", "gather", "synthesize", "guard"}


@dataclass(eq=False)
class Jobs:
    """Runs jobs, counts and logs them.

    `stopping` is set when the daemon ends. `discreet`: errors of a model are only logged.
    """

    metrics: Metrics
    stopping: threading.Event
    discreet: bool = field(default=False, kw_only=True)

    def dream(
        self,
        keeper: Keeper,
        reason: Reason,
        mode: "Mode",
        on_step: Callable[[Step], None],
        settings: DreamSettings | None = None,
    ) -> "Outcome":
        """Run one dream like `dream_now`, with settings of its own if there are any; log and count its outcome.

        Raise StoppedError after a node if the daemon stops; its next start resumes the dream there.
        """
        from daemon.dream.process import dream_beside  # late: an idle daemon does not load what dreams need

        began, since = time.monotonic(), utc_now()
        keeper.dreaming, keeper.running = "a dream begins now", (running := RunningDream(mode, since))
        try:
            with keeper.exclusive(settings=settings) as store:
                logs.get(workspace=keeper.name, reason=reason.value).info("dream_started", mode=mode.value)
                on_node = self._steps(keeper, on_step)
                try:
                    keeper.written += 1
                    outcome = dream_beside(
                        store, keeper.lock, reason, mode, on_node, discreetly=self.discreet,
                        variables=settings.variables if settings is not None else {},
                    )  # fmt: skip
                finally:  # after a failure, too
                    self._tell(keeper, store, since)
        except BaseException as error:
            running.end.set_exception(error)
            self._record_failure(keeper, reason, mode, error, time.monotonic() - began)
            raise
        finally:
            keeper.dreaming, keeper.running = "", None
        running.end.set_result(outcome)
        keeper.failures, keeper.dream_problem = 0, None
        self._record_dream(keeper, reason, outcome, time.monotonic() - began)
        return outcome

    def _tell(self, keeper: Keeper, store: Store, since: datetime) -> None:
        """Log a dream's notices, and count what was paid."""
        for notice in store.notices:
            logs.get(workspace=keeper.name).warning("dream_noticed", problem=notice)
        # Failed and refused calls cost money, too. An unreadable ledger makes the dream itself fail.
        with suppress(sqlite3.Error):
            self.metrics.paid(keeper.name, store.ledger.spent(since=since))

    def maintain(self, keeper: Keeper, store: Store, now: datetime) -> None:
        """Expire, evict and promote what is due in the sessions' working memory."""
        done = maintain(store, now)
        if done.changed:
            keeper.changed = True
            logs.get(workspace=keeper.name).info("sessions_maintained", **asdict(done))

    def consolidate(self, keeper: Keeper, reason: Reason | None, now: datetime) -> None:
        """Run one consolidation pass. Raise BusyError while something else, such as a dream, is running."""
        log, began = logs.get(workspace=keeper.name), time.monotonic()
        before = keeper.last_pass, keeper.last_spike_pass
        keeper.last_pass, keeper.last_spike_pass = now, now if reason is Reason.SPIKE else before[1]
        try:
            with keeper.exclusive(wait=False) as store:
                keeper.changed = False
                until = time.monotonic() + _TURN_SECONDS
                done = consolidate(store, now, lambda: self.stopping.is_set() or time.monotonic() >= until)
                keeper.last_copy = now
                store.notices.clear()
                copy_if_due(store, now, DAY)
                for notice in store.notices:
                    log.error("copy_failed", problem=notice)
        except BaseException as error:
            keeper.changed = True
            if isinstance(error, BusyError | FencedError):
                keeper.last_pass, keeper.last_spike_pass = before
            if isinstance(error, FencedError):
                log.warning("pass_interrupted", why=str(error))
            elif not isinstance(error, BusyError):
                why = Problem.of(error)
                keeper.pass_problem = Problem(f"the last consolidation pass failed: {why.what}", why.advice)
                self.metrics.passed(keeper.name, "failed")
                log.error("pass_failed", error=error, seconds=round(time.monotonic() - began, 3))
            raise
        keeper.pass_problem = None
        self.metrics.passed(keeper.name)
        if not done.complete:
            keeper.changed = True
            if done.changed:  # continue at once; a pass without progress waits for the next interval
                keeper.last_pass = None
        figures = {name: value for name, value in asdict(done).items() if name != "problems"}
        log.info("pass_done", reason=reason or "interval", seconds=round(time.monotonic() - began, 3), **figures)
        for problem in done.problems:
            log.warning("transcript_unread", problem=problem)

    def skip(self, keeper: Keeper, ledger: Ledger, reason: Reason, detail: str, now: datetime) -> None:
        """Record in the ledger why no dream was due."""
        keeper.last_look = now
        ledger.skip(f"{now:%Y%m%dT%H%M%S%f}Z", reason.value, detail, now)
        self.metrics.dreamed(keeper.name, reason.value, "skipped")
        logs.get(workspace=keeper.name).debug("dream_skipped", reason=reason.value, why=detail)

    def _steps(self, keeper: Keeper, on_step: Callable[[Step], None]) -> Callable[[Step], None]:
        from daemon.api.words import step_words  # late, as above

        last = time.monotonic()

        def report(step: Step) -> None:
            nonlocal last
            before, last = last, time.monotonic()
            self.metrics.node_took(step.node, last - before)
            keeper.dreaming = f"a dream runs now (it has {step_words(step.node)})"
            on_step(step)
            if self.stopping.is_set() and step.node in _STOPPABLE:
                kept = f"the dream is checkpointed after {step.node} and goes on at the next start"
                raise StoppedError("the daemon stops", kept)

        return report

    def _record_dream(self, keeper: Keeper, reason: Reason, outcome: "Outcome", seconds: float) -> None:
        dream, usage, log = outcome.dream, outcome.dream.usage, logs.get(workspace=keeper.name)
        ended = "dry" if outcome.mode.value == "dry" else "committed"
        event = f"dream_{ended}"
        self.metrics.dreamed(keeper.name, reason.value, ended, seconds=seconds)
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

    def _record_failure(
        self, keeper: Keeper, reason: Reason, mode: "Mode", error: BaseException, seconds: float
    ) -> None:
        log = logs.get(workspace=keeper.name, reason=reason.value, seconds=round(seconds, 3))
        match error:
            case NothingToDoError():
                keeper.last_look = utc_now()
                self.metrics.dreamed(keeper.name, reason.value, "skipped")
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
        keeper.dream_problem = replace(Problem.of(error), deed="dream")
        keeper.last_look = keeper.failed_at = utc_now()
        keeper.failures += 1
        self.metrics.dreamed(keeper.name, reason.value, outcome, seconds=seconds)
