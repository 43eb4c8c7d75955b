"""Workspace files: what the files of one workspace say, each read again only when it has changed.

A daemon that is asked for the status of hundreds of workspaces, over and over, asks the file system whether anything
was written, and opens what was. Whoever asks once makes one of these for it.
"""

import sqlite3
from datetime import UTC, datetime

from daemon.workspace.database_facts import DatabaseFacts, read_facts
from state.document.document import parse
from state.document.merge import is_conflicted
from state.scratch import HEADER, PendingCount
from state.stores.database.connection import explained
from state.stores.disk.stamp import Stamp, StampedValue
from state.stores.disk.workspace import Workspace
from state.stores.history.bootstraps import BootstrapReceipt, path_of, receipts
from state.stores.history.notes import notes_of

# All is read so often in any case: a write through a descriptor that was open before scratch.md was written anew
# shows in the file of before alone, and the clock of a disk elsewhere may be wrong.
_REREAD_SECONDS = 600
_EMPTY_LOG = len(HEADER) + 2


class WorkspaceFiles:
    """The files of one workspace; any thread may ask. `last_facts` and `last_pending` are what was read last."""

    def __init__(self, workspace: Workspace) -> None:
        self.last_facts = DatabaseFacts()
        self.last_pending = PendingCount()
        self._workspace = workspace
        # A commit is appended to the log beside state.db, and goes from there into the file itself.
        self._database = [str(workspace.database), f"{workspace.database}-wal"]
        self._logs = [str(workspace.scratch), str(workspace.inbox)]
        self._texts = [str(workspace.document)]
        self._pending = StampedValue[PendingCount]()
        self._facts = StampedValue[DatabaseFacts]()
        self._text = StampedValue[tuple[int, bool, bool]]()
        self._receipts = [str(path_of(workspace))]
        self._given = StampedValue[BootstrapReceipt | None]()

    def facts(self, now: datetime) -> DatabaseFacts:
        """Return what state.db holds. Raise StorageError when it cannot be read or is of a newer dreamd."""
        key = (now.date(), _turn_of(now))  # what was spent is of a day
        self.last_facts = self._facts.get(key, self._database, lambda: read_facts(self._workspace, now))
        return self.last_facts

    def pending(self, now: datetime) -> PendingCount:
        """Return how much is pending; more than a thousand notes are not counted. Raise StorageError."""
        self.last_pending = self._pending.get(_turn_of(now), [*self._logs, *self._database], self._count)
        return self.last_pending

    def appended_at(self) -> datetime | None:
        """Return when the log was last appended to, by the files' times: in a note an agent writes what it likes."""
        # A scratch.md that was written anew has a title, which nobody has appended to.
        stamps = [Stamp.of(path) for path in self._logs]
        latest = max((one.written_ns for one in stamps if one is not None and one.size > _EMPTY_LOG), default=None)
        return datetime.fromtimestamp(latest / 1e9, UTC) if latest is not None else None

    def characters(self, now: datetime) -> int:
        """Return the length of MEMORY.md. Raise StorageError when it cannot be read."""
        return self._document(now)[0]

    def last_bootstrap(self, now: datetime) -> BootstrapReceipt | None:
        """Return what an agent was last given at session start. Raise StorageError when that cannot be read."""
        return self._given.get(_turn_of(now), self._receipts, lambda: next(receipts(self._workspace), None))

    def has_schema(self, now: datetime) -> bool:
        """Tell whether MEMORY.md has its sections, which the first dream gives it. Raise as `characters`."""
        return self._document(now)[1]

    def is_torn(self, now: datetime) -> bool:
        """Tell whether MEMORY.md has conflict markers of git's. Raise as `characters`."""
        return self._document(now)[2]

    def _document(self, now: datetime) -> tuple[int, bool, bool]:
        def read() -> tuple[int, bool, bool]:
            content = self._workspace.disk().read_optional(self._workspace.document) or b""
            text = content.decode(errors="replace")
            return len(text), parse(text).has_schema, is_conflicted(text)

        return self._text.get(_turn_of(now), self._texts, read)

    def _count(self) -> PendingCount:
        try:
            with notes_of(self._workspace) as notes:
                return notes.count()
        except sqlite3.Error as error:
            raise explained(error, self._workspace.database) from error


def _turn_of(now: datetime) -> int:
    return int(now.timestamp() // _REREAD_SECONDS)
