"""The log in an archive: what was appended before is in it, and of what comes meanwhile only whole lines."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.errors import StorageError
from state.stores.backup import writing
from state.stores.backup.writing import ArchiveWriter, take_files, take_log
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace, contained, init_workspace
from tests.support.archives import members


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return init_workspace(contained(tmp_path / "here"))


def taken(workspace: Workspace, target: Path) -> dict[str, bytes]:
    """The log as an archive has it."""
    with target.open("w+b") as file, ArchiveWriter(file) as writer:
        take_files(writer, workspace, Disk(workspace.root))
        take_log(writer, workspace, Disk(workspace.root))
        writer.close("", 1, datetime.now(UTC))
    return members(target)


@contextmanager
def meanwhile(act: "threading.Thread") -> Iterator[None]:
    act.start()
    try:
        yield
    finally:
        act.join()


def test_a_line_that_is_being_written_is_waited_for(here: Workspace, tmp_path: Path) -> None:
    with here.scratch.open("ab", buffering=0) as log:
        log.write(b"- whole\n- half")

        def finish() -> None:
            time.sleep(0.2)
            log.write(b" a line\n- and the next")

        with meanwhile(threading.Thread(target=finish)):
            assert taken(here, tmp_path / "x")["memory/scratch.md"] == b"- whole\n- half a line\n"


def test_a_last_line_that_nobody_goes_on_with_is_a_note(here: Workspace, tmp_path: Path) -> None:
    here.scratch.write_bytes(b"- whole\n- and without an end")
    os.utime(here.scratch, (1_000_000, 1_000_000))
    assert taken(here, tmp_path / "x")["memory/scratch.md"] == b"- whole\n- and without an end"


def test_a_note_without_its_newline_is_in_it_once_it_is_quiet(here: Workspace, tmp_path: Path) -> None:
    here.scratch.write_bytes(b"- by printf")
    assert taken(here, tmp_path / "x")["memory/scratch.md"] == b"- by printf"


def test_a_line_that_never_ends_is_left_out(here: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_LONGEST_LINE_SECONDS", 0.2)
    here.scratch.write_bytes(b"- whole\n- and so")
    done = threading.Event()

    def dribble() -> None:
        with here.scratch.open("ab", buffering=0) as log:
            while not done.wait(0.01):
                log.write(b" on")

    with meanwhile(threading.Thread(target=dribble)):
        try:
            assert taken(here, tmp_path / "x")["memory/scratch.md"] == b"- whole\n"
        finally:
            done.set()


def test_a_log_that_is_longer_than_a_block_ends_with_a_line(here: Workspace, tmp_path: Path) -> None:
    content = b"".join(b"- %d\n" % number for number in range(400_000))
    here.scratch.write_bytes(content + b"x" * 3_000_000)
    os.utime(here.scratch, (1_000_000, 1_000_000))
    assert taken(here, tmp_path / "x")["memory/scratch.md"] == content + b"x" * 3_000_000


def test_a_writer_that_holds_the_log_is_waited_for(here: Workspace, tmp_path: Path) -> None:
    here.scratch.write_bytes(b"- one\n")
    with here.scratch.open("ab", buffering=0) as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        log.write(b"- a note of\n")

        def finish() -> None:
            time.sleep(0.2)
            log.write(b"  two lines\n")
            fcntl.flock(log, fcntl.LOCK_UN)

        with meanwhile(threading.Thread(target=finish)):
            assert taken(here, tmp_path / "x")["memory/scratch.md"] == b"- one\n- a note of\n  two lines\n"


def test_a_pipe_and_a_link_that_leads_out_are_refused_in_words(here: Workspace, tmp_path: Path) -> None:
    os.mkfifo(here.genome)
    with pytest.raises(StorageError, match="no regular file; move it away"):
        taken(here, tmp_path / "x")
    here.genome.unlink()
    (tmp_path / "outside").write_text("secret")
    here.genome.symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="replace the link by the file itself"):
        taken(here, tmp_path / "x")
    here.genome.unlink()
    (here.root / "mine.md").write_text("inside")
    here.genome.symlink_to("mine.md")
    assert taken(here, tmp_path / "x")["GENOME.md"] == b"inside"
