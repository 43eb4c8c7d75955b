"""The receipts of bootstraps: bounded, whole, and without a word of anybody's."""

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.bootstrap import Bootstrap, digest_of
from state.errors import BusyError, StorageError
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.history import bootstraps
from state.stores.history.bootstraps import (
    HOW,
    KEPT,
    MOST_BYTES,
    holds_receipts_alone,
    keep_last,
    leave_receipt,
    path_of,
    receipts,
)
from tests.support.faults import Fault, FaultySystem, PowerCut

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
SESSION = "0193f2a1-77aa-7bbb-8ccc-0123456789ab"
READY = Bootstrap("# Memory\n", ("- a note",), 3, truncated=True, version=12)
ROW = (
    b'{"at": "2026-03-12T14:30:00Z", "how": "MCP", "session": "", "version": %d, "characters": 9, "budget": 9,'
    b' "notes": 1, "left_out": 0, "more": false, "truncated": false}\n'
)
NUMBERS = st.integers(0, 10**9)


@pytest.fixture
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return init_workspace(contained(tmp_path_factory.mktemp("here")))


def leave(workspace: Workspace, number: int = 0, session: str = "") -> None:
    leave_receipt(workspace, READY, 8_000 + number, AT + timedelta(minutes=number), "hook", session)


def test_a_receipt_is_read_as_it_was_left(workspace: Workspace) -> None:
    leave(workspace, session=SESSION)
    (one,) = receipts(workspace)
    assert (one.at, one.how, one.session, one.version) == (AT, "hook", SESSION, 12)
    assert (one.characters, one.budget, one.notes, one.left_out) == (len(READY.text), 8_000, 1, 3)
    assert (one.more, one.truncated) == (False, True)
    assert stat.S_IMODE(path_of(workspace).stat().st_mode) == 0o600
    assert json.loads(path_of(workspace).read_text())["version"] == 12


@given(
    notes=st.lists(st.text(), max_size=3).map(tuple),
    memory=st.text(max_size=50),
    left_out=NUMBERS,
    budget=NUMBERS,
    session=st.text(max_size=200),
    how=st.sampled_from(HOW),
    flags=st.tuples(st.booleans(), st.booleans()),
)
def test_any_receipt_is_one_short_row_of_dreamds_own_words(
    tmp_path_factory: pytest.TempPathFactory,
    notes: tuple[str, ...],
    memory: str,
    left_out: int,
    budget: int,
    session: str,
    how: str,
    flags: tuple[bool, bool],
) -> None:
    workspace = init_workspace(contained(tmp_path_factory.mktemp("here")))
    ready = Bootstrap(memory, notes, left_out, truncated=flags[0], more=flags[1], digest=digest_of(memory))
    leave_receipt(workspace, ready, budget, AT, how, session)
    content = path_of(workspace).read_bytes()
    assert content.count(b"\n") == 1
    assert len(content) < MOST_BYTES
    assert holds_receipts_alone(content)
    (one,) = receipts(workspace)
    assert one.session in ("", session)
    assert one.digest == digest_of(memory)
    assert (one.more, one.truncated, one.left_out, one.budget) == (flags[1], flags[0], left_out, budget)


@given(
    st.sampled_from(["at", "how", "session", "version", "more"]),
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=20) | st.lists(st.text()),
)
def test_a_row_that_says_something_else_is_no_receipt(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: object
) -> None:
    workspace = init_workspace(contained(tmp_path_factory.mktemp("here")))
    leave(workspace)
    row = json.loads(path_of(workspace).read_text())
    assert holds_receipts_alone(json.dumps(row).encode())
    for words in ("", "the word", "0123-567", 12345678):
        assert not holds_receipts_alone(json.dumps({**row, "digest": words}).encode())
    assert holds_receipts_alone(json.dumps({**row, "digest": "0123abcd"}).encode())
    for other in ({**row, "spare": "words"}, {**row, field: value}):
        content = json.dumps(other).encode()
        if other != row:
            known = bootstraps._receipt_in(content)
            assert known is None or (field in ("version", "session", "more") and type(value) is type(row[field]))


def test_only_the_last_ones_are_kept(workspace: Workspace) -> None:
    for number in range(KEPT + 60):
        leave(workspace, number)
    assert len(tuple(receipts(workspace))) == KEPT
    keep_last(workspace, Disk(workspace.root))
    assert path_of(workspace).read_bytes().count(b"\n") == KEPT
    first, *_, last = receipts(workspace)
    assert (first.budget, last.budget) == (8_000 + KEPT + 59, 8_060)
    before = path_of(workspace).stat().st_ino
    keep_last(workspace, Disk(workspace.root))
    assert path_of(workspace).stat().st_ino == before


def test_a_torn_row_costs_no_other_one(workspace: Workspace) -> None:
    leave(workspace, 1)
    with path_of(workspace).open("ab") as file:
        file.write(b'{"at": "2026-03-12T14')
    leave(workspace, 2)
    assert [one.budget for one in receipts(workspace)] == [8_002, 8_001]
    assert not holds_receipts_alone(path_of(workspace).read_bytes())


def test_many_at_once_and_a_shortening_lose_none(workspace: Workspace) -> None:
    for number in range(KEPT):
        leave(workspace, number)
    disk = Disk(workspace.root)

    def work(number: int) -> None:
        if number % 10 == 0:
            with suppress(BusyError):
                keep_last(workspace, disk)
        leave(workspace, 1_000 + number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(1, 100)))
    left = {one.budget for one in receipts(workspace)}
    assert {9_000 + number for number in range(1, 100)} <= left


@pytest.mark.parametrize("fault", Fault)
def test_a_failure_at_any_call_costs_no_receipt_that_was_there(
    fault: Fault, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def shorten(workspace: Workspace, disk: Disk) -> None:
        keep_last(workspace, disk)

    def add(workspace: Workspace, disk: Disk) -> None:
        leave_receipt(workspace, READY, 1, AT, "HTTP", disk=disk)

    for deed, kept, name in ((shorten, KEPT + 3, "shorten"), (add, 3, "add")):
        for fail_at in count():
            workspace = init_workspace(contained(tmp_path_factory.mktemp(name)))
            rows = b"".join(ROW % number for number in range(kept))
            path_of(workspace).write_bytes(rows)
            system = FaultySystem(workspace.root, fail_at=fail_at, fault=fault)
            with suppress(StorageError, PowerCut):
                deed(workspace, Disk(workspace.root, system))
            left = [one.version for one in receipts(workspace) if one.budget != 1]
            assert left == list(range(kept))[::-1][:KEPT]
            leave(workspace, 7)  # and the next one is whole
            assert next(receipts(workspace)).budget == 8_007
            if len(system.calls) <= fail_at:
                break
        assert fail_at > 0


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "locked", "closed"])
def test_what_stands_in_its_place_is_refused_in_words(workspace: Workspace, kind: str) -> None:
    path, outside = path_of(workspace), workspace.state / "originals.jsonl"
    outside.write_bytes(b"")
    if kind == "link":
        path.symlink_to(outside)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "closed" and os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    elif kind == "closed":
        path.write_bytes(b"")
        path.chmod(0o400)
    if kind == "locked":
        leave(workspace)
        with Disk(workspace.root).locked(path, b""), pytest.raises(BusyError):
            leave(workspace)
    else:
        with pytest.raises(StorageError):
            leave(workspace)
    if kind in ("link", "fifo", "folder"):
        with pytest.raises(StorageError):
            tuple(receipts(workspace))
    assert outside.read_bytes() == b""
