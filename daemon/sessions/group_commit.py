"""Group commit: what several threads write to a workspace at once becomes one transaction, and one wait for the disk.

One of them leads: it writes for all who wait, and they return when that is on the disk. A refusal costs its own write
alone (each is a savepoint); when the disk or SQLite fails, nothing of the group is kept and each writes by itself.
A lone writer waits for nobody.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum
from functools import cache
from pathlib import Path
from sqlite3 import Connection, OperationalError
from typing import Generic, TypeVar

from daemon.workspace.stores import Store
from state.errors import UsageError
from state.stores.database.connection import transaction

# So long a transaction takes in further writes: others wait for the database meanwhile.
_TAKING_SECONDS = 0.05
# The most that a leader waits for those who wrote with the last one; less, if that was done sooner.
_PATIENCE_SECONDS = 0.01

_MadeT_co = TypeVar("_MadeT_co", covariant=True)


class Level(Enum):
    """Who leads: a request that is about to open the stores, or a thread that has them and never waits for it."""

    REQUEST = "request"
    STORES = "stores"


class _Write(Generic[_MadeT_co]):
    """One thread's write. It may be done twice, if nothing of the first time was kept."""

    def __init__(self, work: Callable[[Store], _MadeT_co]) -> None:
        self.work = work
        self.is_kept = False
        self._outcome: tuple[_MadeT_co] | UsageError | None = None

    def attempt(self, store: Store) -> None:
        """Write in the caller's transaction; a refusal is an outcome, too."""
        try:
            self._outcome = (self.work(store),)
        except UsageError as error:
            self._outcome = error

    def result(self) -> _MadeT_co:
        """What was returned; raises what was raised."""
        if isinstance(self._outcome, tuple):
            return self._outcome[0]
        assert self._outcome is not None
        raise self._outcome


class GroupCommit:
    """The writes that wait at one level for the stores of one workspace."""

    def __init__(self) -> None:
        lock = threading.Lock()
        self._came, self._ended = threading.Condition(lock), threading.Condition(lock)
        self._waiting: deque[_Write[object]] = deque()
        self._is_led = False
        self._last_size, self._last_seconds = 1, 0.0

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def is_led(self) -> bool:
        """Whether somebody writes."""
        return self._is_led

    def write(
        self, opened: Callable[[], AbstractContextManager[Store]], work: Callable[[Store], _MadeT_co]
    ) -> _MadeT_co:
        """What `work` returns, when what it wrote is on the disk. It gets the stores of whoever leads."""
        mine = _Write(work)
        with self._came:
            self._waiting.append(mine)
            self._came.notify()
            self._ended.wait_for(lambda: mine.is_kept or not self._is_led)
            if mine.is_kept:
                return mine.result()
            self._is_led = True
        try:
            return self._lead(mine, opened)
        finally:
            with self._ended:
                self._leave(mine)
                self._is_led = False
                self._ended.notify_all()

    def _lead(self, mine: _Write[_MadeT_co], opened: Callable[[], AbstractContextManager[Store]]) -> _MadeT_co:
        with self._came:
            if mine in self._waiting:  # else a group that it was in has failed
                patience = min(self._last_seconds, _PATIENCE_SECONDS)
                self._came.wait_for(lambda: len(self._waiting) >= self._last_size, patience)
        with opened() as store:
            if mine in self._waiting and len(self._waiting) > 1:
                self._commit(store)
            if mine.is_kept:
                return mine.result()
            with self._came:
                self._leave(mine)
                self._last_size = 1
            return mine.work(store)

    def _leave(self, mine: _Write[object]) -> None:
        if mine in self._waiting:
            self._waiting.remove(mine)

    def _commit(self, store: Store) -> None:
        """Write what waits in one transaction, the first to come first; nothing of it is kept if that fails."""
        connection, taken, began = store.crystals.connection, list[_Write[object]](), time.monotonic()
        try:
            with transaction(connection):
                while self._waiting and time.monotonic() - began < _TAKING_SECONDS:
                    with self._came:
                        taken.append(self._waiting.popleft())
                    taken[-1].attempt(store)
                    _require_transaction(connection)
        except Exception:  # noqa: BLE001 - whose fault it is shows when each writes by itself
            return
        self._last_size, self._last_seconds = len(taken), time.monotonic() - began
        for one in taken:
            one.is_kept = True


def _require_transaction(connection: Connection) -> None:
    """Return if SQLite has not given the transaction up. Raises OperationalError."""
    if not connection.in_transaction:
        raise OperationalError("the transaction was rolled back")


@cache
def group_of(database: Path, level: Level) -> GroupCommit:  # noqa: ARG001 - one for each
    """The writers of this database at a level."""
    return GroupCommit()
