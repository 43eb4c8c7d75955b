"""The count of pending notes: counted on or counted anew, it is the same, and an append costs what was appended."""

import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import StorageError
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.history.pending_count import PendingCounter
from state.stores.history.segments import Segments
from tests.stores.history.test_bites import LINES
from tests.support.folders import PLACE

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
Act = Callable[[Workspace], None]


def append(lines: list[str], end: str) -> Act:
    def act(workspace: Workspace) -> None:
        with workspace.scratch.open("ab") as file:
            file.write(("\n".join(lines) + end).encode("utf-8", "surrogateescape"))

    return act


def change(where: float, text: bytes) -> Act:
    """As an editor that writes in place: the file stays the same one, and what follows moves."""

    def act(workspace: Workspace) -> None:
        if workspace.scratch.exists():
            content = workspace.scratch.read_bytes()
            at = int(where * len(content))
            workspace.scratch.write_bytes(content[:at] + text + content[at + (len(text) == 1) :])

    return act


def replace(workspace: Workspace) -> None:
    """As an editor that makes another file and gives it the name."""
    if workspace.scratch.exists():
        other = workspace.scratch.with_name("other")
        other.write_bytes(workspace.scratch.read_bytes()[::-1])
        other.replace(workspace.scratch)


def take(workspace: Workspace) -> None:
    Segments(workspace).take()


def retire(share: float) -> Act:
    """Some of the oldest segment is consumed."""

    def act(workspace: Workspace) -> None:
        segments = Segments(workspace)
        paths = {file.name: file.path for file in segments.pending_files()}
        for segment in segments.pending(datetime.now(UTC) + timedelta(seconds=5))[:1]:
            ends = [at for at, byte in enumerate(paths[segment.file].read_bytes(), 1) if byte == 10]
            inside = [end for end in ends if segment.start < end <= segment.end] or [segment.end]
            segments.retire(segment.number, inside[int(share * (len(inside) - 1))])

    return act


def revive(workspace: Workspace) -> None:
    Segments(workspace).revive(1)


def grow(workspace: Workspace) -> None:
    """Through a descriptor that was open before it was retired."""
    for path in workspace.retired.glob("*.md"):
        with path.open("ab") as file:
            file.write(b"- late\n")


def still(_: Workspace) -> None:
    """Nothing happens."""


ACTS = st.one_of(
    st.builds(append, LINES, st.sampled_from(["\n", "", "\n\n"])),
    st.builds(change, st.floats(0, 1), st.sampled_from([b"", b"x", b"- \n", b"\n- [2026-01-01T00:00:00Z] early\n"])),
    st.builds(retire, st.floats(0, 1)),
    st.sampled_from([replace, take, revive, grow, still]),
)


def logs(workspace: Workspace) -> list[Path]:
    return [path for path in (workspace.scratch, *workspace.segments.rglob("*.md")) if path.exists()]


@given(st.lists(st.tuples(ACTS, st.integers(0, 6), st.booleans()), max_size=12))
def test_whatever_befalls_the_log_what_is_counted_on_is_what_is_counted_anew(
    acts: list[tuple[Act, int, bool]],
) -> None:
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        workspace = init_workspace(contained(Path(folder)))
        counter = PendingCounter(workspace)
        for number, (act, most, is_long_ago) in enumerate(acts):
            before = {path: path.stat() for path in logs(workspace)}
            act(workspace)
            for path in logs(workspace):
                # Else a count is not relied on: the file may change again in the same tick.
                if is_long_ago and (path not in before or path.stat() != before[path]):
                    os.utime(path, (AT.timestamp(), AT.timestamp() + number))
            assert counter.count(most) == Segments(workspace).count(most)
        assert counter.count() == counter.count() == Segments(workspace).count()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return init_workspace(contained(tmp_path))


def test_an_append_costs_what_was_appended(workspace: Workspace) -> None:
    append([f"- Ada repaired the kettle of house {number}" for number in range(900)], "\n")(workspace)
    anew, on = list[float](), list[float]()
    counter = PendingCounter(workspace)
    counter.count()
    for number in range(20):
        append([f"- one more, {number}"], "\n")(workspace)
        began = time.perf_counter()
        count = counter.count()
        between = time.perf_counter()
        assert count == PendingCounter(workspace).count()
        on.append(between - began)
        anew.append(time.perf_counter() - between)
        assert count.notes == 901 + number
    assert min(on) < min(anew) / 5


def test_a_log_that_cannot_be_counted_is_told_each_time_and_counted_when_it_can(workspace: Workspace) -> None:
    counter = PendingCounter(workspace)
    append(["- one"], "\n")(workspace)
    assert counter.count().notes == 1
    with workspace.scratch.open("ab") as file:
        file.truncate(64 << 20)
    for _ in range(2):
        with pytest.raises(StorageError, match="a line of more than"):
            counter.count()
    os.truncate(workspace.scratch, 6)
    assert counter.count().notes == 1
