"""Held: one workspace that this process holds: its lock, which is held all the time, its stores, and what is due.

Stores are opened for each use, which takes two milliseconds, so an idle workspace costs one descriptor. Short
operations run beside a dream on a connection of their own; SQLite serialises the writers.

At home the lock says it all. A fleet also has a lease and keeps what was done as a generation elsewhere: its held
workspaces (`daemon.fleet.leased`) override the methods that are empty here.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from sqlite3 import Connection
from typing import TYPE_CHECKING

from daemon.config.paths import spent_folder
from daemon.config.per_dream import DreamSettings
from daemon.config.settings import Config, day_start
from daemon.dream.consolidation import new_crystals
from daemon.dream.progress import LOOK_SECONDS, Step, follow
from daemon.engine.schedule import Decision, History, Pending, Thresholds, due, phase
from daemon.observability import logs
from daemon.sessions import next_due, waiting_count
from daemon.workspace.status import Problem, ServiceStatus, lifecycles
from daemon.workspace.stores import Store, open_owned, recover
from daemon.workspace.vector_index import Embedding, Index
from state.budget import reached
from state.document.document import parse
from state.errors import BusyError, DreamdError, FencedError
from state.scratch import HEADER
from state.stores.database.connection import transaction
from state.stores.database.copies import DAY, is_copy_due
from state.stores.database.moments import from_text, to_text
from state.stores.database.standing import standing
from state.stores.disk.disk import Disk
from state.stores.disk.lock import KEEPER, Lock, acquire
from state.stores.disk.stamp import Stamp
from state.stores.disk.workspace import Workspace
from state.stores.history.daily_spend import DailySpend
from state.stores.history.ledger import Ledger
from state.stores.history.memory import NOTES_LEFT, SESSION_ENDED

if TYPE_CHECKING:
    from daemon.dream.run import Mode, Outcome

_RUNS = 50
_FAILURES = ("failed", "rejected")
_EMPTY_LOG = len(HEADER) + 2
# An open ChromaDB has about nine threads, twenty descriptors and megabytes of memory; opening it takes a second.
IDLE_SECONDS = 120.0
# How long short operations, and passes (`daemon.engine.work`), may take.
_SHORT_SECONDS = 2.0
_PASS_SECONDS = 10.0
# Session maintenance that left something to do is due again after this time.
_MAINTAIN_AGAIN = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Facts:
    """What decisions are based on, as read from the stores.

    `sessions_due`: when session maintenance is due; `crystals`: counts by lifecycle.
    """

    history: History
    pending: Pending
    sessions_due: datetime | None
    crystals: dict[str, int]


@dataclass(frozen=True, slots=True)
class RunningDream:
    """A dream that runs since a moment. The ledger has its steps, `end` gets its outcome or error."""

    mode: "Mode"
    since: datetime
    end: "Future[Outcome]" = field(default_factory=Future)

    def follow(self, held: "Held", on_step: Callable[[Step], None]) -> "Outcome":
        """Report its steps so far and each further one; return its outcome, or raise its error, at its end."""
        with held.store() as store:
            follow(store.ledger, self.since, on_step, lambda: bool(wait([self.end], LOOK_SECONDS).done))
        return self.end.result()


class Held:
    """The lock of one workspace, and what its owner knows in addition to its stores. Thread-safe.

    `load` is called whenever the stores are opened. `awake_since`: since when it has been watched without a gap.
    """

    def __init__(
        self,
        workspace: Workspace,
        load: Callable[[], Config],
        embedding: Embedding,
        awake_since: datetime,
        name: str = "",
    ) -> None:
        self.workspace = workspace
        self.name = name or workspace.name
        self.embedding = embedding
        self.awake_since = awake_since
        self.alone: AbstractContextManager[object] = nullcontext()  # see `Memory.alone`
        self.changed = True  # since the last pass
        self.dreaming = ""  # progress of the running dream, in words
        self.running: RunningDream | None = None
        self.written = 0  # how many uses of the stores have written
        self.last_pass: datetime | None = None
        self.last_spike_pass: datetime | None = None
        self.last_look: datetime | None = None
        self.last_copy: datetime | None = None  # when this process last checked the copy of state.db
        self.maintained_at: datetime | None = None
        # Dreams that failed in this process; the ledger has them too, unless it could not be written.
        self.failures = 0
        self.failed_at: datetime | None = None
        self.dream_problem: Problem | None = None
        self.pass_problem: Problem | None = None
        self._load = load
        self._lock: Lock | None = None
        self._index: Index | None = None
        self._work = threading.Lock()  # held by `exclusive`
        self._offline = threading.Lock()
        self._idle = threading.Condition()  # guards what follows; notified when a use ends
        self._users = 0
        self._used = 0.0

    def status(
        self, pid: int, since: datetime, upcoming: str, at: datetime | None = None, others: Sequence[Problem] = ()
    ) -> ServiceStatus:
        """Return the daemon's part of the status; `others` come before the held's own unresolved problems."""
        own = (one for one in (self.dream_problem, self.pass_problem) if one is not None)
        problems, is_alone = tuple(dict.fromkeys((*others, *own))), self._work.locked()
        return ServiceStatus(pid, since, upcoming, at, self.dreaming, problems, alone=is_alone)

    @property
    def config(self) -> Config:
        """Return the configuration as it is now."""
        return self._load()

    def _report(self, error: Exception) -> None:
        logs.get(workspace=self.name).error("index_failed", error=error)

    # ------------------------------------------------------------ the lock

    @property
    def lock(self) -> Lock:
        """Return the workspace's lock. Raise BusyError if this process does not hold it."""
        if (lock := self._lock) is None:
            raise self.unkept()
        return lock

    @property
    def holds_lock(self) -> bool:
        """Return whether this process holds the workspace's lock."""
        return self._lock is not None

    def acquire(self) -> None:
        """Take the lock and recover from an interruption.

        Raise BusyError if another process has the workspace, and errors of the stores; the lock is then free.
        """
        if self._lock is not None:
            return
        if self.offline_reason:
            raise self.unkept()
        if self._users:
            # A fenced user has not noticed yet. Do not wait for it: a dream's model may take minutes.
            what = f"{self.workspace.root}: what was under way when it was taken over has to end"
            raise BusyError(what, "wait for it")
        lock = acquire(self.workspace, KEEPER)
        self._index = Index(self.workspace, lock.check, self.embedding, background=True, failed=self._report)
        self._lock = lock
        try:
            with self.exclusive() as store:
                recover(store)
        except BaseException:
            self.release()
            raise
        self.pass_problem = None  # the stores may have been repaired; the next pass reports anew

    def check_lock(self) -> bool:
        """Tell whether this process has the workspace; False also while another thread is releasing it.

        If another process has taken it over, close everything and raise FencedError.
        """
        lock = self._lock
        if lock is None:
            return False
        try:
            lock.check()
        except FencedError:
            if self._lock is not lock:
                return False
            self.release()
            raise
        return True

    def release(self) -> None:
        """Release the lock. Current users of the stores are fenced from now on."""
        with self._idle:
            lock, index = self._lock, self._index
            self._lock = self._index = None
        try:
            if index is not None:
                with suppress(DreamdError):
                    index.close()
        finally:
            if lock is not None:
                lock.release()

    @property
    def offline_reason(self) -> str:
        """Return why the workspace is temporarily released, or "" if it is not."""
        return "it is being examined or repaired" if self._offline.locked() else ""

    @contextmanager
    def offline(self) -> Iterator[None]:
        """Release the workspace, and let no thread acquire it in this context. Raise BusyError if it is in use."""
        if not self._offline.acquire(blocking=False):
            raise self.unkept()
        try:
            with self._idle:  # new users are refused from now on, so nobody is fenced
                self._idle.wait_for(lambda: not self._users or self.dreaming, _SHORT_SECONDS)
                if self.dreaming or self._users:
                    what = self.dreaming or "something is under way in it"
                    raise BusyError(f"{self.workspace.root}: {what}", "wait for it and try again")
                self.release()
            yield
        finally:
            self._offline.release()

    def unkept(self) -> BusyError:
        """Return the error that says why the stores are not available."""
        if self.offline_reason:
            return BusyError(f"{self.workspace.root}: {self.offline_reason}", "wait for it and try again")
        return BusyError(f"{self.workspace.root} is not in this daemon's keeping", "", "'dreamd status' says why")

    # ------------------------------------------------------------ the stores

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Open the stores for short work, which may run beside a dream."""
        with self._opened() as store:
            newest, written = store.crystals.newest(), self.written
            try:
                with self._counting(store.connection):
                    yield store
            finally:
                # Errors here have been raised to the user of the stores already.
                with suppress(sqlite3.Error, DreamdError):
                    if self.written != written:  # new crystals, such as promoted items, need a pass
                        self.changed |= store.crystals.newest() > newest

    @contextmanager
    def exclusive(self, *, wait: bool = True, settings: DreamSettings | None = None) -> Iterator[Store]:
        """Open the stores for long work, or work that makes a version; one user at a time, with settings of its own.

        Without `wait`, raise BusyError while there is another user.
        """
        if not self._work.acquire(blocking=wait):
            raise BusyError("something long is under way in this workspace, such as a dream", "try again")
        try:
            with self._opened(settings) as store, self._counting(store.connection):
                yield store
        finally:
            self._work.release()
            with self._idle:
                self._idle.notify_all()

    def require_awake(self) -> None:
        """Raise BusyError while a dream is running."""
        if self.dreaming:
            raise BusyError(self.dreaming, "wait for it", "'dreamd status' shows when it is done")

    def wait_for_pass(self, seconds: float = _PASS_SECONDS) -> None:
        """Wait until the stores are not in use through `exclusive`, or only by a dream."""
        with self._idle:
            self._idle.wait_for(lambda: self.dreaming or not self._work.locked(), seconds)

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until nobody uses the stores; return whether that is so."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._users, seconds)

    def close_idle(self) -> None:
        """Close ChromaDB if it has not been used for a while."""
        with self._idle:
            is_idle = time.monotonic() - self._used >= IDLE_SECONDS
            if self._index is not None and is_idle and not self._users:
                self._index.rest()

    @contextmanager
    def _opened(self, settings: DreamSettings | None = None) -> Iterator[Store]:
        self.check_lock()  # this process may have been suspended and displaced
        with self._idle:
            lock, index = self._lock, self._index
            if lock is None or index is None:
                raise self.unkept()
            self._users += 1
        try:
            config = settings.applied(self.config) if settings is not None else self.config
            with closing(open_owned(index, config, self.alone)) as store:
                yield store
        except FencedError:
            # Another process took over while this one was suspended. The next look tries to get it back.
            if self._lock is lock:
                self.release()
            raise
        finally:
            with self._idle:
                self._users, self._used = self._users - 1, time.monotonic()
                self._idle.notify_all()

    @contextmanager
    def _counting(self, connection: Connection) -> Iterator[None]:
        """Increment `written` if the context writes."""
        before = connection.total_changes
        try:
            yield
        finally:
            self.written += connection.total_changes != before

    # ------------------------------------------------------------ what is due

    def facts(self, now: datetime) -> Facts:
        """Read the facts that decisions about this workspace are based on. Raise errors of the stores."""
        with self.store() as store:
            return read_facts(store, self, now)

    def decide(self, facts: Facts, now: datetime) -> Decision | None:
        """Return what it needs now, or when it needs something; None if it needs nothing before something comes."""
        return due(now, facts.history, facts.pending, Thresholds.of(self.config))

    # ------------------------------------------------------------ what a home may keep elsewhere

    def admit(self, mode: "Mode") -> None:
        """Raise QuotaError unless a dream may begin."""

    def note_step(self) -> None:
        """Record what a dream has cost so far. Raise FencedError if it may not go on."""

    def dreamt(self, mode: "Mode", error: BaseException | None) -> None:
        """Keep what the dream did that was admitted; `error` ended it."""

    def settle(self) -> None:
        """Keep what was done."""

    def record_session_end(self, now: datetime) -> None:
        """Record durably that a session has ended, for which a dream is due."""
        with self.store() as store, transaction(store.connection):
            store.meta.put(SESSION_ENDED, to_text(now))


def read_facts(store: Store, held: Held, now: datetime) -> Facts:
    """Read the facts, and add what the held itself knows. Raise sqlite3.Error and DreamdError."""
    runs = tuple(store.ledger.runs(_RUNS))
    # A dream does not take in what arrives while it runs, so its start counts.
    dreams = [run.started_at for run in runs if run.outcome != "skipped"]
    looks = [run.ended_at or run.started_at for run in runs if run.outcome == "skipped"] + dreams
    # The latest runs that failed or were rejected in a row.
    tries = (run for run in runs if run.outcome not in ("skipped", "running"))
    failed = list(takewhile(lambda run: run.outcome in _FAILURES, tries))
    history = History(
        awake_since=held.awake_since,
        last_look=_latest([*looks, held.last_look], now),
        last_dream=_latest(dreams, now),
        failures=max(len(failed), held.failures),
        failed_at=_latest([*(run.ended_at or run.started_at for run in failed[:1]), held.failed_at], now),
        ceiling_until=_ceiling_until(store.config, store.ledger, now),
        last_pass=held.last_pass,
        last_spike_pass=held.last_spike_pass,
        schema=any(run.outcome == "committed" for run in runs) or _has_schema(store.workspace, store.memory.disk),
        phase=phase(held.name),
    )
    return Facts(history, _pending(store, held, now), sessions_due(store, held, now), lifecycles(store.connection))


def sessions_due(store: Store, held: Held, now: datetime) -> datetime | None:
    """Return when session maintenance is due; not at once again if it has just left something to do."""
    at, before = next_due(store.connection, now), held.maintained_at
    is_left = at is not None and before is not None and at <= before <= now
    return before + _MAINTAIN_AGAIN if is_left and before is not None else at


def _pending(store: Store, held: Held, now: datetime) -> Pending:
    meta, count, left = store.meta, store.notes.count(), waiting_count(store.connection)
    levels, ended = store.feelings.levels(now), meta.get(SESSION_ENDED)
    return Pending(
        notes=count.notes,
        characters=count.characters,
        bytes=count.bytes,
        new=new_crystals(store.crystals, store.lineage) + count.notes + left,
        left=bool(int(meta.get(NOTES_LEFT) or 0)),
        oldest=count.oldest,
        latest=_appended_at(store.workspace) if count.notes else None,
        session_ended=from_text(ended) if ended is not None else None,
        interrupted=bool(standing(store.connection).unfinished) and not held.dreaming,
        changed=held.changed or left > 0,
        dopamine=levels.dopamine,
        cortisol=levels.cortisol,
    )


def is_copy_wanted(held: Held, now: datetime) -> bool:
    """Tell whether the last copy of state.db is a day old. Daily copies by a pass reveal damage within a day."""
    is_tried = held.last_copy is not None and abs(now - held.last_copy) < DAY
    return not is_tried and is_copy_due(held.workspace.database, now, DAY)


def _appended_at(workspace: Workspace) -> datetime | None:
    """Return when a note was last appended, by file times, because agents write any timestamp into notes."""
    # A newly rendered scratch.md has only a title, which is not an append.
    stamps = (Stamp.of(str(path)) for path in (workspace.scratch, workspace.inbox))
    latest = max((one.written_ns for one in stamps if one is not None and one.size > _EMPTY_LOG), default=None)
    return datetime.fromtimestamp(latest / 1e9, UTC) if latest is not None else None


def _ceiling_until(config: Config, ledger: Ledger, now: datetime) -> datetime | None:
    """Return when the daily ceiling that was reached is lifted: this workspace's, or that of all workspaces."""
    if config.model.name is None:
        return None
    own, together = ledger.spent(since=day_start(now)), DailySpend(spent_folder(os.environ)).of(now)
    is_reached = reached(config.limits.ceilings, own) or reached(config.daemon.limits, together)
    return day_start(now) + timedelta(days=1) if is_reached else None


def _has_schema(workspace: Workspace, disk: Disk) -> bool:
    """Tell whether MEMORY.md has its sections, which the first dream creates."""
    content = disk.read_optional(workspace.document) or b""
    return parse(content.decode(errors="replace")).has_schema


def _latest(moments: Iterable[datetime | None], now: datetime) -> datetime | None:
    """Return the latest moment that is not in the future; a clock that was set back leaves some there."""
    return max((moment for moment in moments if moment is not None and moment <= now), default=None)
