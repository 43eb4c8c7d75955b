"""Keeper: one workspace that this process keeps: its lock, which is held all the time, and its stores.

Stores are opened for each use, which takes two milliseconds, so an idle workspace costs one descriptor. Short
operations run beside a dream on a connection of their own; SQLite serialises the writers. A client's call on the
workspace is a `DaemonAccess`.
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
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING

from daemon.api.access import LockedWorkspace, WorkspaceAccess
from daemon.api.dispatch import KEEPER
from daemon.config.paths import spent_folder
from daemon.config.per_dream import DreamSettings
from daemon.config.settings import Config, day_start
from daemon.dream.consolidation import new_crystals
from daemon.dream.progress import LOOK_SECONDS, Step, follow
from daemon.observability import logs
from daemon.service.schedule import History, Pending
from daemon.sessions import next_due, waiting_count
from daemon.workspace.status import Problem, ServiceStatus, lifecycles
from daemon.workspace.stores import Store, open_owned, open_readonly, recover, utc_now
from daemon.workspace.vector_index import Embedding, Index
from state.budget import reached
from state.document.document import parse
from state.dream import Reason
from state.errors import BusyError, DreamdError, FencedError, NotKeptError
from state.scratch import HEADER
from state.stores.database.connection import may_write, transaction
from state.stores.database.copies import DAY, is_copy_due
from state.stores.database.moments import from_text, to_text
from state.stores.database.standing import standing
from state.stores.disk.disk import Disk
from state.stores.disk.lock import Lock, acquire
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
# How long short operations, and passes (`daemon.service.jobs`), may take.
_SHORT_SECONDS = 2.0
_PASS_SECONDS = 10.0
_RELEASE_SECONDS = 5.0  # how long releasing the lock may take


@dataclass(frozen=True, slots=True)
class Facts:
    """What decisions are based on, as read from the stores.

    `unfinished_dream` is its id; `sessions_due`: when session maintenance is due; `crystals`: counts by lifecycle.
    """

    history: History
    pending: Pending
    unfinished_dream: str
    sessions_due: datetime | None
    crystals: dict[str, int]


@dataclass(frozen=True, slots=True)
class RunningDream:
    """A dream that runs since a moment. The ledger has its steps, `end` gets its outcome or error."""

    mode: "Mode"
    since: datetime
    end: "Future[Outcome]" = field(default_factory=Future)

    def follow(self, keeper: "Keeper", on_step: Callable[[Step], None]) -> "Outcome":
        """Report its steps so far and each further one; return its outcome, or raise its error, at its end."""
        with keeper.store() as store:
            follow(store.ledger, self.since, on_step, lambda: bool(wait([self.end], LOOK_SECONDS).done))
        return self.end.result()


class Keeper:
    """The lock of one workspace, and what its owner knows in addition to its stores. Thread-safe.

    `config` is called whenever the stores are opened.
    """

    def __init__(self, workspace: Workspace, name: str, config: Callable[[], Config], embedding: Embedding) -> None:
        self.workspace = workspace
        self.name = name
        self.embedding = embedding
        self.alone: AbstractContextManager[object] = nullcontext()  # see `Memory.alone`
        self.changed = True  # since the last pass
        self.dreaming = ""  # progress of the running dream, in words
        self.running: RunningDream | None = None
        self.written = 0  # how many uses of the stores have written
        self.last_pass: datetime | None = None
        self.last_spike_pass: datetime | None = None
        self.last_look: datetime | None = None
        self.last_copy: datetime | None = None  # when this process last checked the copy of state.db
        # Dreams that failed in this process; the ledger has them too, unless it could not be written.
        self.failures = 0
        self.failed_at: datetime | None = None
        self.dream_problem: Problem | None = None
        self.pass_problem: Problem | None = None
        self._config = config
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
        """Return the daemon's part of the status; `others` come before the keeper's own unresolved problems."""
        own = (one for one in (self.dream_problem, self.pass_problem) if one is not None)
        problems, is_alone = tuple(dict.fromkeys((*others, *own))), self._work.locked()
        return ServiceStatus(pid, since, upcoming, at, self.dreaming, problems, alone=is_alone)

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
            config = settings.applied(self._config()) if settings is not None else self._config()
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

    # ------------------------------------------------------------ what decisions go by

    def facts(self, awake_since: datetime, phase: float, now: datetime) -> Facts:
        """Read the facts that decisions about this workspace are based on. Raise errors of the stores."""
        with self.store() as store:
            return read_facts(store, self, awake_since, phase, now)

    def record_session_end(self, now: datetime) -> None:
        """Record durably that a session has ended, for which a dream is due."""
        with self.store() as store, transaction(store.connection):
            store.meta.put(SESSION_ENDED, to_text(now))


def read_facts(store: Store, keeper: Keeper, awake_since: datetime, phase: float, now: datetime) -> Facts:
    """Read the facts, and add what the keeper itself knows. Raise sqlite3.Error and DreamdError."""
    runs = tuple(store.ledger.runs(_RUNS))
    # A dream does not take in what arrives while it runs, so its start counts.
    dreams = [run.started_at for run in runs if run.outcome != "skipped"]
    looks = [run.ended_at or run.started_at for run in runs if run.outcome == "skipped"] + dreams
    # The latest runs that failed or were rejected in a row.
    tries = (run for run in runs if run.outcome not in ("skipped", "running"))
    failed = list(takewhile(lambda run: run.outcome in _FAILURES, tries))
    history = History(
        awake_since=awake_since,
        last_look=_latest([*looks, keeper.last_look], now),
        last_dream=_latest(dreams, now),
        failures=max(len(failed), keeper.failures),
        failed_at=_latest([*(run.ended_at or run.started_at for run in failed[:1]), keeper.failed_at], now),
        ceiling_until=_ceiling_until(store.config, store.ledger, now),
        last_pass=keeper.last_pass,
        last_spike_pass=keeper.last_spike_pass,
        schema=any(run.outcome == "committed" for run in runs) or _has_schema(store.workspace, store.memory.disk),
        phase=phase,
    )
    crystals, unfinished = lifecycles(store.connection), standing(store.connection).unfinished
    return Facts(history, _pending(store, keeper, now), unfinished, next_due(store.connection, now), crystals)


def _pending(store: Store, keeper: Keeper, now: datetime) -> Pending:
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
        changed=keeper.changed or left > 0,
        dopamine=levels.dopamine,
        cortisol=levels.cortisol,
    )


def is_copy_wanted(keeper: Keeper, now: datetime) -> bool:
    """Tell whether the last copy of state.db is a day old. Daily copies by a pass reveal damage within a day."""
    is_tried = keeper.last_copy is not None and abs(now - keeper.last_copy) < DAY
    return not is_tried and is_copy_due(keeper.workspace.database, now, DAY)


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


def not_kept(root: Path, why: Problem | None) -> NotKeptError:
    """Return the error that says why the daemon does not keep this workspace; by default, it is still opening it."""
    why = why or Problem("the daemon is still opening this workspace", "try again")
    return NotKeptError(f"{root} is not in the daemon's keeping: {why.what}", why.advice)


@dataclass(slots=True)
class DaemonAccess(WorkspaceAccess):
    """One client's call on a workspace that the daemon keeps: a `WorkspaceAccess` over the keeper's stores.

    `dream_now` runs a dream with a client's `on_step`, and its `settings` if it has any; `ask` requests one soon;
    `note_taken` makes the workspace's thread look at once; `service_status` is what `service` returns; `acquire`
    reopens a released workspace; `read_config` has the daemon read its configuration again, and returns it.
    """

    keeper: Keeper
    config: Config = field()
    on_step: Callable[[Step], None]
    dream_now: "Callable[..., Outcome]"
    ask: Callable[[Reason], None]
    note_taken: Callable[[], None]
    service_status: Callable[[], ServiceStatus]
    acquire: Callable[[], object]
    notices: list[str] = field(default_factory=list)
    settings: DreamSettings | None = None
    read_config: Callable[[], Config] | None = None

    @property
    def workspace(self) -> Workspace:
        """Return the workspace that the keeper holds."""
        return self.keeper.workspace

    def read(self) -> AbstractContextManager[Store]:
        """Open the stores as `write` does, but read-only while another process has the workspace, or without room."""
        if not (self.keeper.holds_lock and may_write(self.workspace.database)):
            return self._noticing(open_readonly(self.workspace, self.config))
        return self._noticing(self.keeper.store())

    def write(self) -> AbstractContextManager[Store]:
        """Open the stores, also while a dream runs."""
        return self._noticing(self._require_keeper().store())

    def exclusive(self, *, wait: bool = False) -> AbstractContextManager[Store]:
        """Open the stores for one user at a time. Raise BusyError during a dream, unless `wait` is set.

        Always wait for a pass, which takes seconds. With `wait` the caller queues, because retries might never
        succeed between consecutive dreams.
        """
        keeper = self._require_keeper()
        if not wait:
            keeper.wait_for_pass()
        return self._noticing(keeper.exclusive(wait=wait))

    @contextmanager
    def offline(self) -> Iterator[LockedWorkspace]:
        """Release the workspace and lock it for this call; afterwards the keeper acquires it again."""
        keeper = self._require_keeper()
        keeper.wait_for_pass()
        try:
            with keeper.offline(), acquire(self.workspace, KEEPER, _RELEASE_SECONDS) as lock:
                yield LockedWorkspace(lock.check, keeper.embedding)
        finally:
            self.acquire()

    def dream(self, reason: Reason, mode: "Mode") -> "Outcome":
        """Run a dream, ahead of those that no client waits for; or follow the one that is running.

        Raise BusyError if one of the two is a dry run, which changes nothing.
        """
        from daemon.dream.run import Mode  # late, as in `Jobs`

        keeper = self._require_keeper()
        if (running := keeper.running) is not None and Mode.DRY not in (running.mode, mode):
            self.report(Step("follow", "a dream was running already; what came since it began is for the next one"))
            self._ignore_settings()
            return running.follow(keeper, self.report)
        keeper.require_awake()
        own = {"settings": self.settings} if self.settings is not None else {}
        return self.dream_now(reason, mode, self.report, **own)

    def take(self, settings: DreamSettings) -> None:
        """Use these settings for a dream of this call. Raise ConfigError for invalid ones."""
        settings.applied(self.config)
        self.settings = settings

    def reload(self) -> None:
        """Have the daemon read its configuration again. Raise ConfigError if it is invalid."""
        if self.read_config is not None:
            self.config = self.read_config()

    def _ignore_settings(self) -> None:
        if self.settings is not None and self.settings.sections:
            self.notices.append("the daemon dreams with its own settings; those of this call are not used")

    def dream_soon(self, reason: Reason) -> bool:
        """Request a dream. A session's end is recorded durably, and the schedule decides when to dream."""
        self._ignore_settings()
        if reason is Reason.SESSION_END:
            self._require_keeper().record_session_end(utc_now())
            self.note_taken()
        else:
            self._require_keeper()
            self.ask(reason)
        return True

    def service(self) -> ServiceStatus:
        """Return the daemon's part of this workspace's status."""
        return self.service_status()

    def report(self, step: Step) -> None:
        """Report the step to the client."""
        self.on_step(step)

    def mark_changed(self) -> None:
        """Make the workspace's thread look at once, because a note was written."""
        self.keeper.changed = True
        self.note_taken()

    def _require_keeper(self) -> Keeper:
        """Return the keeper, if it holds the lock. Raise BusyError while it is offline, else NotKeptError."""
        if self.keeper.offline_reason:
            raise self.keeper.unkept()
        if not self.keeper.holds_lock:
            raise not_kept(self.workspace.root, next(iter(self.service().problems), None))
        return self.keeper

    @contextmanager
    def _noticing(self, using: AbstractContextManager[Store]) -> Iterator[Store]:
        with using as store:
            try:
                yield store
            finally:
                self.notices += store.notices
