"""The watcher with real files, by the kernel's events and by looks alone: whatever changes is told."""

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.service import watcher
from daemon.service.watcher import Change, Events
from daemon.workspace.adoption import init_workspace
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import HEAD
from tests.support.listening import GLOBS, Listener, append, listening, until
from tests.support.running import ROOT


@pytest.fixture(params=["events", "polling"])
def ear(request: pytest.FixtureRequest) -> Iterator[Listener]:
    with listening(request.param) as listener:
        yield listener


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return made(tmp_path / "here")


def made(folder: Path) -> Workspace:
    workspace = init_workspace(folder)
    workspace.document.write_text("# Memory\n")
    workspace.scratch.write_text("")
    (workspace.root / "transcripts").mkdir()
    return workspace


def replace_document(one: Workspace) -> None:
    draft = one.root / "draft"
    draft.write_text(f"# {time.monotonic()}")
    draft.rename(one.document)


def rewrite_with_the_same_stamp(one: Workspace) -> None:
    before = one.document.stat()
    one.document.write_text(one.document.read_text().swapcase() + str(before.st_mtime_ns)[-1])
    os.utime(one.document, ns=(before.st_atime_ns, before.st_mtime_ns))


def link_to(one: Workspace, target: Path) -> None:
    link = one.root / "transcripts" / "linked.md"
    if not link.is_symlink():
        target.parent.mkdir()
        target.write_text("")
        link.symlink_to(target)
    append(target)


def new_folder(one: Workspace) -> None:
    folder = one.root / "transcripts" / str(time.monotonic_ns()) / "march"
    folder.mkdir(parents=True)
    append(folder / "talk.jsonl", "{}")


ACTS: dict[str, tuple[Change, Callable[[Workspace], object]]] = {
    "an append to the log": (Change.SCRATCH, lambda one: append(one.scratch)),
    "a log that is written anew": (Change.SCRATCH, lambda one: one.disk().write_atomic(one.scratch, HEAD)),
    "a document that is replaced": (Change.DOCUMENT, replace_document),
    "a document of the same length and time": (Change.DOCUMENT, rewrite_with_the_same_stamp),
    "a transcript": (Change.TRANSCRIPT, lambda one: append(one.root / "transcripts" / "talk.md")),
    "a transcript in a new folder": (Change.TRANSCRIPT, new_folder),
    "a name that is not UTF-8": (
        Change.TRANSCRIPT,
        lambda one: append(one.root / "transcripts" / os.fsdecode(b"caf\xe9.md")),
    ),
    "a file behind a link": (Change.TRANSCRIPT, lambda one: link_to(one, one.root.parent / "away" / "talk[1].md")),
}


@pytest.mark.parametrize("act", ACTS)
def test_whatever_is_written_is_told_each_time(ear: Listener, workspace: Workspace, act: str) -> None:
    change, do = ACTS[act]
    ear.watch(workspace.root)
    for _ in range(2):
        do(workspace)
        ear.wait_for(workspace.root, change)


def test_what_goes_is_told_and_what_comes_where_nothing_was(ear: Listener, tmp_path: Path) -> None:
    root = tmp_path / "bare"
    root.mkdir()
    ear.watch(root, ("chats/*/days/**/*.md",))
    day = root / "chats" / "ada" / "days" / "2026-03-01"
    day.mkdir(parents=True)
    append(day / "talk.md")
    ear.wait_for(root, Change.TRANSCRIPT)
    (day / "talk.md").unlink()
    ear.wait_for(root, Change.TRANSCRIPT)
    (root / "memory").mkdir()
    append(root / "memory" / "scratch.md")
    ear.wait_for(root, Change.SCRATCH)


def test_a_root_that_went_and_came_back_is_told_when_it_is_looked_at(tmp_path: Path) -> None:
    with listening("polling") as ear:
        workspace = made(tmp_path / "here")
        ear.watch(workspace.root)
        shutil.rmtree(workspace.root)
        ear.wait_for(workspace.root, Change.DOCUMENT)
        made(workspace.root)
        ear.wait_for(workspace.root, Change.DOCUMENT)


def test_what_does_not_belong_to_it_is_not_told(ear: Listener, workspace: Workspace, tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", workspace.root / "kept"
    for folder in (outside, inside):
        (folder / "below").mkdir(parents=True)
    (workspace.root / "chats").symlink_to(outside)
    (workspace.root / "talks").symlink_to(inside)
    (workspace.root / "transcripts" / "everything").symlink_to("/")
    (workspace.root / "transcripts" / "round").symlink_to(workspace.root / "transcripts")
    bad = ("", "/etc/*", f"{tmp_path}/*.md", "../*.md", "a\0b")
    ear.watch(workspace.root, (*bad, "**/*.log", "chats/**/*.md", "talks/**/*.md", *GLOBS))
    for path in (
        workspace.state / "state.log",
        workspace.root / "notes.txt",
        workspace.root / "memory" / "other.md",
        tmp_path / "outside.md",
        outside / "below" / "talk.md",
    ):
        append(path)
    for _ in range(2):  # by then a round is over
        append(workspace.scratch)
        ear.wait_for(workspace.root, Change.SCRATCH)
    assert set(ear.heard) == {(workspace.root, Change.SCRATCH)}
    append(inside / "below" / "talk.md")
    ear.wait_for(workspace.root, Change.TRANSCRIPT)


def test_many_changes_at_once_are_few_words(ear: Listener, workspace: Workspace) -> None:
    ear.watch(workspace.root)
    for number in range(300):
        with workspace.scratch.open("a") as file:
            file.write(f"- {number}\n")
    ear.wait_for(workspace.root, Change.SCRATCH)
    append(workspace.document)
    ear.wait_for(workspace.root, Change.DOCUMENT)
    assert len(ear.heard) < 100


def test_fifty_workspaces_and_one_that_is_forgotten(ear: Listener, tmp_path: Path) -> None:
    workspaces = [made(tmp_path / f"w{number}") for number in range(50)]
    for one in workspaces:
        ear.watch(one.root)
    ear.forget(workspaces[0].root)
    for one in workspaces:
        append(one.scratch)
    for one in workspaces[1:]:
        if (one.root, Change.SCRATCH) not in ear.heard:
            ear.wait_for(one.root, Change.SCRATCH)
    assert Counter(ear.heard)[workspaces[0].root, Change.SCRATCH] == 0


def test_other_globs_tell_what_they_find(ear: Listener, workspace: Workspace) -> None:
    (workspace.root / "chats").mkdir()
    append(workspace.root / "chats" / "talk.md")
    ear.watch(workspace.root)
    ear.globs[workspace.root] = ("chats/*.md",)
    append(workspace.scratch)  # which brings a look
    ear.wait_for(workspace.root, Change.TRANSCRIPT)
    append(workspace.root / "chats" / "talk.md")
    ear.wait_for(workspace.root, Change.TRANSCRIPT)


@pytest.mark.full
def test_nothing_is_missed_while_watches_are_set_anew(ear: Listener, tmp_path: Path) -> None:
    busy, others = made(tmp_path / "busy"), [made(tmp_path / f"other{number}").root for number in range(8)]
    for number in range(400):  # so that setting them takes a while
        (others[number % 8] / "transcripts" / f"day{number}").mkdir()
    done, chance = threading.Event(), random.Random(2)

    def come_and_go() -> None:
        while not done.wait(chance.uniform(0, 0.05)):
            root = chance.choice(others)
            with suppress(KeyError):
                ear.forget(root) if chance.random() < 0.5 else ear.watch(root)

    restless = threading.Thread(target=come_and_go)
    ear.watch(busy.root)
    restless.start()
    try:
        for day in range(6):
            talk = busy.root / "transcripts" / f"day{day}" / "talk.md"
            talk.parent.mkdir()  # the watches of the busy one change as well
            for number in range(5):
                append(talk, f"- {number}")
                ear.wait_for(busy.root, Change.TRANSCRIPT)
            append(busy.scratch)
            ear.wait_for(busy.root, Change.SCRATCH)
    finally:
        done.set()
        restless.join()


EXHAUSTED = """
import os, resource, sys, time
from pathlib import Path
import watchfiles
from daemon.service import watcher
from daemon.service.watcher import Change, Events, Watched

watcher._RETRY_SECONDS = 0.2
root, (soft, hard) = Path(sys.argv[1]), resource.getrlimit(resource.RLIMIT_NOFILE)
watched = Watched(root)
watched.look(["transcripts/**/*"])
# One more file can be opened: enough to look, not for inotify.
resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard))
events = Events(lambda *_: None)
events.watch(root, watched.views)
deadline = time.monotonic() + 60
while events.are_heard and time.monotonic() < deadline:
    time.sleep(0.05)
assert "fs.inotify.max_user_instances" in events.problem.advice, events.problem
(root / "memory" / "scratch.md").open("a").write("one")
assert watched.look(["transcripts/**/*"]) == {Change.SCRATCH}
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
while events.problem and time.monotonic() < deadline:
    time.sleep(0.05)
assert events.are_heard
assert "anon_inode:inotify" in [os.readlink(p) for p in Path("/proc/self/fd").iterdir() if p.is_symlink()]
events.close()
"""


def test_without_inotify_it_says_so_until_inotify_is_back(workspace: Workspace) -> None:
    command = [sys.executable, "-c", EXHAUSTED, str(workspace.root)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("fault", ["another make", "a disk that hangs"])
def test_without_events_it_says_so_and_files_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, workspace: Workspace, fault: str
) -> None:
    answers = threading.Event()

    def watch(*_: str, **__: object) -> Iterator[set[tuple[int, str]]]:
        if fault == "another make":
            raise TypeError("unexpected keyword argument")
        answers.wait()
        yield set()

    monkeypatch.setattr("watchfiles.watch", watch)
    monkeypatch.setattr(watcher, "_STUCK_SECONDS", 0.1)
    ear = Listener(0.1)
    try:
        ear.watch(workspace.root)
        until(lambda: ear.events.problem is not None)
        assert not ear.events.are_heard
        append(workspace.scratch)
        ear.wait_for(workspace.root, Change.SCRATCH)
    finally:
        answers.set()
        ear.close()


def test_closing_ends_the_thread_and_leaves_no_descriptor(workspace: Workspace) -> None:
    def descriptors() -> int:
        links = []
        for descriptor in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # the listing's own
                links.append(str(descriptor.readlink()))
        return links.count("anon_inode:inotify")

    before = descriptors()
    with listening("events") as ear:
        ear.watch(workspace.root)
        append(workspace.scratch)
        ear.wait_for(workspace.root, Change.SCRATCH)
        assert descriptors() == before + 1
    until(lambda: descriptors() == before)
    nothing = Events(lambda *_: None)  # and of nothing as well
    nothing.close()
    assert "watching" not in [one.name for one in threading.enumerate()]
