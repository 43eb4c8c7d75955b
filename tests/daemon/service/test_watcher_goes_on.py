"""The watcher when things go wrong under it: odd names, exhausted inotify, failing callbacks, watches set anew."""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

import pytest

from daemon.service.watcher import Change, Watcher
from daemon.workspace.scan import Pattern, View, scan
from state.stores.disk.workspace import Workspace
from tests.support.listening import (
    BACKENDS,
    GLOBS,
    PATIENCE,
    Ear,
    append,
    append_here,
    inotify_descriptors,
    made,
    until,
    watcher_by,
)
from tests.support.running import ROOT


def test_a_name_that_is_not_utf8_is_told_and_the_watching_goes_on(
    watcher: Watcher, ear: Ear, workspace: Workspace
) -> None:
    watcher.watch(workspace.root, GLOBS)
    odd = workspace.root / "transcripts" / os.fsdecode(b"caf\xe9.md")
    odd.write_text("x")
    ear.wait_for(workspace.root, Change.TRANSCRIPT)
    append(workspace.scratch)
    ear.wait_for(workspace.root, Change.SCRATCH)


def test_a_folder_that_is_not_utf8_is_polled(tmp_path: Path, ear: Ear) -> None:
    workspace = made(tmp_path / os.fsdecode(b"caf\xe9"))
    watcher = Watcher(ear, polling_seconds=0.2)
    try:
        watcher.watch(workspace.root, GLOBS)
        append(workspace.root / "transcripts" / "talk.md")
        ear.wait_for(workspace.root, Change.TRANSCRIPT)
    finally:
        watcher.close()


def test_a_write_that_leaves_size_and_time_as_they_were_is_told(ear: Ear, workspace: Workspace) -> None:
    failures: list[Exception] = []
    watcher = watcher_by("events", ear, failures.append)
    try:
        watcher.watch(workspace.root, GLOBS)
        append(workspace.document)
        ear.wait_for(workspace.root, Change.DOCUMENT)
        before = workspace.document.stat()
        with workspace.document.open("r+") as file:
            file.write("!")
        os.utime(workspace.document, ns=(before.st_atime_ns, before.st_mtime_ns))
        ear.wait_for(workspace.root, Change.DOCUMENT)
    finally:
        watcher.close()


def test_a_callback_that_raises_does_not_stop_the_watching(workspace: Workspace) -> None:
    failures: SimpleQueue[Exception] = SimpleQueue()

    def refuses(root: Path, change: Change) -> None:
        raise ValueError(f"{change} of {root.name}")

    watcher = watcher_by("events", refuses, failures.put)
    try:
        watcher.watch(workspace.root, GLOBS)
        for _ in range(2):
            append(workspace.scratch)
            assert str(failures.get(timeout=PATIENCE)) == "scratch of here"
    finally:
        watcher.close()


class Reader:
    """Reads when it is told, and only then."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[Change, Path] = {}
        self.sizes: dict[Path, int] = {}

    def __call__(self, root: Path, change: Change) -> None:
        if root == self.root and change in self.files:
            path = self.files[change]
            with suppress(FileNotFoundError):  # told of the folder it will be in
                self.sizes[path] = path.stat().st_size

    def has_all(self) -> bool:
        return all(self.sizes.get(path) == path.stat().st_size for path in self.files.values())


@contextmanager
def restless(watcher: Watcher, roots: list[Path]) -> Iterator[None]:
    """Meanwhile these workspaces come and go, and each time the watches are set anew."""
    done, chance = threading.Event(), random.Random(2)

    def come_and_go() -> None:
        while not done.wait(chance.uniform(0, 0.05)):
            root = chance.choice(roots)
            if chance.random() < 0.5:
                watcher.forget(root)
            else:
                watcher.watch(root, GLOBS)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_missed_while_the_watches_are_set_anew(backend: str, tmp_path: Path) -> None:
    busy = made(tmp_path / "busy")
    others = [made(tmp_path / f"other{number}").root for number in range(8)]
    for number in range(400):  # so that setting them takes a while
        (others[number % 8] / "transcripts" / f"day{number}").mkdir()
    failures: list[Exception] = []
    reader = Reader(busy.root)
    watcher = watcher_by(backend, reader, failures.append)
    watcher.watch(busy.root, GLOBS)
    chance = random.Random(1)
    try:
        with restless(watcher, others):
            for day in range(6):
                # A new folder each time: the watches of the busy one change as well.
                talk = busy.root / "transcripts" / f"day{day}" / "talk.md"
                talk.parent.mkdir()
                reader.files = {Change.SCRATCH: busy.scratch, Change.TRANSCRIPT: talk}
                for number in range(13):
                    append_here(busy.scratch, f"- {number}")
                    append_here(talk, f"- {number}")
                    time.sleep(chance.uniform(0, 0.05))
                until(reader.has_all)
    finally:
        watcher.close()
    assert failures == []


def test_closing_ends_the_thread_and_leaves_no_descriptor(watcher: Watcher, ear: Ear, workspace: Workspace) -> None:
    watcher.watch(workspace.root, GLOBS)
    append(workspace.scratch)
    ear.wait_for(workspace.root, Change.SCRATCH)
    watcher.close()
    assert not watcher._thread.is_alive()
    until(lambda: inotify_descriptors() == 0)
    append(workspace.scratch)
    with pytest.raises(RuntimeError, match="closed"):
        watcher.watch(workspace.root, GLOBS)
    watcher.close()
    assert ear.news.empty()


def test_a_callback_may_close_the_watcher(workspace: Workspace) -> None:
    called: SimpleQueue[Change] = SimpleQueue()
    watchers: list[Watcher] = []

    def raises(error: Exception) -> None:
        raise error

    def ends(_: Path, change: Change) -> None:
        watchers[0].close()
        called.put(change)

    watchers.append(watcher_by("polling", ends, raises))
    watchers[0].watch(workspace.root, GLOBS)
    append(workspace.scratch)
    assert called.get(timeout=PATIENCE) is Change.SCRATCH
    until(lambda: not watchers[0]._thread.is_alive())


@pytest.mark.parametrize(("wish", "descriptors"), [("1", 0), ("false", 1), ("", 1)])
def test_the_variable_of_watchfiles_forces_polling(
    wish: str, descriptors: int, monkeypatch: pytest.MonkeyPatch, ear: Ear, workspace: Workspace
) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", wish)
    watcher = Watcher(ear, polling_seconds=0.1)
    try:
        watcher.watch(workspace.root, GLOBS)
        append(workspace.scratch)
        ear.wait_for(workspace.root, Change.SCRATCH)
        until(lambda: inotify_descriptors() == descriptors)
    finally:
        watcher.close()


EXHAUSTED = """
import os, resource, sys, time
from pathlib import Path
from queue import SimpleQueue
import watchfiles
from daemon.service.watcher import Change, Watcher
from daemon.workspace.scan import Pattern, View, scan

root, (soft, hard) = Path(sys.argv[1]), resource.getrlimit(resource.RLIMIT_NOFILE)
scratch, told = root / "memory" / "scratch.md", SimpleQueue()
# One more file can be opened: enough to look, not for inotify.
resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard))
watcher = Watcher(lambda _, change: told.put(change), polling_seconds=0.1)
watcher.watch(root, ["transcripts/**/*"])
scratch.open("a").write("one")
assert told.get(timeout=60) is Change.SCRATCH
assert "fs.inotify.max_user_instances" in watcher.problem.advice, watcher.problem
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
deadline = time.monotonic() + 60
while watcher.problem and time.monotonic() < deadline:
    time.sleep(0.05)
assert watcher.problem is None
assert "anon_inode:inotify" in [os.readlink(p) for p in Path("/proc/self/fd").iterdir() if p.is_symlink()]
watcher.close()
"""


@pytest.mark.full
def test_without_inotify_it_polls_and_says_so_until_inotify_is_back(workspace: Workspace) -> None:
    run = subprocess.run(
        [sys.executable, "-c", EXHAUSTED, str(workspace.root)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_with_a_watchfiles_of_another_make_it_polls_and_says_so(
    monkeypatch: pytest.MonkeyPatch, ear: Ear, workspace: Workspace
) -> None:
    def watch(*paths: str) -> Iterator[set[tuple[int, str]]]:
        raise AssertionError(paths)

    monkeypatch.setattr("watchfiles.watch", watch)
    watcher = Watcher(ear, polling_seconds=0.1)
    try:
        watcher.watch(workspace.root, GLOBS)
        until(lambda: watcher.problem is not None)
        append(workspace.scratch)
        ear.wait_for(workspace.root, Change.SCRATCH)
        assert "unexpected keyword argument" in str(watcher.problem)
    finally:
        watcher.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_watcher_of_nothing_ends_when_it_is_closed(ear: Ear, backend: str) -> None:
    watcher = watcher_by(backend, ear, lambda _: None)
    until(lambda: not watcher._renew.is_set())
    watcher.close()
    assert not watcher._thread.is_alive()


def test_a_workspace_that_joins_in_the_midst_of_a_look_costs_no_spinning(ear: Ear, tmp_path: Path) -> None:
    here, others = made(tmp_path / "here"), [made(tmp_path / "there").root]
    waits: list[float | None] = []

    class Counted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return super().wait(timeout)

    def joined(root: Path, patterns: tuple[Pattern, ...]) -> View:
        if threading.current_thread() is watcher._thread and others:
            watcher.watch(others.pop(), GLOBS)
        return scan(root, patterns)

    watcher = Watcher(ear, polling_seconds=3600, force_polling=True, scan=joined)
    watcher._closing = Counted()
    try:
        watcher.watch(here.root, GLOBS)
        until(lambda: not others and not watcher._renew.is_set())
    finally:
        watcher.close()
    assert waits.count(0.0) == 0
