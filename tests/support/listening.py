"""Who watches workspaces as the daemon does: looks when an event says so, and every so often; and hears what came."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import pytest

from daemon.service.watcher import Change, Events, Watched

# Far more than is needed: a test that fails waits as long.
PATIENCE = 120.0
GLOBS = ("transcripts/**/*",)
News = tuple[Path, Change]


class Listener:
    """Looks, in a thread of its own, and hears."""

    def __init__(self, seconds: float) -> None:
        self.heard: list[News] = []
        self.globs: dict[Path, tuple[str, ...]] = {}
        self._watched: dict[Path, Watched] = {}
        self._news: SimpleQueue[News] = SimpleQueue()
        self._wanted: SimpleQueue[tuple[Path, Change | None] | None] = SimpleQueue()
        self._seconds = seconds
        self.events = Events(lambda root, change: self._wanted.put((root, change)))
        self._thread = Thread(target=self._listen)
        self._thread.start()

    def watch(self, root: Path, globs: tuple[str, ...] = GLOBS) -> None:
        self.globs[root] = globs
        watched = self._watched.setdefault(root, Watched(root))
        watched.look(globs)
        self.events.watch(root, watched.views)

    def forget(self, root: Path) -> None:
        del self._watched[root]
        self.events.forget(root)

    def close(self) -> None:
        self.events.close()
        self._wanted.put(None)
        self._thread.join()

    def wait_for(self, root: Path, change: Change) -> None:
        """Until this was told, not counting what was waited for before."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                told = self._news.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                pytest.fail(f"{change} of {root.name} was not told; told were {self.heard[-20:]}")
            self.heard.append(told)
            if told == (root, change):
                return

    def _listen(self) -> None:
        while True:
            told = None
            with suppress(Empty):
                if (told := self._wanted.get(timeout=self._seconds)) is None:
                    return
            if told is not None and told[1] is not None:
                self._news.put((told[0], told[1]))
            for root, watched in self._watched.copy().items():
                if told is None or told[0] == root:
                    for change in watched.look(self.globs[root]):
                        self._news.put((root, change))
                    if root in self._watched:
                        self.events.watch(root, watched.views)


@contextmanager
def listening(backend: str) -> Iterator[Listener]:
    """By events alone, which have to do it: the first look without one would come in an hour; or by looks alone."""
    with pytest.MonkeyPatch.context() as patch:
        if backend == "polling":
            patch.setenv("WATCHFILES_FORCE_POLLING", "1")
        listener = Listener(3_600.0 if backend == "events" else 0.1)
        try:
            yield listener
        finally:
            listener.close()


def append(path: Path, line: str = "- a line") -> None:
    """As an agent does it: another process, and `>>`."""
    subprocess.run(["sh", "-c", 'echo "$1" >> "$2"', "sh", line, os.fspath(path)], check=True)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
