"""Recent: what was found a while ago, bounded in number and time."""

import threading
import time
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A mapping that forgets what is older than `seconds`, and beyond `most` what was used longest ago."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._lock = threading.Lock()
        self._found: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return what was put under this key; None when that is forgotten."""
        with self._lock:
            entry = self._found.get(key)
            if entry is None:
                return None
            if entry[0] <= time.monotonic():
                del self._found[key]
                return None
            self._found.move_to_end(key)
            return entry[1]

    def put(self, key: K, value: V) -> None:
        """Remember this from now on."""
        with self._lock:
            self._found[key] = time.monotonic() + self._seconds, value
            self._found.move_to_end(key)
            while len(self._found) > self._most:
                self._found.popitem(last=False)

    def drop(self, key: K) -> None:
        """Forget what is under this key."""
        with self._lock:
            self._found.pop(key, None)

    def __len__(self) -> int:
        return len(self._found)
