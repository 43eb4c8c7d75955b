"""WatchedObjects: the object store, and whether it can be reached, which whoever gives work to this worker asks."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from daemon.fleet.connections import MARK
from daemon.observability import logs
from state.errors import DreamdError, NotFoundError, UnreachableError
from state.stores.generations.objects import Objects, StoredObject

# Of an idle worker; so that the status of the fleet knows.
_ASKED_EVERY_SECONDS = 60.0


class WatchedObjects:
    """Implements `Objects` with another one. `problem`: why the store cannot be used now; empty when it can."""

    def __init__(self, objects: Objects) -> None:
        self.problem = ""
        self._reached_at = time.monotonic()
        self._objects = objects

    def put_new(self, key: str, content: bytes) -> None:
        """Write a new object, as the store does."""
        with self._watched():
            self._objects.put_new(key, content)

    def get(self, key: str) -> bytes:
        """Return an object, as the store does."""
        with self._watched():
            return self._objects.get(key)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, as the store does."""
        with self._watched():
            self._objects.delete(keys)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects below a prefix, as the store does."""
        with self._watched():
            yield from self._objects.list(prefix)

    def ask_again(self) -> None:
        """Look whether the store is there, if it was away or nobody asked it for a minute."""
        if self.problem or time.monotonic() - self._reached_at > _ASKED_EVERY_SECONDS:
            with suppress(DreamdError):
                self.get(MARK)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except UnreachableError as error:
            if not self.problem:
                logs.get().error("objects_unreachable", error=error)
            self.problem = "the object store of the fleet cannot be reached"
            raise
        except NotFoundError:  # which the store says
            self._reached()
            raise
        self._reached()

    def _reached(self) -> None:
        if self.problem:
            logs.get().info("objects_reached")
        self.problem, self._reached_at = "", time.monotonic()
