"""Where the stores of a workspace lie open while somebody uses them."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from daemon.workspace.stores import Store
from state.errors import BusyError, FencedError, StorageError


class StoreLease:
    """The stores, opened by the first who uses them and closed when nobody has for a while; one user at a time."""

    def __init__(self, opening: Callable[[], Store], under: Callable[[], object]) -> None:
        """`under`: what the stores are opened with; when that is another, they are opened anew."""
        self._opening = opening
        self._under = under
        self._turn = threading.Lock()
        self._store: Store | None = None
        self._opened_under: object = None
        self._used = 0.0

    @property
    def busy(self) -> bool:
        """Whether somebody is at it."""
        return self._turn.locked()

    @contextmanager
    def using(self, *, wait: bool = True) -> Iterator[Store]:
        """The stores. What the disk or SQLite failed with closes them: the next user begins with fresh ones.

        Raises BusyError when somebody is at it and one does not wait.
        """
        if not self._turn.acquire(blocking=wait):
            raise BusyError("something long is under way in this workspace, such as a dream", "try again")
        try:
            if self._opened_under != self._under():
                self._close()  # the workspace was let go and taken up again since, or is configured otherwise
            if self._store is None:
                self._opened_under, self._store = self._under(), self._opening()
            try:
                yield self._store
            except (sqlite3.Error, OSError, StorageError, FencedError):
                self._close()
                raise
        finally:
            self._used = time.monotonic()
            self._turn.release()

    def rest(self, seconds: float = 0.0) -> bool:
        """Close the stores if nobody has used them for so long; whether they are closed."""
        with self.resting(seconds) as closed:
            return closed

    @contextmanager
    def resting(self, seconds: float) -> Iterator[bool]:
        """The same, and while they are closed nobody opens them."""
        if not self._turn.acquire(blocking=False):
            yield False
            return
        try:
            if self._store is not None and time.monotonic() - self._used >= seconds:
                self._close()
            yield self._store is None
        finally:
            self._turn.release()

    def _close(self) -> None:
        if self._store is not None:
            store, self._store = self._store, None
            store.close()
