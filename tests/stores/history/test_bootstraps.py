"""The receipts of bootstraps: bounded, whole, and without a word of anybody's."""

import json
import stat
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from state.bootstrap import Bootstrap
from state.errors import BusyError, StorageError
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace, contained, init_workspace
from state.stores.history.bootstraps import (
    HOW,
    KEPT,
    holds_receipts_alone,
    keep_last,
    receipts,
)
from state.stores.history.leave_receipt import leave_receipt, path_of
from tests.support.long_variants import examples

AT = datetime(2026, 3, 12, 14, 30, tzinfo=UTC)
SESSION = "0193f2a1-77aa-7bbb-8ccc-0123456789ab"
READY = Bootstrap("# Memory\n", ("- a note",), 3, truncated=True, version=12)
ROW = (
    b'{"at": "2026-03-12T14:30:00Z", "how": "MCP", "session": "", "version": %d, "characters": 9, "budget": 9,'
    b' "notes": 1, "left_out": 0, "more": false, "truncated": false}\n'
)


@pytest.fixture
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return init_workspace(contained(tmp_path_factory.mktemp("here")))


def leave(workspace: Workspace, number: int = 0, session: str = "") -> None:
    leave_receipt(workspace, READY, 8_000 + number, AT + timedelta(minutes=number), "hook", session)


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    memory=st.text(max_size=50),
    left_out=st.integers(0, 10**9),
    session=st.text(max_size=200) | st.just(SESSION),
    how=st.sampled_from(HOW),
    flags=st.tuples(st.booleans(), st.booleans()),
)
def test_any_receipt_is_read_as_it_was_left_one_row_of_dreamds_own_words(
    workspace: Workspace, memory: str, left_out: int, session: str, how: str, flags: tuple[bool, bool]
) -> None:
    path_of(workspace).unlink(missing_ok=True)
    ready = Bootstrap(memory, ("a",), left_out, truncated=flags[0], more=flags[1], whole=memory)
    leave_receipt(workspace, ready, 8_000, AT, how, session)
    content = path_of(workspace).read_bytes()
    assert content.count(b"\n") == 1
    assert holds_receipts_alone(content)
    assert stat.S_IMODE(path_of(workspace).stat().st_mode) == 0o600
    (one,) = receipts(workspace)
    assert (one.at, one.how, one.left, one.budget, one.notes) == (AT, how, (), 8_000, 1)
    assert (one.more, one.truncated, one.left_out) == (flags[1], flags[0], left_out)
    assert one.session == session if session == SESSION else one.session in ("", session)


@pytest.mark.parametrize(
    "said",
    [{"spare": 1}, {"how": "by hand"}, {"session": "tea"}, {"given": ["tea"]}, {"agent": "ada"}, {"version": "1"},
     {"more": "tea"}, {"cut": {"tea": 1}}, {"at": "tea"}, {"at": "2026-03-12T14:30:00"}, {"notes": None}],
)  # fmt: skip
def test_a_row_that_says_something_else_is_no_receipt(said: dict[str, object]) -> None:
    row = json.loads(ROW % 1)
    assert holds_receipts_alone(json.dumps(row).encode())
    assert not holds_receipts_alone(json.dumps({**row, **said}).encode())


def test_only_the_last_ones_are_kept_and_a_torn_row_costs_no_other_one(workspace: Workspace) -> None:
    for number in range(2 * KEPT + 160):
        leave(workspace, number)
    with path_of(workspace).open("ab") as file:
        file.write(b'{"at": "2026-03-12T14')
    leave(workspace, 5)
    for _ in range(2):
        first, second, *rest = receipts(workspace)
        assert (first.budget, second.budget, len(rest)) == (8_005, 8_000 + 2 * KEPT + 159, KEPT - 2)
        keep_last(workspace, Disk(workspace.root, state=workspace.state))
    assert path_of(workspace).read_bytes().count(b"\n") == KEPT


@pytest.mark.parametrize("kind", ["folder", "locked"])
def test_what_stands_in_the_way_is_said_in_words(workspace: Workspace, kind: str) -> None:
    if kind == "locked":
        leave(workspace)
        with workspace.disk().locked(path_of(workspace), b""), pytest.raises(BusyError):
            leave(workspace)
    else:
        path_of(workspace).mkdir()
        with pytest.raises(StorageError):
            leave(workspace)
        with pytest.raises(StorageError):
            tuple(receipts(workspace))
