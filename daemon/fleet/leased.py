"""Leased: a workspace that this process holds by a lease: what arrives in its inbox, its generations and charges."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.settings import Config
from daemon.engine.held import Facts, Held
from daemon.engine.schedule import Decision, Thresholds, work
from daemon.observability import logs
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.budget import Spend
from state.errors import (
    BusyError,
    DreamdError,
    FencedError,
    NothingToDoError,
    NotKeptError,
    QuotaError,
    StoppedError,
    UnreachableError,
    UsageError,
)
from state.fleet import InboxRow, Lease, Place
from state.stores.disk.lock import Turn
from state.stores.disk.workspace import contained
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.leases import Commit, Leases
from state.stores.generations.generations import Generations
from state.stores.generations.guard import GuardedObjects
from state.stores.history.inbox import NoteInbox

if TYPE_CHECKING:
    from daemon.dream.run import Mode

# Tells which ceiling forbids a dream in this place; empty if none does, and then it is reserved.
Reserve = Callable[[Place], str]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Dependencies shared by all workspaces of one process."""

    config: Config
    embedding: Embedding
    leases: Leases
    inbox: Inbox
    objects: GuardedObjects
    reserve: Reserve


def config_for(place: Place, config: Config) -> Config:
    """Return the fleet's configuration, with the workspace's own time zone if it has one."""
    return config.model_copy(update={"timezone": place.timezone}) if place.timezone else config


class Leased(Held):
    """A workspace held by a lease. Any thread may call."""

    def __init__(
        self, lease: Lease, folder: Path, generations: Generations, around: Surroundings, generation: int
    ) -> None:
        """`folder` contains the newest generation, which `generations` downloaded."""
        workspace = contained(folder)
        super().__init__(workspace, lambda: around.config, around.embedding, lease.created_at, lease.place.handle)
        self.place = lease.place
        self.lease = replace(lease, generation=generation)
        """Holds the generation committed last."""
        # Its holder died before it told PostgreSQL, or PostgreSQL was restored: inbox rows may be in it already.
        self._is_ahead = generation > lease.generation
        self.lost = False
        self.is_store_trusted = True
        self.given = False  # a bootstrap left a receipt, which the next generation will include
        self.callers = 0
        self.called = time.monotonic()
        # Held by a dream's commit and while a generation is taken, so that none is taken in the middle of one.
        self.alone = self._quiet = Turn(workspace.state / "lock.commit")
        self._folder = folder
        self._generations = generations
        self._around = around
        self._commits = threading.Lock()
        self._absorbing = threading.Lock()
        self._absorbed: set[int] = set()  # inbox rows in the folder that no generation contains yet
        self._counts = threading.Lock()
        self._writes = self._covered = 0
        self._committed = 0  # `written` at the last commit
        self._paid = Spend()
        self._charged = Spend()  # by the dream under way; a call is charged with its most, until it is answered

    @property
    def config(self) -> Config:
        """Return the fleet's configuration, with the workspace's own time zone."""
        return config_for(self.place, self._around.config)

    def open(self) -> None:
        """Take the folder's lock and open its stores."""
        self.acquire()
        # No file records the last pass. Assume the time of the last commit, so that none is put off for ever.
        self.last_pass = self.last_spike_pass = self.lease.committed_at
        self.changed = self.lease.is_due
        self._paid = self._paid_now()
        self._committed = self.written

    def check(self) -> None:
        """Raise FencedError if another process holds the workspace, or may hold it."""
        if self.lost:
            raise FencedError(f"{self.place.handle} is no longer held by this process", "its holder does it again")

    def require_store(self) -> None:
        """Raise StoreAwayError if the object store is known to be away, so that nothing could be kept."""
        self._around.objects.require()

    # ------------------------------------------------------------ inbox

    def absorb(self) -> None:
        """Write each waiting inbox row into the folder, once.

        Never while a generation is taken: it would contain rows that its commit does not mark as taken in. Raise
        NotKeptError if another process has taken the workspace.
        """
        with self._quiet, self._absorbing:
            self.check()
            try:
                waiting = self._around.leases.waiting(self.lease)
            except NotKeptError:
                self.lost = True
                raise
            aside = []
            for row in (row for row in waiting if row.id not in self._absorbed):
                try:
                    self._take_in(row)
                except UsageError as error:
                    logs.get(workspace=self.place.handle).error("inbox_row_unreadable", row=row.id, error=error)
                    aside.append(row.id)
                else:
                    self._absorbed.add(row.id)
                    self.changed |= row.kind == "note"
            if aside:  # an unreadable row is kept, but blocks no other
                self._around.inbox.set_aside(aside)

    def _take_in(self, row: InboxRow) -> None:
        if row.kind == "note":
            note = row.note()
            if self._is_ahead:
                with self.store() as store:
                    if store.notes.has(note):
                        return
            # It was redacted on arrival, but this process may know more shapes of secrets.
            NoteInbox(self.workspace).append(note, self._around.config.redaction)
        else:
            self.record_session_end(row.ended_at())

    # ------------------------------------------------------------ commits

    @property
    def is_changed(self) -> bool:
        """Return whether the folder may contain what no generation in the store has."""
        is_written = self._covered < self._writes or self.written != self._committed
        return is_written or self.given or bool(self._absorbed) or not self.is_store_trusted

    def commit_writes(self, *, whole: bool = False) -> None:
        """Return once all earlier writes are committed, by this thread or by another thread's commit."""
        with self._counts:
            self._writes += 1
            mine = self._writes
        with self._commits:
            if self._covered < mine or whole:
                self._commit(whole=whole)

    def commit(self, *, dreams: int | None = None) -> None:
        """Commit the folder as it is now. `dreams`: see `Commit`."""
        with self._commits:
            self._commit(dreams=dreams)

    def _commit(self, *, whole: bool = False, dreams: int | None = None) -> None:
        self.check()
        self.require_store()
        with self._quiet:
            with self._absorbing, self._counts:
                taken, covered, written = tuple(self._absorbed), self._writes, self.written
                self.given = False
            is_whole = whole or not self.is_store_trusted
            snapshot = self._generations.take(self._folder, whole=is_whole)
            # At the same moment: work done during the upload is in no generation, so it must not count as done.
            due_in = self.due_in()
        # Outside `_quiet`: only those who wait for this commit wait for the object store.
        try:
            generation = self._generations.put(snapshot, self.place, self.lease.generation + 1)
        except DreamdError as error:
            self.lost |= isinstance(error, FencedError)
            self.is_store_trusted &= not self._around.objects.is_replaced
            raise
        self.is_store_trusted |= is_whole
        paid = self._paid_now()
        spent = self._spent(paid)
        commit = Commit(generation, snapshot.bytes, taken, dreams, spent, due_in, whole)
        try:
            self.lease = self._around.leases.commit(self.lease, commit)
        except DreamdError:
            # The next holder finds the generation; PostgreSQL may lack what it should know of it.
            self.lost = True
            raise
        self._covered, self._committed, self._paid = covered, written, paid
        self._charged += spent
        with self._absorbing:
            self._absorbed.difference_update(taken)
        if whole:  # a failure is raised to the caller
            self._generations.sweep(forgotten=True)
        elif self._generations.is_whole:
            try:
                self._generations.sweep()
            except DreamdError as error:  # a later commit sweeps
                logs.get(workspace=self.place.handle).warning("generations_not_swept", error=error)

    # ------------------------------------------------------------ what is due, and what a dream costs

    def decide(self, facts: Facts, now: datetime) -> Decision | None:
        """Return what it needs now, or when; an idle workspace needs nothing, as nobody watches it."""
        return work(now, facts.history, facts.pending, Thresholds.of(self.config))

    def due_in(self) -> timedelta | None:
        """Return the time until it needs a job; None if it needs none before something new arrives."""
        now = utc_now()
        facts = self.facts(now)
        decision = self.decide(facts, now)
        moments = [at for at in (facts.sessions_due, decision.at if decision is not None else None) if at is not None]
        return max(timedelta(0), min(moments) - now) if moments else None

    def admit(self, mode: "Mode") -> None:
        """Reserve a dream, unless it is dry. Raise QuotaError."""
        self._charged = Spend()
        if mode.value != "dry":
            self.reserve()
            self.changed = False  # a dream also reads what a pass would read

    def reserve(self) -> None:
        """Reserve a dream under the ceilings of the tenant and of the fleet. Raise QuotaError."""
        if what := self._around.reserve(self.place):
            raise QuotaError(f"the day's ceiling of {what} is reached", "it opens at midnight UTC")

    def note_step(self) -> None:
        """Charge what the dream has cost so far. Raise FencedError if another process holds the workspace."""
        self._charge()
        self.check()

    def dreamt(self, mode: "Mode", error: BaseException | None) -> None:
        """Commit what the dream did and count it, also if it failed, which cost something too."""
        self.lost |= isinstance(error, FencedError | UnreachableError)
        self.changed |= error is not None
        # A dry dream is not counted, nor one that was refused because another one runs, which is counted already.
        is_counted = mode.value != "dry" and not isinstance(error, BusyError)
        is_full = not isinstance(error, NothingToDoError | StoppedError)
        if not self.lost:
            self.commit(dreams=int(is_full) if is_counted else None)

    def settle(self) -> None:
        """Commit what was done."""
        if not self.lost:
            self.commit()

    def _charge(self) -> None:
        """Charge the cost of the dream under way so far, so that it still counts if this process dies.

        If PostgreSQL does not answer, the next charge or commit counts it, possibly twice.
        """
        with self._commits:
            try:
                paid = self._paid_now()
                spent = self._spent(paid)
                if spent != Spend() and not self._around.leases.charge(self.lease, spent):
                    self.lost = True  # going on would cost money for work that the new holder repeats
            except DreamdError as error:
                logs.get(workspace=self.place.handle).warning("dream_not_charged", error=error)
            else:
                self._paid, self._charged = paid, self._charged + spent

    def _paid_now(self) -> Spend:
        """Return the ledger's total over all time, as its entries were stamped by the clocks of many machines."""
        with self.store() as store:
            return store.ledger.spent()

    def _spent(self, paid: Spend) -> Spend:
        before, most = self._paid, self._charged
        calls, tokens, usd = paid.calls - before.calls, paid.tokens - before.tokens, paid.usd - before.usd
        # No more is given back than the dream has charged: less than that means that old entries were swept.
        return Spend(max(calls, -most.calls), max(tokens, -most.tokens), max(usd, -most.usd))

    # ------------------------------------------------------------ end

    def close(self) -> None:
        """Commit changes, and close the stores."""
        try:
            if not self.lost and self.is_changed:
                self.commit()
        finally:
            self._generations.close()
            self.release()

    def drop(self) -> None:
        """Close the stores without a commit: another process holds the workspace, or may hold it."""
        self.lost = True
        self._generations.close()
        with suppress(DreamdError, OSError):
            self.release()
