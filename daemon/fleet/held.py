"""Held: one workspace that this process holds: its folder with open stores, and the commits of its generations."""

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
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
from state.fleet import InboxRow, Lease
from state.stores.disk.lock import Turn
from state.stores.disk.workspace import contained
from state.stores.fleet.inbox import Inbox
from state.stores.fleet.leases import Commit, Leases
from state.stores.generations.generations import Generations
from state.stores.generations.objects import Objects
from state.stores.history.inbox import NoteInbox

# What a pass leaves undone in a session is no reason for one after the other.
_BETWEEN_PASSES = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all workspaces of one process share."""

    config: Config
    embedding: Embedding
    leases: Leases
    inbox: Inbox
    objects: Objects


class Held:
    """A workspace with its lease. Any thread may call."""

    def __init__(self, lease: Lease, folder: Path, generations: Generations, around: Surroundings) -> None:
        """`folder` holds the lease's generation, which `generations` has brought up."""
        self.place = lease.place
        self.lease = lease
        """With the generation that was committed last."""
        self.lost = False
        self.given = False  # a bootstrap left a receipt, which goes with the next generation
        self.users = 0
        self.dreaming = 0  # dreams under way, or about to begin
        self.used = time.monotonic()
        # Of a commit, and of a generation that is made: none is made in the middle of a dream's commit.
        self.quiet = Turn(contained(folder).state / "lock.commit")
        self._folder = folder
        self._generations = generations
        self._around = around
        self._commits = threading.Lock()
        self._absorbing = threading.Lock()
        self._absorbed: set[int] = set()  # inbox rows that are in the folder, and in no generation yet
        self._counting = threading.Lock()
        self._writes = self._covered = 0
        self._written = 0  # of the keeper, when it was last committed
        self._paid = Spend()
        self.keeper = Keeper(contained(folder), lease.place.handle, lambda: around.config, around.embedding)
        self.keeper.alone = self.quiet

    def open(self) -> None:
        """Take the folder's lock and open its stores."""
        self.keeper.acquire()
        # No file knows when the last pass was. That it came with the last commit at least puts none off for ever.
        self.keeper.last_pass = self.keeper.last_spike_pass = self.lease.committed_at
        self.keeper.changed = self.lease.is_due
        self._paid = self._paid_now()
        self._written = self.keeper.written

    def check(self) -> None:
        """Raise FencedError when the workspace is, or may be, another process's."""
        if self.lost:
            raise FencedError(f"{self.place.handle} is no longer held by this process", "its holder does it again")

    # ------------------------------------------------------------ inbox

    def absorb(self) -> None:
        """Write what waits in the inbox into the folder, once.

        Not while a generation is made: it would hold what its commit does not call taken. Raise NotKeptError when
        another process has taken the workspace.
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
            if aside:  # it holds up no other, and is kept
                self._around.inbox.set_aside(aside)

    def _take_in(self, row: InboxRow) -> None:
        if row.kind == "note":
            # Its secrets were taken out when it came; a shape that only this process knows is taken out now.
            NoteInbox(self.keeper.workspace).append(row.note(), self._around.config.redaction)
        else:
            self.keeper.record_session_end(row.ended_at())

    # ------------------------------------------------------------ commits

    @property
    def is_changed(self) -> bool:
        """Return whether the folder may hold what no generation has."""
        is_written = self._covered < self._writes or self.keeper.written != self._written
        return is_written or self.given or bool(self._absorbed)

    def commit_writes(self, *, whole: bool = False) -> None:
        """Return when what was written before this call is committed, by this thread or together with another one."""
        with self._counting:
            self._writes += 1
            mine = self._writes
        with self._commits:
            if self._covered < mine or whole:
                self._commit(whole=whole)

    def commit(self, *, dreams: int | None = None) -> None:
        """Commit what the folder holds now. `dreams`: as of a `Commit`."""
        with self._commits:
            self._commit(dreams=dreams)

    def _commit(self, *, whole: bool = False, dreams: int | None = None) -> None:
        self.check()
        with self.quiet:
            with self._absorbing, self._counting:
                taken, covered, written = tuple(self._absorbed), self._writes, self.keeper.written
                self.given = False
            snapshot = self._generations.take(self._folder, whole=whole)
            # Of the same moment: what is done during the upload is in no generation yet, and must not count as done.
            due_in = self.due_in()
        # Nobody waits for the object store but who waits for this commit.
        generation = self._generations.put(snapshot, self.lease, utc_now())
        paid = self._paid_now()
        spent = self._spent(paid)
        commit = Commit(generation, snapshot.bytes, taken, dreams, spent, due_in, whole)
        try:
            self.lease = self._around.leases.commit(self.lease, commit)
        except DreamdError:
            # Fenced, or nobody knows: what the folder holds is trusted no more.
            self.lost = True
            raise
        self._covered, self._written, self._paid = covered, written, paid
        with self._absorbing:
            self._absorbed.difference_update(taken)
        if whole:  # who asked for it is told
            self._generations.sweep(forgotten=True)
        elif self._generations.is_whole:
            try:
                self._generations.sweep()
            except DreamdError as error:  # a later commit does it
                logs.get(workspace=self.place.handle).warning("generations_not_swept", error=error)

    # ------------------------------------------------------------ what is to be done, and what it cost

    def decision(self) -> Decision | None:
        """Return what is to be done in the workspace now, or later; None when nothing is foreseen."""
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
        """Return after how long it wants a job; None: when something comes."""
        decision = self.decision()
        return max(timedelta(0), decision.at - utc_now()) if decision is not None else None

    def charge(self) -> None:
        """Count what the dream under way has cost so far, so that no death of this process makes it forgotten.

        Without an answer of PostgreSQL it is counted by the next charge or commit, if need be twice.
        """
        with self._commits:
            try:
                paid = self._paid_now()
                spent = self._spent(paid)
                if spent != Spend() and not self._around.leases.charge(self.lease, spent):
                    self.lost = True  # what goes on costs, and would be done twice
            except DreamdError as error:
                logs.get(workspace=self.place.handle).warning("dream_not_charged", error=error)
            else:
                self._paid = paid

    def _paid_now(self) -> Spend:
        """Return all that the ledger holds, whatever the time: its lines were stamped by clocks of many machines."""
        with self.keeper.store() as store:
            return store.ledger.spent()

    def _spent(self, paid: Spend) -> Spend:
        before = self._paid
        calls, tokens, usd = paid.calls - before.calls, paid.tokens - before.tokens, paid.usd - before.usd
        return Spend(max(0, calls), max(0, tokens), max(0.0, usd))

    # ------------------------------------------------------------ end

    def close(self) -> None:
        """Commit what is new, and close the stores."""
        try:
            if not self.lost and self.is_changed:
                self.commit()
        finally:
            self.keeper.release()

    def drop(self) -> None:
        """Close the stores without a word to anybody: the workspace is, or may be, another process's."""
        self.lost = True
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
    """Return what is to be done now, or WAIT with its time; None when nothing is foreseen.

    `interrupted`: a dream has begun and not ended. `sessions_due`: when the working memory of a session wants
    maintenance.
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
