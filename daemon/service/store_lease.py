"""Store lease: opens a workspace's stores for the first who uses them, and closes them when they are idle."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from daemon.workspace.stores import Store
from state.errors import BusyError, FencedError, StorageError


class StoreLease:
    """One set of open stores, used by one thread at a time."""

    def __init__(self, open_store: Callable[[], Store], key: Callable[[], object]) -> None:
        """Open nothing yet. `key`: what the stores depend on; if it has changed, the next user gets fresh ones."""
        self._open_store = open_store
        self._key = key
        self._turn = threading.Lock()
        self._released = threading.Condition()  # notified when a turn has ended
        self._store: Store | None = None
        self._opened_with: object = None
        self._used = 0.0

    @property
    def busy(self) -> bool:
        """Whether somebody uses the stores."""
        return self._turn.locked()

    def wait_until_free(self, seconds: float, or_until: Callable[[], bool] = lambda: False) -> bool:
        """Wait until nobody uses the stores, or the next user has made this true; return whether it came so far."""
        with self._released:
            return self._released.wait_for(lambda: not self.busy or or_until(), seconds)

    @contextmanager
    def use(self, *, wait: bool = True) -> Iterator[Store]:
        """Lend the stores. An error of the disk or of SQLite closes them, so that the next user gets fresh ones.

        Raise BusyError when somebody uses them and `wait` is false.
        """
        if not self._turn.acquire(blocking=wait):
            raise BusyError("something long is under way in this workspace, such as a dream", "try again")
        try:
            if self._opened_with != self._key():
                self._close()  # the workspace was released and acquired again since, or is configured otherwise
            if self._store is None:
                self._opened_with, self._store = self._key(), self._open_store()
            try:
                yield self._store
            except (sqlite3.Error, OSError, StorageError, FencedError):
                self._close()
                raise
        finally:
            self._used = time.monotonic()
            self._release()

    def close_idle(self, seconds: float = 0.0) -> bool:
        """Close the stores if nobody has used them for so long; return whether they are closed."""
        with self.kept_closed(seconds) as closed:
            return closed

    @contextmanager
    def kept_closed(self, seconds: float = 0.0) -> Iterator[bool]:
        """Close the stores as `close_idle` does, and let nobody open them until the context ends."""
        if not self._turn.acquire(blocking=False):
            yield False
            return
        try:
            if self._store is not None and time.monotonic() - self._used >= seconds:
                self._close()
            yield self._store is None
        finally:
            self._release()

    def _release(self) -> None:
        self._turn.release()
        with self._released:
            self._released.notify_all()

    def _close(self) -> None:
        if self._store is not None:
            store, self._store = self._store, None
            store.close()
