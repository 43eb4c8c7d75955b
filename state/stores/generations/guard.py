"""Guard: a circuit breaker around the fleet's object store: no caller waits for a store that does not answer.

    caller ──> guard ──> store          once a second a probe reads the fleet's mark
                 │
                 └── after 2.75 s without an answer, or without the mark: callers fail at once, the probe goes on

The mark says whose store it is. It is also read after each write: a store that was emptied or replaced takes none.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar
from uuid import uuid4

from state.errors import ConfigError, ConflictError, DreamdError, NotFoundError, UnreachableError
from state.stores.generations.objects import Objects, StoredObject

MARK = "fleet"
"""The object that holds the ids of the fleet and of this store."""
PROBE_SECONDS = 1.0
# Longer than two probes, which succeed during a long transfer.
_SILENT_SECONDS = 2.75
_STEP_SECONDS = 0.1
_AT_ONCE = 256
_AWAY = "the object store of the fleet cannot be reached"
_NOT_OURS = "the object store has not the mark of this fleet: it was emptied, or is another one"
Result = TypeVar("Result")


def mark_of(objects: Objects) -> str:
    """Return the ids of the fleet and the store; empty if no fleet has claimed it."""
    try:
        return objects.get(MARK).decode(errors="replace")
    except NotFoundError:
        return ""


def require_fencing(objects: Objects) -> None:
    """Raise ConfigError if the store overwrites an object that is there, although it is asked not to."""
    key = f"{MARK}-{uuid4()}"
    try:
        objects.put(key, b"first")
        objects.put(key, b"second")
    except ConflictError:
        return
    finally:
        objects.delete([key])
    raise ConfigError(
        "the object store ignores 'If-None-Match: *', by which only one process can commit",
        "use a store that heeds it, as S3 does, or a folder that all machines share",
    )


class StoreAwayError(UnreachableError):
    """The object store is away, or is not the fleet's."""


class GuardedObjects:
    """A store of objects for one process, any thread; `probe` is called once a second by a thread of its own."""

    def __init__(self, objects: Objects, mark: str) -> None:
        self._objects = objects
        self._mark = mark
        self._answered_at = time.monotonic()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "store")
        self.problem = ""
        """Why the store cannot be used now; empty if it can."""

    @property
    def is_replaced(self) -> bool:
        """Return whether the store lacks the mark: whatever was in it may be gone, also once the mark is back."""
        return self.problem == _NOT_OURS

    def require(self) -> None:
        """Raise StoreAwayError if the store is known to be away."""
        if self.problem:
            raise StoreAwayError(self.problem, "try again soon")

    def probe(self) -> None:
        """Ask for the mark. It is the only request that is made while the store is away."""
        try:
            found = self._bounded(lambda: mark_of(self._objects), is_probe=True)
        except DreamdError:
            self.problem = self.problem or _AWAY
        else:
            self.problem = "" if found == self._mark else _NOT_OURS

    # ------------------------------------------------------------ Objects

    def put(self, key: str, content: bytes) -> None:
        """Create the object in the fleet's own store; see `Objects`."""
        self._bounded(lambda: self._put(key, content))

    def get(self, key: str) -> bytes:
        """Return the whole object; see `Objects`."""
        return self._bounded(lambda: self._objects.get(key))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete these objects; see `Objects`."""
        self._bounded(lambda: self._objects.delete(keys))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield every object below the prefix; see `Objects`."""
        yield from self._bounded(lambda: [*self._objects.list(prefix)])

    def _put(self, key: str, content: bytes) -> None:
        self._objects.put(key, content)
        if mark_of(self._objects) != self._mark:
            self.problem = _NOT_OURS
            raise StoreAwayError(_NOT_OURS, "restore it, or set fleet.objects right")

    def _bounded(self, act: Callable[[], Result], *, is_probe: bool = False) -> Result:
        """Do it in another thread, and wait for it while the store answers anybody. Raise UnreachableError."""
        if not is_probe:
            self.require()
        began, request = time.monotonic(), self._threads.submit(act)
        while not request.done():
            left = max(began, self._answered_at) + _SILENT_SECONDS - time.monotonic()
            if left <= 0:
                self.problem = self.problem or _AWAY
            if left <= 0 or (self.problem and not is_probe):
                request.cancel()
                raise StoreAwayError(self.problem or _AWAY, "try again soon")
            wait([request], min(left, _STEP_SECONDS))
        try:
            result = request.result()
        except UnreachableError:
            self.problem = self.problem or _AWAY
            raise
        except DreamdError:
            self._answered_at = time.monotonic()
            raise
        self._answered_at = time.monotonic()
        return result
