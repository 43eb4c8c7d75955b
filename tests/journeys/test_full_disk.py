"""The disk runs full at any point: one line says so, what was acknowledged is kept, and with space it goes on."""

import gc
import json
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.workspace.adoption import open_workspace
from tests.support.copies import copy_of
from tests.support.keeping import KNOWN, PENDING, copied, crystals, one_line, pending, works_again
from tests.support.long_variants import spread
from tests.support.notes import pending_notes
from tests.support.running import Caller, Ended, process

FULL = "the disk is full; free some space and try again"
SIZE = 8 * 1024**2
TURNS = 60


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder = tmp_path_factory.mktemp("small")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a small file system here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def here(remembered: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace alone on the small file system, with its state."""
    subprocess.run(["find", str(small), "-mindepth", "1", "-delete"], check=True)
    copy = copy_of(remembered, small / "here", {**os.environ, "XDG_DATA_HOME": str(small / "data")})
    monkeypatch.setenv("XDG_DATA_HOME", str(small / "data"))
    return copy.root


def filled(root: Path, leave: int) -> Path:
    """Fill the file system of the workspace but for so many bytes; returns what to remove for more space."""
    gc.collect()  # who still holds a file that was deleted gives its space back later
    system = os.statvfs(root)
    ballast = root.parent / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size := max(1, system.f_bavail * system.f_frsize - leave))
        with suppress(OSError):
            while not leave:  # what is free is counted by processor, and told with a delay
                os.posix_fallocate(file.fileno(), size, 4096)
                size += 4096
    return ballast


def transcript(path: Path) -> list[str]:
    texts = [f"Turn {number} is about stone {number * 17} of the old harbour wall" for number in range(TURNS)]
    path.write_text("".join(json.dumps({"role": "user", "content": text}) + "\n" for text in texts))
    return texts


def noted_until_full(dreamd: Caller, root: Path) -> list[str]:
    """Notes of 3,000 bytes until one is refused; those that were acknowledged."""
    acknowledged: list[str] = []
    for number in range(20):
        text = f"note {number} " + "x" * 3_000
        ended = dreamd("note", "-w", root, text)
        if ended.status:
            one_line(ended, 1, "inbox.md", FULL)
            assert ended.out == ""
            return acknowledged
        acknowledged.append(text)
    raise AssertionError("the disk is not full")


def test_a_note_that_finds_no_space_is_refused_and_those_before_it_are_kept(dreamd: Caller, here: Path) -> None:
    ballast = filled(here, leave=4 * 4096)
    acknowledged = noted_until_full(dreamd, here)
    assert acknowledged
    assert PENDING in dreamd("bootstrap", here).out
    ballast.unlink()
    assert pending(here) == sorted([PENDING, *acknowledged])
    assert dreamd("note", "-w", here, "with space again").status == 0
    assert pending(here) == sorted([PENDING, *acknowledged, "with space again"])


@pytest.mark.parametrize("command", spread(["dream", "feel error", "restore 1", "init"], 3))
def test_without_any_space_every_command_that_needs_some_says_so(dreamd: Caller, here: Path, command: str) -> None:
    memory, database = (here / "MEMORY.md").read_bytes(), open_workspace(here).database
    for side in ("-wal", "-shm"):  # nobody has left what a reader of a log needs
        database.with_name(f"{database.name}{side}").unlink(missing_ok=True)
    ballast = filled(here, leave=0)
    one_line(dreamd(*command.split(), "-w", here), 1, str(here.parent), FULL)
    assert (here / "MEMORY.md").read_bytes() == memory
    assert PENDING in dreamd("bootstrap", here).out
    for only_reads in ("status", "history", "search Ada", "mood"):
        assert dreamd(*only_reads.split(), "-w", here).status == 0, only_reads
    assert KNOWN[0] in dreamd("search", KNOWN[0], "-w", here).out
    ballast.unlink()
    assert pending(here) == [PENDING]
    assert dreamd(*command.split(), "-w", here).status == 0
    assert all(text in (here / "MEMORY.md").read_text() for text in KNOWN)


@pytest.mark.full
def test_a_dream_that_runs_out_of_space_anywhere_changes_nothing_and_is_finished_later(
    dreamd: Caller, remembered: Path, small: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses, data = [], str(small / "data")
    subprocess.run(["rm", "-r", str(here), data], check=True)
    for kibibytes in (8, 150, 250, 300, 400, 700, 1_500):
        monkeypatch.undo()
        here = copy_of(remembered, small / f"with {kibibytes}", {**os.environ, "XDG_DATA_HOME": data}).root
        monkeypatch.setenv("XDG_DATA_HOME", data)
        memory = (here / "MEMORY.md").read_bytes()
        ballast = filled(here, leave=kibibytes * 1024)
        ended = dreamd("dream", here)
        statuses.append(ended.status)
        if ended.status:
            one_line(ended, 1, "the disk is full")
            assert PENDING in dreamd("bootstrap", here).out
        ballast.unlink()
        if PENDING in pending(here):
            assert (here / "MEMORY.md").read_bytes() == memory
        assert dreamd("note", "-w", here, "with space again").status == 0
        assert dreamd("dream", here).status == 0
        assert dreamd("dream", here).status in (0, 3)
        text = (here / "MEMORY.md").read_text()
        assert [text.count(note) for note in (*KNOWN, PENDING, "with space again")] == [1, 1, 1, 1]
        assert pending(here) == []
        assert "ok       state.db      sound" in dreamd("doctor", here).out
        subprocess.run(["rm", "-r", str(here), data], check=True)
    assert set(statuses) == {0, 1}
    assert statuses == sorted(statuses, reverse=True)


@pytest.mark.full
@pytest.mark.parametrize("kibibytes", [8, 150, 300])
def test_an_ingestion_that_runs_out_of_space_goes_on_where_it_was(dreamd: Caller, here: Path, kibibytes: int) -> None:
    texts = transcript(here.parent / "chat.jsonl")
    ballast = filled(here, leave=kibibytes * 1024)
    one_line(dreamd("ingest", here.parent / "chat.jsonl", "-w", here), 1, "the disk is full")
    ballast.unlink()
    assert dreamd("ingest", here.parent / "chat.jsonl", "-w", here).status == 0
    assert set(texts) <= crystals(here)
    works_again(dreamd, here, PENDING)


def limited(kibibytes: int, *words: str | Path) -> Ended:
    """A real process that may write no file past so many KiB: the nearest to a full disk without mounting one."""
    limit = (resource.RLIMIT_FSIZE, kibibytes * 1024)
    return process(*words, before=("tests.support.forked:limited", [limit]))


def test_a_limit_on_the_size_of_files_is_met_as_a_full_disk_is(
    dreamd: Caller, remembered: Path, tmp_path: Path
) -> None:
    here = copied(remembered, tmp_path / "here")
    memory = (here / "MEMORY.md").read_bytes()
    with (here / "memory" / "scratch.md").open("a") as file:
        file.write(f"- {'y' * 900}\n")
    one_line(limited(1, "note", "not written" * 100, "-w", here), 1, "inbox.md")
    one_line(limited(64, "dream", here), 1)
    assert (here / "MEMORY.md").read_bytes() == memory
    assert pending(here) == [PENDING, "y" * 900]
    assert len(pending_notes(open_workspace(here))) == 2
    assert dreamd("dream", here).status == 0
    assert PENDING in (here / "MEMORY.md").read_text()
    assert pending(here) == []
