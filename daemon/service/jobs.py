"""What the daemon does for one workspace: a dream, a consolidation pass, taking in what was just written."""

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime

from daemon.dream.consolidation import consolidate, embed
from daemon.dream.progress import Step
from daemon.dream.run import Mode, Outcome, dream_now
from daemon.ingest.notes import absorb_notes
from daemon.ingest.transcripts import absorb_transcripts, transcript_files
from daemon.observability import logs
from daemon.observability.metrics import Metrics
from daemon.service.keeper import Keeper
from daemon.sessions import maintain
from daemon.workspace.status import Problem
from daemon.workspace.stores import utc_now
from state.dream import Reason
from state.errors import BusyError, FencedError, NothingToDoError, RejectedError, StoppedError

# So long at once: who has more to read or to compare goes on after the others.
_TURN_SECONDS = 5.0
MOST_UNREAD = 5
# Between these nodes a dream that is told to stop does so: what follows is short, and makes it true.
_STOPPABLE = {"ingest", "absorb", "sessions", "embed", "resume", "gather", "reflect", "synthesize", "guard"}


class Jobs:
    """Does them, counts them and logs them. `stopping` is set when the daemon ends."""

    def __init__(self, metrics: Metrics, stopping: threading.Event) -> None:
        self._metrics = metrics
        self._stopping = stopping

    def dream(self, keeper: Keeper, reason: Reason, mode: Mode, told: Callable[[Step], None]) -> Outcome:
        """One dream, as `dream_now`; its end is logged and counted, whatever it is.

        Raises StoppedError at a node's end when the daemon stops: the next start goes on with it.
        """
        log = logs.get(workspace=keeper.name, reason=reason.value)
        began = time.monotonic()
        keeper.dreaming = "a dream begins now"
        ended_session, settled = keeper.session_ended, False
        try:
            with keeper.alone() as store:
                log.info("dream_started", mode=mode.value)
                since = utc_now()
                try:
                    outcome = dream_now(store, reason, mode, self._steps(keeper, told))
                    settled = mode is not Mode.DRY
                finally:
                    for notice in store.notices:
                        log.warning("dream_noticed", problem=notice)
                    if store.unread is not None:
                        keeper.unread = unread(store.unread)
                    # What failed and what was refused was paid for as well. A ledger that cannot be read is told by
                    # what the dream itself fails with.
                    with suppress(sqlite3.Error):
                        self._metrics.paid(keeper.name, store.ledger.spent(since=since))
        except BaseException as error:
            settled = isinstance(error, NothingToDoError)
            self._not_dreamt(keeper, reason, mode, error, time.monotonic() - began)
            raise
        finally:
            keeper.dreaming = ""
            # One that failed is tried again for the same reason.
            if settled and ended_session is not None:
                keeper.session_settled(ended_session)
        keeper.failures, keeper.trouble = 0, None
        self._dreamt(keeper, reason, outcome, time.monotonic() - began)
        return outcome

    def take_in(self, keeper: Keeper, *, transcripts: bool) -> bool:
        """Make crystals of what was just written, so that it is felt and found at once; passes do the rest.

        Whether all was read: it goes on for a few seconds at most. Raises BusyError when the transcripts have to wait
        for a dream.
        """
        with keeper.store() as store:
            absorb_notes(store, utc_now())
        if not transcripts:
            return True
        enough = self._enough()
        with keeper.alone(wait=False) as store:
            found = absorb_transcripts(store, transcript_files(store), utc_now(), stop=enough)
            complete = not enough()
            if found.turns and complete:
                embed(store, enough)
        keeper.unread = unread(found.problems)
        if found.turns or found.problems:
            log = logs.get(workspace=keeper.name)
            log.info("transcripts_read", turns=found.turns, problems=len(found.problems))
            for problem in found.problems:
                log.warning("transcript_unread", problem=problem)
        return complete

    def _enough(self) -> Callable[[], bool]:
        until = time.monotonic() + _TURN_SECONDS
        return lambda: self._stopping.is_set() or time.monotonic() >= until

    def maintain(self, keeper: Keeper, now: datetime) -> None:
        """What time does to the sessions' working memory."""
        with keeper.store() as store:
            done = maintain(store, now)
        if done.changed:
            keeper.changed = True
            figures = asdict(done)
            logs.get(workspace=keeper.name).info("sessions_maintained", **figures)

    def consolidate(self, keeper: Keeper, reason: Reason | None, now: datetime) -> None:
        """One pass. Raises BusyError when a dream is under way."""
        log = logs.get(workspace=keeper.name)
        began = time.monotonic()
        try:
            with keeper.alone(wait=False) as store:
                keeper.changed = False
                done = consolidate(store, now, self._enough())
        except BusyError:
            raise
        except Exception as error:
            keeper.changed = True
            keeper.pass_trouble = _told_of_pass(error)
            self._metrics.passed(keeper.name, "failed")
            log.error("pass_failed", error=error, seconds=round(time.monotonic() - began, 3))
            raise
        keeper.pass_trouble = None
        keeper.unread = unread(done.problems)
        self._metrics.passed(keeper.name)
        if not done.complete:
            keeper.changed = True
            if done.changed:  # it goes on at once; a pass that moves nothing in its time waits for the next one
                keeper.last_pass = None
        figures = {name: value for name, value in asdict(done).items() if name != "problems"}
        log.info("pass_done", reason=reason or "interval", seconds=round(time.monotonic() - began, 3), **figures)
        for problem in done.problems:
            log.warning("transcript_unread", problem=problem)

    def skip(self, keeper: Keeper, reason: Reason, detail: str, now: datetime) -> None:
        """A look came to nothing, and the ledger knows why."""
        with keeper.store() as store:
            store.ledger.skip(f"{now:%Y%m%dT%H%M%S%f}Z", reason.value, detail, now)
        self._metrics.dreamed(keeper.name, reason.value, "skipped")
        logs.get(workspace=keeper.name).debug("dream_skipped", reason=reason.value, why=detail)

    def _steps(self, keeper: Keeper, told: Callable[[Step], None]) -> Callable[[Step], None]:
        last = time.monotonic()

        def tell(step: Step) -> None:
            nonlocal last
            now = time.monotonic()
            self._metrics.node_took(step.node, now - last)
            last = now
            keeper.dreaming = f"a dream runs now ({step.node} is done)"
            told(step)
            if self._stopping.is_set() and step.node in _STOPPABLE:
                raise StoppedError(
                    "the daemon stops", f"the dream is checkpointed after {step.node} and goes on at the next start"
                )

        return tell

    def _dreamt(self, keeper: Keeper, reason: Reason, outcome: Outcome, seconds: float) -> None:
        dream, usage = outcome.dream, outcome.dream.usage
        ended = {Mode.AUTO: "committed", Mode.PROPOSE: "proposed", Mode.DRY: "dry"}[outcome.mode]
        self._metrics.dreamed(keeper.name, reason.value, ended, seconds=seconds)
        for refusal in outcome.refused:
            self._metrics.refused(refusal.guard)
        logs.get(workspace=keeper.name).info(
            f"dream_{ended}",
            dream=dream.id,
            version=dream.number,
            reason=dream.reason,
            notes=dream.notes,
            births=len(dream.births),
            deaths=len(dream.deaths),
            refused=len(outcome.refused),
            resumed=outcome.resumed,
            model=usage.model,
            calls=usage.calls,
            tokens=usage.tokens,
            usd=round(usage.usd, 6),
            seconds=round(seconds, 3),
        )

    def _not_dreamt(self, keeper: Keeper, reason: Reason, mode: Mode, error: BaseException, seconds: float) -> None:
        log = logs.get(workspace=keeper.name, reason=reason.value, seconds=round(seconds, 3))
        if isinstance(error, NothingToDoError):
            keeper.last_look = utc_now()
            self._metrics.dreamed(keeper.name, reason.value, "skipped")
            log.info("dream_skipped", why=str(error))
        elif isinstance(error, StoppedError | FencedError):
            log.warning("dream_interrupted", why=str(error))
        elif isinstance(error, RejectedError):
            _failed(keeper, error)
            self._metrics.dreamed(keeper.name, reason.value, "rejected", seconds=seconds)
            log.warning("dream_rejected", why=str(error))
        elif isinstance(error, BusyError):
            log.info("dream_held_up", why=str(error))
        else:
            _failed(keeper, error)
            self._metrics.dreamed(keeper.name, reason.value, "failed", seconds=seconds)
            log.error("dream_failed", error=error, mode=mode.value)


def unread(problems: Sequence[str]) -> tuple[Problem, ...]:
    """What of the transcripts could not be read, as the status tells it: the first few, and how many more."""
    told = tuple(Problem(" ".join(problem.split())) for problem in problems[:MOST_UNREAD])
    if len(problems) <= MOST_UNREAD:
        return told
    more = Problem(f"{len(problems) - MOST_UNREAD} more parts of transcripts could not be read", "the log names them")
    return (*told, more)


def _told_of_pass(error: BaseException) -> Problem:
    said = Problem.of(error)
    return Problem(f"the last consolidation pass failed: {said.what}", said.advice)


def _failed(keeper: Keeper, error: BaseException) -> None:
    """The next try waits, and longer each time: the ledger could not be told perhaps."""
    keeper.trouble = Problem.of(error)
    keeper.last_look = keeper.failed_at = utc_now()
    keeper.failures += 1
