"""Keeper: one workspace in this process's keeping: its lock, which is held all the time, and its stores.

Stores are opened for each use and closed after it, which takes two milliseconds; so a workspace at rest costs a
descriptor. What is short works beside a dream, at a connection of its own: SQLite puts writers in order. A client's
call on it is a `DaemonAccess`.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from sqlite3 import Connection
from typing import TYPE_CHECKING

from daemon.api.access import LockedWorkspace, ReplyT
from daemon.api.dispatch import KEEPER
from daemon.config.paths import spent_folder
from daemon.config.settings import Config, day_start
from daemon.dream.consolidation import new_crystals
from daemon.dream.progress import Step
from daemon.observability import logs
from daemon.service.schedule import History, Pending
from daemon.sessions import next_due, waiting_count
from daemon.workspace.status import Problem, ServiceStatus, lifecycles
from daemon.workspace.stores import Store, open_owned, open_readonly, recover, utc_now
from daemon.workspace.vector_index import Embedding, Index
from state.document.document import parse
from state.dream import Reason
from state.errors import BusyError, DreamdError, FencedError, NotKeptError
from state.scratch import HEADER
from state.stores.crystals.hormones import Feelings
from state.stores.crystals.nearest import SCANNED_UP_TO
from state.stores.database.connection import from_text, to_text, transaction
from state.stores.database.copies import DAY, is_copy_due
from state.stores.database.meta import Meta
from state.stores.disk.disk import Disk
from state.stores.disk.lock import Lock, acquire
from state.stores.disk.stamp import Stamp
from state.stores.disk.workspace import Workspace
from state.stores.history.daily_spend import DailySpend
from state.stores.history.ledger import Ledger
from state.stores.history.memory import NOTES_LEFT, SESSION_ENDED

if TYPE_CHECKING:
    from daemon.api.operations.operation import Operation
    from daemon.api.operations.request import Request
    from daemon.dream.run import Mode, Outcome

_RUNS = 50
_FAILURES = ("failed", "rejected")
_EMPTY_LOG = len(HEADER) + 2
# An open ChromaDB holds some nine threads, twenty descriptors and megabytes; to open it takes a second.
IDLE_SECONDS = 120.0
# What is short has ended by then, and a pass within seconds (`daemon.service.jobs`).
_SHORT_SECONDS = 2.0
_PASS_SECONDS = 10.0
_RELEASE_SECONDS = 5.0  # until the keeper's lock is free


@dataclass(frozen=True, slots=True)
class Facts:
    """`unfinished_dream`: its id; `sessions_due`: when sessions want maintenance; `crystals` counted by lifecycle."""

    history: History
    pending: Pending
    unfinished_dream: str
    sessions_due: datetime | None
    crystals: dict[str, int]


class Keeper:
    """The lock of one workspace, and what its owner knows beside its stores. Any thread may call.

    `config` is asked whenever the stores are opened.
    """

    def __init__(self, workspace: Workspace, name: str, config: Callable[[], Config], embedding: Embedding) -> None:
        self.workspace = workspace
        self.name = name
        self.embedding = embedding
        self.alone: AbstractContextManager[object] = nullcontext()  # as of `Memory`
        self.changed = True  # since the last pass
        self.dreaming = ""  # how far the dream is that runs, in words
        self.written = 0  # so many times, by whoever used the stores
        self.last_pass: datetime | None = None
        self.last_spike_pass: datetime | None = None
        self.last_look: datetime | None = None
        self.last_copy: datetime | None = None  # when this process last made sure that there is a copy of state.db
        # Failed dreams of this process; the ledger knows them too, unless it could not be written.
        self.failures = 0
        self.failed_at: datetime | None = None
        self.dream_problem: Problem | None = None
        self.pass_problem: Problem | None = None
        self.unread_transcripts: tuple[Problem, ...] = ()
        self._config = config
        self._lock: Lock | None = None
        self._index: Index | None = None
        self._work = threading.Lock()  # of who does what takes long
        self._offline = threading.Lock()
        self._idle = threading.Condition()  # of what follows; notified when a use has ended
        self._users = 0
        self._used = 0.0
        self._is_small = True  # it is searched without ChromaDB

    def status(
        self, pid: int, since: datetime, upcoming: str, at: datetime | None = None, others: Sequence[Problem] = ()
    ) -> ServiceStatus:
        """Return what is known beside the stores; `others` come before what went wrong and is not mended yet."""
        own = (one for one in (self.dream_problem, self.pass_problem, *self.unread_transcripts) if one is not None)
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

        Raise BusyError when another process has the workspace, and what its stores fail with; the lock is then free.
        """
        if self._lock is not None:
            return
        if self.offline_reason:
            raise self.unkept()
        if self._users:
            # Its user is fenced and does not know it yet. Nobody waits for it: a dream's model may take minutes.
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
        self.pass_problem = None  # it was of stores that may have been repaired since; the next pass tells anew

    def check_lock(self) -> bool:
        """Tell whether this process has the workspace; False as well if another thread is just giving it back.

        Raise FencedError, after closing everything, when another process has taken it over.
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
        """Give the lock back. Whoever is at work in the stores is fenced from now on."""
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
        """Return why the workspace is released for the moment, to be acquired again; empty when it is not."""
        return "it is being examined or repaired" if self._offline.locked() else ""

    @contextmanager
    def offline(self) -> Iterator[None]:
        """Release the workspace and let no thread acquire it meanwhile. Raise BusyError while it is in use."""
        if not self._offline.acquire(blocking=False):
            raise self.unkept()
        try:
            with self._idle:  # who comes meanwhile is told that it is offline: nobody is fenced
                self._idle.wait_for(lambda: not self._users or self.dreaming, _SHORT_SECONDS)
                if self.dreaming or self._users:
                    what = self.dreaming or "something is under way in it"
                    raise BusyError(f"{self.workspace.root}: {what}", "wait for it and try again")
                self.release()
            yield
        finally:
            self._offline.release()

    def unkept(self) -> BusyError:
        """Return why the stores cannot be had now."""
        if self.offline_reason:
            return BusyError(f"{self.workspace.root}: {self.offline_reason}", "wait for it and try again")
        return BusyError(f"{self.workspace.root} is not in this daemon's keeping", "'dreamd status' says why")

    # ------------------------------------------------------------ the stores

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Open the stores for work that takes little time and runs beside a dream."""
        with self._opened() as store:
            newest, written = store.crystals.newest(), self.written
            try:
                with self._counting(store.connection):
                    yield store
            finally:
                # Stores that fail at this have failed their user as well, who was told.
                with suppress(sqlite3.Error, DreamdError):
                    if self.written != written:  # a pass looks at crystals that came, such as a promoted item
                        now, vectors = store.crystals.newest(), store.crystals.vectors
                        self._is_small = now <= SCANNED_UP_TO
                        is_behind = bool(vectors.model()) and vectors.are_few()  # a pass makes a lost index anew
                        self.changed |= now > newest or is_behind

    @contextmanager
    def exclusive(self, *, wait: bool = True) -> Iterator[Store]:
        """Open the stores for work that takes long or makes a version; one user at a time.

        Without `wait` it raises BusyError while there is one.
        """
        if not self._work.acquire(blocking=wait):
            raise BusyError("something long is under way in this workspace, such as a dream", "try again")
        try:
            with self._opened() as store, self._counting(store.connection):
                yield store
        finally:
            self._work.release()
            with self._idle:
                self._idle.notify_all()

    def require_awake(self) -> None:
        """Raise BusyError while it dreams."""
        if self.dreaming:
            raise BusyError(self.dreaming, "wait for it, 'dreamd status' shows when it is done")

    def wait_for_pass(self, seconds: float = _PASS_SECONDS) -> None:
        """Wait until nobody uses the stores through `exclusive`, or until it is a dream that does."""
        with self._idle:
            self._idle.wait_for(lambda: self.dreaming or not self._work.locked(), seconds)

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until nobody uses the stores; return whether nobody does."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._users, seconds)

    def close_idle(self) -> None:
        """Close ChromaDB when nobody has used it for a while; where a search does without, as soon as it was told."""
        with self._idle:
            is_idle = time.monotonic() - self._used >= (0.0 if self._is_small else IDLE_SECONDS)
            if self._index is not None and is_idle and not self._users:
                self._index.rest()

    @contextmanager
    def _opened(self) -> Iterator[Store]:
        self.check_lock()  # this process may have been stopped, and displaced
        with self._idle:
            lock, index = self._lock, self._index
            if lock is None or index is None:
                raise self.unkept()
            self._users += 1
        try:
            with closing(open_owned(index, self._config(), self.alone)) as store:
                yield store
        except FencedError:
            # Somebody took it over while this process was stopped. The next look tries to get it back.
            if self._lock is lock:
                self.release()
            raise
        finally:
            with self._idle:
                self._users, self._used = self._users - 1, time.monotonic()
                self._idle.notify_all()

    @contextmanager
    def _counting(self, connection: Connection) -> Iterator[None]:
        """Count this use of the stores if it writes."""
        before = connection.total_changes
        try:
            yield
        finally:
            self.written += connection.total_changes != before

    # ------------------------------------------------------------ what decisions go by

    def facts(self, awake_since: datetime, phase: float, now: datetime) -> Facts:
        """Read what decisions about this workspace go by. Raise what the stores fail with."""
        with self.store() as store:
            return read_facts(store, self, awake_since, phase, now)

    def record_session_end(self, now: datetime) -> None:
        """Remember that a session ended and a dream is due for it; durable when this returns."""
        with self.store() as store, transaction(store.connection) as connection:
            Meta(connection).put(SESSION_ENDED, to_text(now))


def read_facts(store: Store, keeper: Keeper, awake_since: datetime, phase: float, now: datetime) -> Facts:
    """Read them, beside what the keeper knows of its own acts. Raise sqlite3.Error and DreamdError."""
    runs = tuple(store.ledger.runs(_RUNS))
    # What came while a dream ran is not taken in by it, so a dream counts from its beginning.
    dreams = [run.started_at for run in runs if run.outcome != "skipped"]
    looks = [run.ended_at or run.started_at for run in runs if run.outcome == "skipped"] + dreams
    # How many of the last runs in a row failed or were rejected.
    tries = (run for run in runs if run.outcome not in ("skipped", "running"))
    failed = list(takewhile(lambda run: run.outcome in _FAILURES, tries))
    unfinished = store.ledger.unfinished()
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
    crystals = lifecycles(store.connection)
    dream = unfinished.id if unfinished else ""
    return Facts(history, _pending(store, keeper, now), dream, next_due(store.connection, now), crystals)


def _pending(store: Store, keeper: Keeper, now: datetime) -> Pending:
    meta, count, left = Meta(store.connection), store.notes.count(), waiting_count(store.connection)
    levels, ended = Feelings(store.connection, store.config.baselines).levels(now), meta.get(SESSION_ENDED)
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
    """Tell whether state.db was not copied for a day: a pass does it, so that damage is noticed within a day."""
    is_tried = keeper.last_copy is not None and abs(now - keeper.last_copy) < DAY
    return not is_tried and is_copy_due(keeper.workspace.database, now, DAY)


def _appended_at(workspace: Workspace) -> datetime | None:
    """Return when the log was last appended to, by the files' times: in a note an agent writes what it likes."""
    # A scratch.md that was written anew has a title, which nobody has appended to.
    stamps = (Stamp.of(str(path)) for path in (workspace.scratch, workspace.inbox))
    latest = max((one.written_ns for one in stamps if one is not None and one.size > _EMPTY_LOG), default=None)
    return datetime.fromtimestamp(latest / 1e9, UTC) if latest is not None else None


def _ceiling_until(config: Config, ledger: Ledger, now: datetime) -> datetime | None:
    """Return when a daily ceiling that is reached opens again: this workspace's, or that of all together."""
    since = day_start(now)
    if config.model.name is None:
        return None
    spent, limits = ledger.spent(since=since), config.limits
    reached = spent.calls and (spent.usd >= limits.usd_per_day or spent.tokens >= limits.tokens_per_day)
    together = DailySpend(spent_folder(os.environ)).of(now)
    return since + timedelta(days=1) if reached or config.daemon.limits.reached(together) else None


def _has_schema(workspace: Workspace, disk: Disk) -> bool:
    """Tell whether MEMORY.md has its sections, which the first dream gives it."""
    content = disk.read_optional(workspace.document) or b""
    return parse(content.decode(errors="replace")).has_schema


def _latest(moments: Iterable[datetime | None], now: datetime) -> datetime | None:
    """Return the last one that is not in the future, where a clock that was set back leaves some."""
    return max((moment for moment in moments if moment is not None and moment <= now), default=None)


@dataclass(slots=True)
class DaemonAccess:
    """One client's call on a workspace that the daemon keeps: `WorkspaceAccess` with the keeper's stores.

    `dream_now` dreams, with a client's `on_step`; `ask` has it dreamt soon; `note_taken` makes its thread look at
    once; `service_status` is what `service` returns; `acquire` takes up a workspace that was released.
    """

    keeper: Keeper
    config: Config
    on_step: Callable[[Step], None]
    dream_now: "Callable[[Reason, Mode, Callable[[Step], None]], Outcome]"
    ask: Callable[[Reason], None]
    note_taken: Callable[[], None]
    service_status: Callable[[], ServiceStatus]
    acquire: Callable[[], object]
    notices: list[str] = field(default_factory=list)

    @property
    def workspace(self) -> Workspace:
        """Return the workspace that the keeper holds."""
        return self.keeper.workspace

    def run(self, operation: "Operation[..., ReplyT]", request: "Request") -> ReplyT:
        """Run the operation in this process."""
        return operation.answer(self, request)

    def read(self) -> AbstractContextManager[Store]:
        """Open the stores, as for `write`; to read only while another process has the workspace."""
        if not self.keeper.holds_lock:
            return self._noticing(open_readonly(self.workspace, self.config))
        return self._noticing(self.keeper.store())

    def write(self) -> AbstractContextManager[Store]:
        """Open the stores, also while a dream runs."""
        return self._noticing(self._kept().store())

    def exclusive(self, *, wait: bool = False) -> AbstractContextManager[Store]:
        """Use the stores, one user at a time. Raise BusyError while a dream runs, or waits for it with `wait`.

        A pass, which takes seconds, is always waited for. Retries instead of `wait` would come too late when dreams
        follow each other.
        """
        keeper = self._kept()
        if not wait:
            keeper.wait_for_pass()
        return self._noticing(keeper.exclusive(wait=wait))

    @contextmanager
    def offline(self) -> Iterator[LockedWorkspace]:
        """Release the workspace and lock it for this call alone; the keeper acquires it again afterwards."""
        keeper = self._kept()
        keeper.wait_for_pass()
        try:
            with keeper.offline(), acquire(self.workspace, KEEPER, _RELEASE_SECONDS) as lock:
                yield LockedWorkspace(lock.check, keeper.embedding)
        finally:
            self.acquire()

    def dream(self, reason: Reason, mode: "Mode") -> "Outcome":
        """Have it dreamt before those that nobody waits for, and wait for it. Raise BusyError while one runs."""
        self._kept().require_awake()
        return self.dream_now(reason, mode, self.report)

    def dream_soon(self, reason: Reason) -> bool:
        """Ask for a dream; a session's end is made durable, and the schedule decides when it is dreamt for."""
        if reason is Reason.SESSION_END:
            self._kept().record_session_end(utc_now())
            self.note_taken()
        else:
            self._kept()
            self.ask(reason)
        return True

    def service(self) -> ServiceStatus:
        """Return the daemon's part of this workspace's status."""
        return self.service_status()

    def report(self, step: Step) -> None:
        """Report the step to the client."""
        self.on_step(step)

    def mark_changed(self) -> None:
        """Have its thread look at once: a note was written."""
        self.keeper.changed = True
        self.note_taken()

    def _kept(self) -> Keeper:
        """Return the keeper, if it holds the lock. Raise BusyError while it is offline, else NotKeptError."""
        if self.keeper.offline_reason:
            raise self.keeper.unkept()
        if not self.keeper.holds_lock:
            why = next(
                iter(self.service().problems), Problem("the daemon is still opening this workspace", "try again")
            )
            raise NotKeptError(f"{self.workspace.root} is not in the daemon's keeping: {why.what}", why.advice)
        return self.keeper

    @contextmanager
    def _noticing(self, using: AbstractContextManager[Store]) -> Iterator[Store]:
        with using as store:
            try:
                yield store
            finally:
                self.notices += store.notices
