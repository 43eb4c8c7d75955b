"""What the tests of the watcher share: workspaces to change, and an ear for what is told."""

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

from daemon.service.watcher import Change, Watcher
from daemon.workspace.adoption import init_workspace
from state.stores.disk.workspace import Workspace

# Far more than is needed: a test that fails waits as long.
PATIENCE = 300.0
BACKENDS = ("events", "polling")
GLOBS = ("transcripts/**/*",)
News = tuple[Path, Change]


def watcher_by(backend: str, changed: Callable[[Path, Change], None], failed: Callable[[Exception], None]) -> Watcher:
    """Events have to do it alone: the first look without one would come in an hour."""
    if backend == "events":
        return Watcher(changed, polling_seconds=3600, failed=failed)
    return Watcher(changed, polling_seconds=0.1, force_polling=True, failed=failed)


class Ear:
    """Hears what a watcher tells."""

    def __init__(self) -> None:
        self.news: SimpleQueue[News] = SimpleQueue()
        self.heard: list[News] = []

    def __call__(self, root: Path, change: Change) -> None:
        self.news.put((root, change))

    def wait_for(self, root: Path, change: Change) -> None:
        """Until this was told, not counting what was waited for before."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                told = self.news.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                pytest.fail(f"{change} of {root.name} was not told; told were {self.heard[-20:]}")
            self.heard.append(told)
            if told == (root, change):
                return


def made(folder: Path) -> Workspace:
    workspace = init_workspace(folder)
    workspace.document.write_text("# Memory\n")
    workspace.scratch.write_text("")
    (workspace.root / "transcripts").mkdir()
    return workspace


def append(path: Path, line: str = "- a line") -> None:
    """As an agent does it: another process, and `>>`."""
    subprocess.run(["sh", "-c", 'echo "$1" >> "$2"', "sh", line, str(path)], check=True)


def append_here(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")


def inotify_descriptors() -> int:
    links = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            links.append(str(descriptor.readlink()))
    return links.count("anon_inode:inotify")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
