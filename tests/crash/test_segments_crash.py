"""No acknowledged note is lost or consumed twice: faults at every call, loss of power, processes killed at will."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from state.errors import StorageError
from state.scratch import Note, render_note
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.history.segments import Segment, Segments
from tests.support.faults import Fault, FaultySystem, PowerCut, Unsynced, every_fault, images, share

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
TEXTS = ("alpha", "bravo\nsecond line", "charlie", "delta", "echo")


@dataclass
class Consumer:
    """What a dream does with the log; `decided` stands for the journal, which has its own crash tests."""

    segments: Segments
    decided: list[Segment] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)

    def append(self, text: str) -> None:
        self.segments.append(Note(text, AT))
        self.acknowledged.append(text)

    def dream(self) -> None:
        self.recover()  # what was decided is finished before anything else is
        self.segments.take()
        decided = self.segments.pending(datetime.now(UTC) + timedelta(seconds=5))
        self.decided += decided
        for segment in decided:
            self.segments.retire(segment.number, segment.end)

    def recover(self) -> None:
        for segment in self.decided:
            self.segments.retire(segment.number, segment.end)

    def consumed(self) -> list[str]:
        return [note.text for segment in self.decided for note in segment.notes]

    def steps(self) -> Iterator[None]:
        self.append(TEXTS[0])
        yield
        self.append(TEXTS[1])
        yield
        self.dream()
        yield
        self.append(TEXTS[2])
        yield
        self.dream()
        yield
        self.append(TEXTS[3])
        yield
        self.append(TEXTS[4])


def assert_every_note_once(found: list[str], acknowledged: list[str]) -> None:
    count = Counter(found)
    assert {text: count[text] for text in acknowledged} == dict.fromkeys(acknowledged, 1)
    for text in set(found) - set(acknowledged):
        # Never acknowledged: at most once, or a torn piece of it.
        assert count[text] == 1
        assert any(text.replace("\n", "\n  ") in render_note(Note(whole, AT)) for whole in TEXTS)


def assert_recovers(consumer: Consumer, root: Path) -> None:
    """On the disk that the fault left: each note once; recovery can be repeated; a dream consumes the rest."""
    segments = Segments(contained(root), Disk(root, Unsynced()))
    after = Consumer(segments, list(consumer.decided), list(consumer.acknowledged))
    for _ in range(2):
        after.recover()
        left = [note.text for note in after.segments.pending_notes()]
        assert_every_note_once(after.consumed() + left, after.acknowledged)
    after.append("foxtrot")
    after.dream()
    after.dream()
    assert_every_note_once([text for text in after.consumed() if text != "foxtrot"], consumer.acknowledged)
    assert after.consumed().count("foxtrot") == 1
    assert after.segments.pending_notes() == ()


def start(tmp_path: Path, fail_at: int, fault: Fault) -> tuple[Consumer, FaultySystem, Path]:
    workspace = init_workspace(contained(tmp_path / f"{fault.name}{fail_at}"))
    system = FaultySystem(workspace.root, fail_at, fault)
    return Consumer(Segments(workspace, Disk(workspace.root, system))), system, workspace.root


def test_a_call_that_fails_loses_nothing_and_the_next_ones_go_on(tmp_path: Path) -> None:
    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        consumer, system, root = start(tmp_path, fail_at, fault)
        for act in (
            *(lambda text=text: consumer.append(text) for text in TEXTS[:2]),
            consumer.dream,
            lambda: consumer.append(TEXTS[2]),
            consumer.dream,
            *(lambda text=text: consumer.append(text) for text in TEXTS[3:]),
        ):
            with suppress(StorageError):
                act()
        assert_recovers(consumer, root)
        return system

    assert every_fault((Fault.ERROR, Fault.ERROR_ONWARDS), scenario) > share(60)


@pytest.mark.full
def test_a_loss_of_power_at_any_call_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    worlds = 0

    def scenario(fail_at: int, fault: Fault) -> FaultySystem:
        nonlocal worlds
        consumer, system, root = start(tmp_path, fail_at, fault)
        try:
            for _ in consumer.steps():
                pass
        except PowerCut:
            assert system.off
        for image in images(system, root.with_suffix(".images")):
            worlds += 1
            assert_recovers(consumer, image)
        return system

    every_fault((Fault.CRASH, Fault.TORN_CRASH), scenario)
    assert worlds > share(400)


def test_the_harness_notices_an_append_that_is_not_synced(tmp_path: Path) -> None:
    class Forgetful(FaultySystem):
        def fsync(self, fd: int) -> None:
            os.fstat(fd)

    workspace = init_workspace(contained(tmp_path / "root"))
    system = Forgetful(workspace.root)
    Segments(workspace, Disk(workspace.root, system)).append(Note("alpha", AT))
    found = [Segments(contained(image)).pending_notes() for image in images(system, tmp_path / "images")]
    assert () in found


# ------------------------------------------------------------------------------------------ real processes

WRITE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from state.scratch import Note
from state.stores.history.segments import Segments
from state.stores.disk.workspace import Workspace, contained
segments = Segments(contained(Path(sys.argv[1])))
for number in range(int(sys.argv[3])):
    segments.append(Note(f"{sys.argv[2]}-{number}", datetime.now(UTC)))
    print(number, flush=True)
"""

# As agents do it: two open the file for every line, two keep it open for fifty.
ECHO = 'i=0; while [ $i -lt "$3" ]; do echo "- $2-$i" >> "$1"; i=$((i+1)); done'
HELD = (
    'i=0; while [ $i -lt "$3" ]; do exec 3>>"$1"; j=0; '
    'while [ $j -lt 50 ]; do echo "- $2-$i" >&3; i=$((i+1)); j=$((j+1)); done; done'
)

# Takes, writes down what it consumed, retires; and again. Started anew, it first finishes what it had written down.
DREAM = """
import json, os, sys
from datetime import UTC, datetime
from pathlib import Path
from state.stores.disk.lock import acquire
from state.stores.history.segments import Segments
from state.stores.disk.workspace import Workspace, contained
workspace = contained(Path(sys.argv[1]))
segments = Segments(workspace)
with acquire(workspace, "dream", wait_seconds=20), open(sys.argv[2], "ab+") as journal:
    journal.seek(0)
    whole = journal.read().rpartition(b"\\n")[0]
    journal.truncate(len(whole) + 1 if whole else 0)
    for record in whole.splitlines():
        for number, end, _ in json.loads(record):
            segments.retire(number, end)
    while True:
        segments.take()
        pending = segments.pending(datetime.now(UTC))
        record = [(one.number, one.end, [note.text for note in one.notes]) for one in pending]
        if record:
            journal.write(json.dumps(record).encode() + b"\\n")
            journal.flush()
            os.fsync(journal.fileno())
        for number, end, _ in record:
            segments.retire(number, end)
"""


@contextmanager
def running(*commands: list[str]) -> Iterator[list[subprocess.Popen[str]]]:
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def api_writer(workspace: Workspace, name: str, number: int) -> list[str]:
    return [sys.executable, "-c", WRITE, str(workspace.root), name, str(number)]


def shell_writer(workspace: Workspace, name: str, number: int) -> list[str]:
    script = HELD if int(name[-1]) % 2 else ECHO
    return ["sh", "-c", script, "sh", str(workspace.scratch), name, str(number)]


def consumed_and_pending(workspace: Workspace, journal: Path) -> list[str]:
    whole = journal.read_bytes().rpartition(b"\n")[0] if journal.exists() else b""
    segments = Segments(workspace)
    texts = []
    for record in whole.splitlines():
        for number, end, notes in json.loads(record):
            texts += notes
            segments.retire(number, end)
    return texts + [note.text for note in segments.pending_notes()]


@pytest.mark.full
def test_eight_writers_and_a_dreamer_keep_every_note_once(tmp_path: Path) -> None:
    workspace, journal = init_workspace(contained(tmp_path / "agent")), tmp_path / "journal"
    writers = [api_writer(workspace, f"api{n}", 500) for n in range(4)]
    writers += [shell_writer(workspace, f"shell{n}", 500) for n in range(4)]
    with running([sys.executable, "-c", DREAM, str(workspace.root), str(journal)]) as (dreamer,):
        with running(*writers) as processes:
            for process in processes:
                process.communicate()
                assert process.returncode == 0
        time.sleep(0.2)
        assert dreamer.poll() is None
    wanted = Counter(f"{kind}{n}-{i}" for kind in ("api", "shell") for n in range(4) for i in range(500))
    assert Counter(consumed_and_pending(workspace, journal)) == wanted
    assert len(list(workspace.retired.iterdir())) > 10


@pytest.mark.full
def test_writers_and_dreamers_that_are_killed_lose_and_double_nothing(tmp_path: Path) -> None:
    rng = random.Random(7)
    workspace, journal = init_workspace(contained(tmp_path / "agent")), tmp_path / "journal"
    acknowledged: list[str] = []
    turns = 12
    for turn in range(turns):
        names = [f"api{turn}x{n}" for n in range(3)]
        dreamer = [sys.executable, "-c", DREAM, str(workspace.root), str(journal)]
        with running(dreamer, *(api_writer(workspace, name, 10_000) for name in names)) as (dream, *writers):
            for writer in writers:
                assert writer.stdout is not None
                writer.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.3))
            for process in rng.sample([dream, *writers], 4):
                process.send_signal(signal.SIGKILL)
            for name, writer in zip(names, writers, strict=True):
                last = writer.communicate()[0].split()
                acknowledged += [f"{name}-{i}" for i in range(int(last[-1]) + 1 if last else 1)]
    found = Counter(consumed_and_pending(workspace, journal))
    assert {text: found[text] for text in acknowledged} == dict.fromkeys(acknowledged, 1)
    unacknowledged = set(found) - set(acknowledged)
    assert all(found[text] == 1 for text in unacknowledged)
    assert len(unacknowledged) <= turns * 3
