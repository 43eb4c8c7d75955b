"""The log in an archive: what was appended before is in it, and of what comes meanwhile only whole lines."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from state.errors import StorageError
from state.stores.backup.archive import add_log
from state.stores.disk.workspace import Workspace, contained, init_workspace


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return init_workspace(contained(tmp_path / "here"))


class Taker(dict[str, bytes]):
    """Takes the files of a log in."""

    def add(self, name: str, source: BinaryIO, size: int, mtime_ns: int) -> None:
        assert mtime_ns > 0
        self[name] = source.read(size)


def taken(workspace: Workspace) -> dict[str, bytes]:
    """The log as an archive has it."""
    taker = Taker()
    add_log(taker.add, workspace, workspace.disk())
    return taker


@contextmanager
def meanwhile(act: "threading.Thread") -> Iterator[None]:
    act.start()
    try:
        yield
    finally:
        act.join()


def test_a_line_that_is_being_written_is_waited_for(here: Workspace, tmp_path: Path) -> None:
    with here.scratch.open("ab", buffering=0) as file:
        file.write(b"- whole\n- half")

        def finish() -> None:
            time.sleep(0.2)
            file.write(b" a line\n- and the next")

        with meanwhile(threading.Thread(target=finish)):
            assert taken(here)["memory/scratch.md"] == b"- whole\n- half a line\n"


def test_a_writer_that_holds_the_log_is_waited_for(here: Workspace, tmp_path: Path) -> None:
    here.scratch.write_bytes(b"- one\n")
    with here.scratch.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b"- a note of\n")

        def finish() -> None:
            time.sleep(0.2)
            file.write(b"  two lines\n")
            fcntl.flock(file, fcntl.LOCK_UN)

        with meanwhile(threading.Thread(target=finish)):
            assert taken(here)["memory/scratch.md"] == b"- one\n- a note of\n  two lines\n"


def test_a_pipe_and_a_link_that_leads_out_are_refused_in_words(here: Workspace, tmp_path: Path) -> None:
    here.scratch.unlink(missing_ok=True)
    os.mkfifo(here.scratch)
    with pytest.raises(StorageError, match="no regular file; move it away"):
        taken(here)
    here.scratch.unlink()
    (tmp_path / "outside").write_text("secret")
    here.scratch.symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="replace the link by the file itself"):
        taken(here)
    here.scratch.unlink()
    (here.root / "mine.md").write_text("inside")
    here.scratch.symlink_to("../mine.md")
    assert taken(here)["memory/scratch.md"] == b"inside"
