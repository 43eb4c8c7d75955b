"""Keeper: keeps one workspace for the daemon; holds its lock until the daemon exits, opens its stores on demand."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from daemon.api.dispatch import KEEPER
from daemon.config.paths import spent_folder
from daemon.config.settings import Config, day_start
from daemon.observability.metrics import WorkspaceGauges
from daemon.service.facts import StoreFacts, read_store_facts
from daemon.service.schedule import History, Pending
from daemon.service.store_lease import StoreLease
from daemon.sessions.lifecycle import next_due
from daemon.workspace.files import WorkspaceFiles
from daemon.workspace.stores import Store, open_owned, recover, utc_now
from daemon.workspace.vector_index import Embedding, Index
from state.errors import BusyError, DreamdError, FencedError
from state.signals.hormones import Baselines, decayed
from state.stores.crystals.nearest import SCANNED_UP_TO
from state.stores.database.connection import from_text, to_text, transaction
from state.stores.database.meta import Meta
from state.stores.disk.lock import Lock, acquire
from state.stores.disk.workspace import Workspace
from state.stores.history.daily_spend import daily_spend

if TYPE_CHECKING:
    from daemon.workspace.status import Problem

# Open stores hold memory and descriptors; to open them again takes some 20 ms.
IDLE_SECONDS = 120.0
# The key in `meta`: when the session ended for which a dream is due.
_SESSION_ENDED = "session_ended"


class Keeper:
    """The lock and the open stores of one workspace, and what decisions about it need. Any thread may call.

    `config` is called whenever the stores are opened; `on_failure` is told what fails in the background.
    """

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        config: Callable[[], Config],
        embedding: Embedding,
        on_failure: Callable[[str, Exception], None],
    ) -> None:
        self.workspace = workspace
        self.files = WorkspaceFiles(workspace)
        self.name = name
        self.embedding = embedding
        self.alone: AbstractContextManager[object] = nullcontext()  # as of `Memory`
        self.changed = True  # since the last pass
        self.session_ended: datetime | None = None
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
        self._on_failure = on_failure
        self._lock: Lock | None = None
        self._offline = threading.Lock()
        self._indexing: Index | None = None
        self._short_lease = StoreLease(self._open, lambda: (self._lock, self._config()))
        self._long_lease = StoreLease(self._open, lambda: (self._lock, self._config()))
        self._leases = (self._short_lease, self._long_lease)
        self._facts: StoreFacts | None = None
        self._facts_current = False  # since it was acquired, or configured otherwise
        self._facts_lock = threading.Lock()  # while they are read: what was read earlier shall not come later
        self._written = True  # since the last scrape

    @property
    def holds_lock(self) -> bool:
        """Whether this process holds the workspace's lock."""
        return self._lock is not None

    @property
    def sessions_due(self) -> datetime | None:
        """When the working memory of a session wants maintenance; None when none does."""
        return self._facts.sessions_due if self._facts else None

    @property
    def unfinished_dream(self) -> str:
        """The id of a dream that was interrupted; empty when there is none."""
        return self._facts.unfinished_dream if self._facts else ""

    def acquire(self) -> None:
        """Take the lock, recover from an interruption, and read the facts.

        Raise BusyError when another process has the workspace, and what its stores fail with; the lock is then free.
        """
        if self._lock is not None:
            return
        if self.offline_reason:
            raise self.unkept()
        if not all(lease.close_idle() for lease in self._leases):
            # Its user is fenced and does not know it yet. Nobody waits for it: a dream's model may take minutes.
            raise BusyError(
                f"{self.workspace.root}: what was under way when it was taken over has to end", "wait for it"
            )
        lock, self._facts_current = acquire(self.workspace, KEEPER), False
        self._indexing = self._new_indexing(lock)
        self._lock = lock
        try:
            with self.exclusive() as store:
                recover(store)
                self.session_ended = self.session_ended or _session_ended(store)
        except BaseException:
            self.release()
            raise

    def record_session_end(self, now: datetime) -> None:
        """Remember that a session ended and a dream is due for it; durable when this returns."""
        with self.store() as store, transaction(store.crystals.connection) as connection:
            Meta(connection).put(_SESSION_ENDED, to_text(now))
        self.session_ended = now

    def clear_session_end(self, ended: datetime) -> None:
        """Forget the dream that was due for the session that ended then; for one that ended since, it still is."""
        if self.session_ended == ended:
            self.session_ended = None
        # Should this fail, one more dream follows the next start, or is found needless.
        with suppress(sqlite3.Error, DreamdError), self.store() as store, transaction(store.crystals.connection):
            if _session_ended(store) == ended:
                Meta(store.crystals.connection).remove(_SESSION_ENDED)

    @property
    def exclusive_busy(self) -> bool:
        """Whether somebody uses the stores through `exclusive`."""
        return self._long_lease.busy

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

    @property
    def offline_reason(self) -> str:
        """Why the workspace is released for the moment, to be acquired again; empty when it is not."""
        return "it is being examined or repaired" if self._offline.locked() else ""

    @contextmanager
    def offline(self) -> Iterator[None]:
        """Release the workspace and let no thread acquire it meanwhile. Raise BusyError while it is in use."""
        if not self._offline.acquire(blocking=False):
            raise self.unkept()
        try:
            # Who comes meanwhile waits for the stores, or is told that they are in use: nobody is fenced.
            with self._long_lease.kept_closed() as long_closed, self._short_lease.kept_closed() as short_closed:
                if self.dreaming or not (long_closed and short_closed):
                    what = self.dreaming or "something is under way in it"
                    raise BusyError(f"{self.workspace.root}: {what}", "wait for it and try again")
                self.release()
            yield
        finally:
            self._offline.release()

    def release(self) -> None:
        """Close everything and give the lock back. Whoever is at work in the stores is fenced from now on."""
        lock, self._lock = self._lock, None
        try:
            for lease in self._leases:
                with suppress(DreamdError):
                    lease.close_idle()
            if self._indexing is not None:
                with suppress(DreamdError):
                    self._indexing.close()
        finally:
            if lock is not None:
                lock.release()

    def close_idle(self) -> None:
        """Close what nobody has used for a while.

        An open ChromaDB holds some nine threads, twenty descriptors and megabytes. A small workspace is searched
        without it: only what is new opens it there, and it is closed when it was told.
        """
        old = self._indexing
        is_open = old is not None and old.is_open
        needless = old is not None and is_open and self._facts is not None and self._facts.crystals <= SCANNED_UP_TO
        seconds = 0.0 if needless else IDLE_SECONDS
        with (
            self._long_lease.kept_closed(seconds) as long_closed,
            self._short_lease.kept_closed(seconds if long_closed else IDLE_SECONDS) as short_closed,
        ):
            if old is not None and self._lock is not None and is_open and long_closed and short_closed:
                self._indexing = self._new_indexing(self._lock)
                old.close()

    def outdate_facts(self) -> None:
        """Have the facts read again: another process wrote into the workspace."""
        self._facts_current = False

    def reopen(self) -> None:
        """Have whoever comes next open the stores with the changed configuration."""
        self._facts_current = False
        for lease in self._leases:
            lease.close_idle()

    @property
    def busy(self) -> bool:
        """Whether somebody uses the stores."""
        return any(lease.busy for lease in self._leases)

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until nobody uses the stores; return whether nobody does."""
        deadline = time.monotonic() + seconds
        for lease in self._leases:
            lease.wait_until_free(deadline - time.monotonic())
        return not self.busy

    def wait_for_pass(self, seconds: float) -> None:
        """Wait until nobody uses the stores through `exclusive`, or until it is a dream that does."""
        self._long_lease.wait_until_free(seconds, or_until=lambda: bool(self.dreaming))

    def store(self) -> AbstractContextManager[Store]:
        """Open the stores for work that takes little time and runs beside a dream."""
        return self._using(self._short_lease)

    def exclusive(self, *, wait: bool = True) -> AbstractContextManager[Store]:
        """Open the stores for work that takes long or makes a version; one user at a time.

        Without `wait` it raises BusyError while there is one.
        """
        return self._using(self._long_lease, wait=wait)

    @contextmanager
    def _using(self, lease: StoreLease, *, wait: bool = True) -> Iterator[Store]:
        lock = self._lock
        if not self.check_lock():  # this process may have been stopped, and displaced
            raise self.unkept()
        try:
            with lease.use(wait=wait) as store:
                store.notices.clear()
                changes_before = store.crystals.connection.total_changes
                try:
                    yield store
                finally:
                    self._refresh_facts(store, changes_before, short=lease is self._short_lease)
        except FencedError:
            # Somebody took it over while this process was stopped. The next look tries to get it back.
            self._release_if(lock)
            raise

    def _release_if(self, lost: Lock | None) -> None:
        """Release, unless the workspace was acquired again since this lock was lost."""
        if self._lock is lost:
            self.release()

    def _open(self) -> Store:
        lock, indexing = self._lock, self._indexing
        if lock is None or indexing is None:
            raise self.unkept()
        store = open_owned(self.workspace, self._config(), lock.check, self.embedding, indexing)
        store.memory.alone, store.lock = self.alone, lock
        return store

    def unkept(self) -> BusyError:
        """Return why the stores cannot be had now."""
        if self.offline_reason:
            return BusyError(f"{self.workspace.root}: {self.offline_reason}", "wait for it and try again")
        return BusyError(f"{self.workspace.root} is not in this daemon's keeping", "'dreamd status' says why")

    def _new_indexing(self, lock: Lock) -> Index:
        return Index(self.workspace, lock.check, background=True, failed=lambda e: self._on_failure("index", e))

    def _refresh_facts(self, store: Store, changes_before: int, *, short: bool) -> None:
        """Read the facts again if rows were written since `changes_before`; else only when sessions are due.

        Stores that fail at this have failed their user as well, who was told.
        """
        with suppress(sqlite3.Error, DreamdError), self._facts_lock:
            before, now = self._facts, utc_now()
            is_unchanged = store.crystals.connection.total_changes == changes_before
            if self._facts_current and before is not None and is_unchanged:
                self._facts = replace(before, sessions_due=next_due(store, now))
                return
            self._facts_current, self._written = True, True
            self.written += 1
            self._facts = read_store_facts(store, now)
            if short and before is not None:  # such as a session's item that was promoted
                vectors = store.crystals.vectors
                is_behind = bool(vectors.model()) and vectors.are_few()  # the index was lost: a pass makes it anew
                self.changed |= self._facts.crystals > before.crystals or is_behind

    def history(self, awake_since: datetime, phase: float, now: datetime) -> History:
        """Return the history of this workspace, as `due` takes it."""
        facts = self._facts
        runs = facts.runs if facts else ()
        # What came while a dream ran is not taken in by it, so a dream counts from its beginning.
        dreams = [run.started_at for run in runs if run.outcome != "skipped"]
        looks = [run.ended_at or run.started_at for run in runs if run.outcome == "skipped"] + dreams
        failures, failed_at = facts.failures if facts else (0, None)
        return History(
            awake_since=awake_since,
            last_look=_latest([*looks, *([self.last_look] if self.last_look else [])], now),
            last_dream=_latest(dreams, now),
            failures=max(failures, self.failures),
            failed_at=_latest([at for at in (failed_at, self.failed_at) if at], now),
            ceiling_until=self._ceiling_until(now),
            last_pass=self.last_pass,
            last_spike_pass=self.last_spike_pass,
            proposal=facts.proposal if facts and self._config().dream.mode == "propose" else "",
            schema=any(run.outcome == "committed" for run in runs) or self.files.has_schema(now),
            phase=phase,
        )

    def gauges(self, now: datetime) -> WorkspaceGauges:
        """Return what Prometheus is shown, as of the last look: no file is read, and state.db only after writes."""
        if self._written:
            self._written = False  # before it is read: what is written meanwhile is read by the next scrape
            try:
                self.files.facts(now)
            except (sqlite3.Error, DreamdError):
                self._written = True
        count = self.files.last_pending
        waited = max(0.0, (now - (count.oldest or now)).total_seconds())
        return WorkspaceGauges(self.name, count.notes, waited, self.files.last_facts.crystals)

    def _ceiling_until(self, now: datetime) -> datetime | None:
        """Return when a daily ceiling that is reached opens again: this workspace's, or that of all together."""
        config = self._config()
        if (own := self._facts.ceiling_until if self._facts else None) is not None or config.model.name is None:
            return own
        together = daily_spend(spent_folder(os.environ)).of(now)
        return day_start(now) + timedelta(days=1) if config.daemon.limits.reached(together) else None

    def pending(self, now: datetime) -> Pending:
        """Return what waits to be dreamt, from the files as they are now and from the facts."""
        count, facts = self.files.pending(now), self._facts
        config = self._config().hormones
        levels, left = None, 0
        if facts is not None:
            left = facts.left_over
            baselines = Baselines(config.dopamine_baseline, config.cortisol_baseline, config.oxytocin_baseline)
            levels = decayed(facts.levels, now, baselines)
        return Pending(
            notes=count.notes,
            characters=count.characters,
            bytes=count.bytes,
            new=(facts.seeds + facts.undreamt if facts else 0) + count.notes + left,
            left=bool(facts and facts.notes_left),
            oldest=count.oldest,
            latest=self.files.appended_at() if count.notes else None,
            session_ended=self.session_ended,
            changed=self.changed or left > 0,
            dopamine=levels.dopamine if levels else 0.0,
            cortisol=levels.cortisol if levels else 0.0,
        )


def _session_ended(store: Store) -> datetime | None:
    """Return when the session ended for which a dream is due."""
    ended = Meta(store.crystals.connection).get(_SESSION_ENDED)
    return from_text(ended) if ended is not None else None


def _latest(moments: Iterable[datetime], now: datetime) -> datetime | None:
    """Return the last one that is not in the future, where a clock that was set back leaves some."""
    return max((moment for moment in moments if moment <= now), default=None)
