"""Held: one workspace that this process holds: its folder, its open stores, and the commits of its generations."""

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from daemon.config.settings import Config
from daemon.observability import logs
from daemon.service.keeper import Keeper
from daemon.service.schedule import Action, Decision, History, Pending, Thresholds, phase, work
from daemon.workspace.stores import utc_now
from daemon.workspace.vector_index import Embedding
from state.budget import Spend
from state.dream import Reason
from state.errors import DreamdError, FencedError, NotKeptError, UsageError
from state.fleet import InboxRow, Lease, Place
from state.stores.disk.lock import Turn
from state.stores.disk.workspace import contained
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.leases import Commit, Leases
from state.stores.generations.generations import Generations
from state.stores.generations.guard import GuardedObjects
from state.stores.history.inbox import NoteInbox

# Sessions that a pass could not finish must not start one pass right after another.
_BETWEEN_PASSES = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Dependencies shared by all workspaces of one process."""

    config: Config
    embedding: Embedding
    leases: Leases
    inbox: Inbox
    objects: GuardedObjects


def config_for(place: Place, config: Config) -> Config:
    """Return the fleet's configuration, with the workspace's own time zone if it has one."""
    return config.model_copy(update={"timezone": place.timezone}) if place.timezone else config


class Held:
    """A workspace with its lease. Any thread may call."""

    def __init__(
        self, lease: Lease, folder: Path, generations: Generations, around: Surroundings, generation: int
    ) -> None:
        """`folder` contains the newest generation, which `generations` downloaded."""
        self.place = lease.place
        self.lease = replace(lease, generation=generation)
        """Holds the generation committed last."""
        # Its holder died before it told PostgreSQL, or PostgreSQL was restored: inbox rows may be in it already.
        self._is_ahead = generation > lease.generation
        self.lost = False
        self.is_store_trusted = True
        self.given = False  # a bootstrap left a receipt, which the next generation will include
        self.users = 0
        self.dreaming = 0  # dreams under way, or about to begin
        self.used = time.monotonic()
        # Held by a dream's commit and while a generation is taken, so that none is taken in the middle of one.
        self.quiet = Turn(contained(folder).state / "lock.commit")
        self._folder = folder
        self._generations = generations
        self._around = around
        self._commits = threading.Lock()
        self._absorbing = threading.Lock()
        self._absorbed: set[int] = set()  # inbox rows in the folder that no generation contains yet
        self._counting = threading.Lock()
        self._writes = self._covered = 0
        self._written = 0  # the keeper's count at the last commit
        self._paid = Spend()
        self.charged = Spend()
        """What the dream under way has charged. A call is charged with its most, until it is answered."""
        self.keeper = Keeper(contained(folder), lease.place.handle, lambda: self.config, around.embedding)
        self.keeper.alone = self.quiet

    @property
    def config(self) -> Config:
        """Return the fleet's configuration, with the workspace's own time zone."""
        return config_for(self.place, self._around.config)

    def open(self) -> None:
        """Take the folder's lock and open its stores."""
        self.keeper.acquire()
        # No file records the last pass. Assume the time of the last commit, so that none is put off for ever.
        self.keeper.last_pass = self.keeper.last_spike_pass = self.lease.committed_at
        self.keeper.changed = self.lease.is_due
        self._paid = self._paid_now()
        self._written = self.keeper.written

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
        with self.quiet, self._absorbing:
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
                    self.keeper.changed |= row.kind == "note"
            if aside:  # an unreadable row is kept, but blocks no other
                self._around.inbox.set_aside(aside)

    def _take_in(self, row: InboxRow) -> None:
        if row.kind == "note":
            note = row.note()
            if self._is_ahead:
                with self.keeper.store() as store:
                    if store.notes.has(note):
                        return
            # It was redacted on arrival, but this process may know more shapes of secrets.
            NoteInbox(self.keeper.workspace).append(note, self._around.config.redaction)
        else:
            self.keeper.record_session_end(row.ended_at())

    # ------------------------------------------------------------ commits

    @property
    def is_changed(self) -> bool:
        """Return whether the folder may contain changes that no generation has."""
        is_written = self._covered < self._writes or self.keeper.written != self._written
        return is_written or self.given or bool(self._absorbed)

    def commit_writes(self, *, whole: bool = False) -> None:
        """Return once all earlier writes are committed, by this thread or by another thread's commit."""
        with self._counting:
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
        with self.quiet:
            with self._absorbing, self._counting:
                taken, covered, written = tuple(self._absorbed), self._writes, self.keeper.written
                self.given = False
            is_whole = whole or not self.is_store_trusted
            snapshot = self._generations.take(self._folder, whole=is_whole)
            # At the same moment: work done during the upload is in no generation, so it must not count as done.
            due_in = self.due_in()
        # Outside `quiet`: only those who wait for this commit wait for the object store.
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
        self._covered, self._written, self._paid = covered, written, paid
        self.charged += spent
        with self._absorbing:
            self._absorbed.difference_update(taken)
        if whole:  # a failure is raised to the caller
            self._generations.sweep(forgotten=True)
        elif self._generations.is_whole:
            try:
                self._generations.sweep()
            except DreamdError as error:  # a later commit sweeps
                logs.get(workspace=self.place.handle).warning("generations_not_swept", error=error)

    # ------------------------------------------------------------ schedule and spending

    def decision(self) -> Decision | None:
        """Return what the workspace needs now or later; None if nothing is foreseen."""
        now = utc_now()
        facts = self.keeper.facts(self.lease.created_at, phase(self.place.handle), now)
        return foreseen(
            now,
            facts.history,
            facts.pending,
            Thresholds.of(self._around.config),
            interrupted=bool(facts.unfinished_dream) and not self.dreaming,
            sessions_due=facts.sessions_due,
        )

    def due_in(self) -> timedelta | None:
        """Return the time until it needs a job; None if it needs none before something new arrives."""
        decision = self.decision()
        return max(timedelta(0), decision.at - utc_now()) if decision is not None else None

    def charge(self) -> None:
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
                self._paid, self.charged = paid, self.charged + spent

    def _paid_now(self) -> Spend:
        """Return the ledger's total over all time, as its entries were stamped by the clocks of many machines."""
        with self.keeper.store() as store:
            return store.ledger.spent()

    def _spent(self, paid: Spend) -> Spend:
        before, most = self._paid, self.charged
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
            self.keeper.release()

    def drop(self) -> None:
        """Close the stores without a commit: another process holds the workspace, or may hold it."""
        self.lost = True
        self._generations.close()
        with suppress(DreamdError, OSError):
            self.keeper.release()


def foreseen(
    now: datetime,
    history: History,
    pending: Pending,
    thresholds: Thresholds,
    *,
    interrupted: bool = False,
    sessions_due: datetime | None = None,
) -> Decision | None:
    """Return what to do now, or WAIT with its time; None if nothing is foreseen.

    `interrupted`: a dream was cut off. `sessions_due`: when some session's working memory needs maintenance.
    """
    if interrupted:
        return Decision(Action.DREAM, Reason.CATCH_UP, "it was interrupted", now)
    decision = work(now, history, pending, thresholds)
    if decision is not None and decision.action is not Action.WAIT:
        return decision
    if sessions_due is not None and history.last_pass is not None and history.last_pass <= now:
        sessions_due = max(sessions_due, history.last_pass + _BETWEEN_PASSES)
    if sessions_due is None or (decision is not None and decision.at <= sessions_due):
        return decision
    at = max(sessions_due, now)
    return Decision(Action.PASS if at <= now else Action.WAIT, None, "working memory of a session", at)
