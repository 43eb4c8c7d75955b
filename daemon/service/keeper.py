"""One workspace in the daemon's keeping: its lock for the daemon's life, its stores while somebody uses them."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from daemon.config.paths import spent_folder
from daemon.config.settings import Config, day_start
from daemon.dream.proposals import DECLINED
from daemon.dream.run import unseen_seeds
from daemon.observability.metrics import Standing
from daemon.service.pending import PendingNotes, stamp
from daemon.service.schedule import History, Pending
from daemon.service.store_lease import StoreLease
from daemon.sessions.for_dreams import waiting_count
from daemon.sessions.maintenance import next_due
from daemon.workspace.database_facts import lifecycles
from daemon.workspace.stores import Store, open_owned, recover, utc_now
from daemon.workspace.vector_index import EXACT_SEARCH_UP_TO, Embedding, Indexing
from state.document.document import parse
from state.errors import BusyError, DreamdError, FencedError, StoppedError
from state.signals.hormones import Baselines, Hormones, decayed
from state.stores.database.connection import from_text, to_text, transaction
from state.stores.disk.disk import Disk
from state.stores.disk.lock import Lock, acquire
from state.stores.disk.workspace import Workspace
from state.stores.history.daily_spend import daily_spend
from state.stores.history.ledger import Run

if TYPE_CHECKING:
    from daemon.workspace.status import Problem

COMMAND = "dreamd serve"
# Open stores hold memory and descriptors; to open them again takes some 20 ms.
IDLE_SECONDS = 120.0
_RUNS_LOOKED_AT = 50
# In `meta`: when the session ended for which a dream is due.
_ENDED = "session_ended"
_FAILURES = ("failed", "rejected")


@dataclass(frozen=True, slots=True)
class Known:
    """What the stores said when they were last used: enough to decide without opening them."""

    levels: Hormones
    crystals: int = 0
    seeds: int = 0
    undreamt: int = 0
    left_over: int = 0
    proposal: str = ""
    unfinished: str = ""
    sessions_due: datetime | None = None


class Keeper:
    """Keeps one workspace. `config` is asked whenever the stores are opened. Any thread may call."""

    def __init__(
        self,
        workspace: Workspace,
        name: str,
        config: Callable[[], Config],
        embedding: Embedding,
        warned: Callable[[str, Exception], None],
    ) -> None:
        self.workspace = workspace
        self.name = name
        self.changed = True  # since the last pass
        self.session_ended: datetime | None = None
        self.dreaming = ""
        self.last_pass: datetime | None = None
        self.last_spike_pass: datetime | None = None
        self.last_look: datetime | None = None
        self.ceiling_until: datetime | None = None
        # Of this process; what the ledger could be told, it knows as well.
        self.failures = 0
        self.failed_at: datetime | None = None
        self.trouble: Problem | None = None  # what the last dream failed with
        self.pass_trouble: Problem | None = None  # what the last pass failed with
        self.unread: tuple[Problem, ...] = ()  # what of the transcripts could not be read
        self._config = config
        self.embedding = embedding
        self._warned = warned
        self._lock: Lock | None = None
        self._lending = threading.Lock()
        self._indexing: Indexing | None = None
        self._soon = StoreLease(self._open, lambda: (self._lock, self._config()))
        self._long = StoreLease(self._open, lambda: (self._lock, self._config()))
        self._known: Known | None = None
        self._runs: tuple[Run, ...] = ()
        self._pending = PendingNotes(workspace)
        self._learnt = False  # since it was taken up, or configured otherwise
        self._writes = 0
        self._lifecycles: tuple[int, dict[str, int]] = (-1, {})
        self._schema: tuple[object, bool] = ((), False)

    @property
    def kept(self) -> bool:
        """Whether the workspace is this process's."""
        return self._lock is not None

    @property
    def sessions_due(self) -> datetime | None:
        """When the working memory of a session wants maintenance; None: none does."""
        return self._known.sessions_due if self._known else None

    @property
    def unfinished(self) -> str:
        """The id of a dream that was interrupted; empty when there is none."""
        return self._known.unfinished if self._known else ""

    def enter(self) -> None:
        """Take the lock, finish what was interrupted, and learn how things are.

        Raises BusyError when another process has the workspace, and what its stores fail with; the lock is then free.
        """
        if self._lock is not None:
            return
        if self.lent:
            raise BusyError(f"{self.workspace.root}: {self.lent}", "wait for it and try again")
        if not all(bench.rest() for bench in (self._soon, self._long)):
            # Fenced, and does not know it yet. It is not waited for: a dream may wait for its model for minutes.
            raise BusyError(
                f"{self.workspace.root}: what was under way when it was taken over has to end", "wait for it"
            )
        lock, self._learnt = acquire(self.workspace, COMMAND), False
        self._indexing = self._new_indexing(lock)
        self._lock = lock
        try:
            with self.alone() as store:
                recover(store)
                self.session_ended = self.session_ended or _session_ended(store)
        except BaseException:
            self.leave()
            raise

    def session_ends(self, now: datetime) -> None:
        """A session has ended, and a dream is due for it: durable when this returns."""
        with self.store() as store, transaction(store.crystals.connection) as connection:
            connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (_ENDED, to_text(now)))
        self.session_ended = now

    def session_settled(self, ended: datetime) -> None:
        """The dream for the session that ended then is dreamt, or needless; one that ended since is not."""
        if self.session_ended == ended:
            self.session_ended = None
        # Else it is dreamt once more after the next start, or found needless.
        with suppress(sqlite3.Error, DreamdError), self.store() as store:
            connection = store.crystals.connection
            with transaction(connection):
                connection.execute("DELETE FROM meta WHERE name = ? AND value = ?", (_ENDED, to_text(ended)))

    @property
    def held_up(self) -> bool:
        """Whether something is under way for which it is alone."""
        return self._long.busy

    def check(self) -> None:
        """Let the workspace go when another process has taken it over. Raises FencedError then."""
        lock = self._lock
        try:
            if lock is not None:
                lock.check()
        except FencedError:
            self._leave(lock)
            raise

    @property
    def lent(self) -> str:
        """For what it has let the workspace go, to take it up again afterwards; empty when it has not."""
        return "it is being examined or repaired" if self._lending.locked() else ""

    @contextmanager
    def vacated(self) -> Iterator[None]:
        """Let it go for so long: nobody else of this process takes it up. Raises BusyError while it is at work."""
        if not self._lending.acquire(blocking=False):
            raise BusyError(f"{self.workspace.root}: {self.lent}", "wait for it and try again")
        try:
            if self.dreaming or self.busy:
                what = self.dreaming or "something is under way in it"
                raise BusyError(f"{self.workspace.root}: {what}", "wait for it and try again")
            self.leave()
            yield
        finally:
            self._lending.release()

    def leave(self) -> None:
        """Close everything and give the lock back. Whoever is at work in it is fenced from now on."""
        lock, self._lock = self._lock, None
        for bench in (self._soon, self._long):
            with suppress(DreamdError):
                bench.rest()
        if self._indexing is not None:
            with suppress(DreamdError):
                self._indexing.close()
        if lock is not None:
            lock.release()

    def rest(self) -> None:
        """Close what nobody has used for a while.

        An open ChromaDB holds some nine threads, twenty descriptors and megabytes. Only dreams open that of a small
        workspace, and it is searched exactly without: there it is closed after the dream.
        """
        old = self._indexing
        is_open = old is not None and old.open_index is not None
        needless = is_open and self._known is not None and self._known.crystals <= EXACT_SEARCH_UP_TO
        seconds = 0.0 if needless else IDLE_SECONDS
        with self._long.resting(seconds) as long, self._soon.resting(seconds if long else IDLE_SECONDS) as soon:
            if old is not None and self._lock is not None and is_open and long and soon:
                self._indexing = self._new_indexing(self._lock)
                old.close()

    def reopen(self) -> None:
        """The configuration has changed: whoever comes next opens the stores with it."""
        self._learnt = False
        for bench in (self._soon, self._long):
            bench.rest()

    @property
    def busy(self) -> bool:
        """Whether somebody is at work in it."""
        return self._long.busy or self._soon.busy

    def store(self) -> AbstractContextManager[Store]:
        """The stores, for what is soon done."""
        return self._using(self._soon)

    def alone(self, *, wait: bool = True) -> AbstractContextManager[Store]:
        """The stores, for what takes long or makes a version."""
        return self._using(self._long, wait=wait)

    @contextmanager
    def _using(self, bench: StoreLease, *, wait: bool = True) -> Iterator[Store]:
        lock = self._lock
        if lock is None:
            raise BusyError(f"{self.workspace.root} is not in this daemon's keeping", "'dreamd status' says why")
        try:
            lock.check()  # this process may have been stopped, and displaced
            with bench.using(wait=wait) as store:
                store.notices.clear()
                before = store.crystals.connection.total_changes
                try:
                    yield store
                finally:
                    self._learn(store, before, soon=bench is self._soon)
        except FencedError:
            # Somebody took it over while this process was stopped. The next look tries to get it back.
            self._leave(lock)
            raise

    def _leave(self, lost: Lock | None) -> None:
        """Leave, unless it was taken up again since this lock was lost."""
        if self._lock is lost:
            self.leave()

    def _open(self) -> Store:
        lock, indexing = self._lock, self._indexing
        if lock is None or indexing is None:
            raise StoppedError(f"{self.workspace.root} is being left by the daemon", "try again")
        return open_owned(self.workspace, self._config(), lock.check, self.embedding, indexing)

    def _new_indexing(self, lock: Lock) -> Indexing:
        return Indexing(self.workspace, lock.check, background=True, failed=lambda e: self._warned("index", e))

    def _learn(self, store: Store, written: int, *, soon: bool) -> None:
        """Remember what deciding needs, unless nothing was written since `written` rows were.

        A store that fails at this has told its user so already.
        """
        with suppress(sqlite3.Error, DreamdError):
            if self._learnt and self._known is not None and store.crystals.connection.total_changes == written:
                self._known = replace(self._known, sessions_due=next_due(store, utc_now()))
                return
            self._learnt, self._writes = True, self._writes + 1
            unfinished = store.ledger.unfinished()
            proposals = store.ledger.proposals()
            before = self._known
            now = utc_now()
            self._known = Known(
                levels=store.feelings.levels(now),
                crystals=store.crystals.newest(),
                seeds=unseen_seeds(store),
                undreamt=store.crystals.undreamt_count(),
                left_over=waiting_count(store),
                proposal=proposals[0].dream if proposals else "",
                unfinished=unfinished.id if unfinished else "",
                sessions_due=next_due(store, now),
            )
            if soon and before is not None:  # such as a session's item that was promoted
                self.changed |= self._known.crystals > before.crystals
            self._runs = tuple(store.ledger.runs(_RUNS_LOOKED_AT))
            self.ceiling_until = _ceiling_until(store, now)

    def history(self, awake_since: datetime, phase: float, now: datetime) -> History:
        """What deciding needs of the past."""
        known = self._known
        # What came while a dream ran is not taken in by it, so a dream counts from its beginning.
        dreams = [run.started_at for run in self._runs if run.outcome != "skipped"]
        looks = [run.ended_at or run.started_at for run in self._runs if run.outcome == "skipped"] + dreams
        failures, failed_at = _failures(self._runs)
        return History(
            awake_since=awake_since,
            last_look=_latest([*looks, *([self.last_look] if self.last_look else [])], now),
            last_dream=_latest(dreams, now),
            failures=max(failures, self.failures),
            failed_at=_latest([at for at in (failed_at, self.failed_at) if at], now),
            ceiling_until=self._ceiling(now),
            last_pass=self.last_pass,
            last_spike_pass=self.last_spike_pass,
            proposal=known.proposal if known and self._config().dream.mode == "propose" else "",
            schema=any(run.outcome == "committed" for run in self._runs) or self._has_schema(),
            phase=phase,
        )

    def standing(self, now: datetime) -> Standing:
        """What a scrape shows, as of the last look: no file is read, and state.db only after writes."""
        writes = self._writes
        if self._lifecycles[0] != writes:
            with suppress(sqlite3.Error, DreamdError):
                self._lifecycles = (writes, lifecycles(self.workspace))
        notes = self._pending.read
        oldest = min((note.at for note in notes), default=now)
        return Standing(self.name, len(notes), max(0.0, (now - oldest).total_seconds()), self._lifecycles[1])

    def _ceiling(self, now: datetime) -> datetime | None:
        """When the ceilings of the day that are reached open again: this workspace's, or those of all."""
        config = self._config()
        if self.ceiling_until is not None or config.model.name is None:
            return self.ceiling_until
        together = daily_spend(spent_folder(os.environ)).of(now)
        return day_start(now) + timedelta(days=1) if config.daemon.limits.reached(together) else None

    def pending(self, now: datetime) -> Pending:
        """What waits, from the files as they are now and from what the stores last said."""
        notes, known = self._pending.now(now), self._known
        config = self._config().hormones
        levels, left = None, 0
        if known is not None:
            left = known.left_over
            baselines = Baselines(config.dopamine_baseline, config.cortisol_baseline, config.oxytocin_baseline)
            levels = decayed(known.levels, now, baselines)
        return Pending(
            notes=len(notes),
            characters=sum(len(note.text) for note in notes),
            bytes=sum(len(note.text.encode("utf-8", "surrogatepass")) for note in notes),
            new=(known.seeds if known else 0) + max(len(notes), known.undreamt if known else 0) + left,
            oldest=min((note.at for note in notes), default=None),
            latest=self._pending.appended_at() if notes else None,
            session_ended=self.session_ended,
            changed=self.changed or left > 0,
            dopamine=levels.dopamine if levels else 0.0,
            cortisol=levels.cortisol if levels else 0.0,
        )

    def _has_schema(self) -> bool:
        """Whether the first breath is over: the file has the sections already."""
        mark = stamp(self.workspace.document)
        if self._schema[0] != mark:
            content = Disk(self.workspace.root).read_if_there(self.workspace.document) or b""
            self._schema = (mark, parse(content.decode(errors="replace")).has_schema)
        return self._schema[1]


def _session_ended(store: Store) -> datetime | None:
    """When the session ended whose dream was not dreamt yet."""
    row = store.crystals.connection.execute("SELECT value FROM meta WHERE name = ?", (_ENDED,)).fetchone()
    return from_text(row["value"]) if row else None


def _ceiling_until(store: Store, now: datetime) -> datetime | None:
    """When a ceiling of the day that is reached opens again."""
    limits, since = store.config.limits, day_start(now)
    if store.config.model.name is None:
        return None
    spent = store.ledger.spent(since=since)
    reached = spent.calls and (spent.usd >= limits.usd_per_day or spent.tokens >= limits.tokens_per_day)
    return since + timedelta(days=1) if reached else None


def _failures(runs: Sequence[Run]) -> tuple[int, datetime | None]:
    """How many runs in a row have failed or were refused, up to the last; and when the last did."""
    tries = [run for run in runs if run.outcome not in ("skipped", "running")]
    failed = list(takewhile(lambda run: run.outcome in _FAILURES and run.detail != DECLINED, tries))
    return len(failed), (failed[0].ended_at or failed[0].started_at) if failed else None


def _latest(moments: Iterable[datetime], now: datetime) -> datetime | None:
    """The last one that is not in the future: a clock that was set back leaves such ones."""
    return max((moment for moment in moments if moment <= now), default=None)
