"""Turn: one at a time, among the threads of this process and among all processes that name the same file."""

import fcntl
import os
from pathlib import Path
from threading import RLock
from typing import Self


class Turn:
    """A lock as a context manager; whoever holds it may take it again. The kernel frees it when its holder ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = RLock()
        self._depth = 0
        self._fd = -1

    def __enter__(self) -> Self:
        self._lock.acquire()
        try:
            if not self._depth:
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._fd, fcntl.LOCK_EX)
            self._depth += 1
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            os.close(self._fd)
        self._lock.release()
