"""A workspace whose notes an older dreamd kept in segments/: what was pending is, once; what was consumed is not."""

import json
import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.ingest.notes import absorb_notes
from daemon.workspace.stores import utc_now
from state.scratch import HEADER, Note, parse_notes, render_note
from state.stores.disk.workspace import Workspace, contained, init_workspace
from tests.support.committing import opened
from tests.support.long_variants import examples, fewer
from tests.support.notes import AT, consumed, pending_notes, shown_notes
from tests.support.older import older_schema
from tests.support.stepping import killed

LATE = "- late, by a plain append\n"


def entry(text: str) -> str:
    return render_note(Note(text, AT))


def segment(workspace: Workspace, number: int, gone: str, left: str, record: bytes | None = None) -> None:
    """A segment, of which a dream has consumed the first part."""
    head = f"{HEADER}\n\n{gone}".encode()
    (workspace.segments / f"{number:06d}.md").write_bytes(head + left.encode())
    if gone or record is not None:
        sidecar = json.dumps({"consumed": len(head)}).encode() if record is None else record
        (workspace.segments / f"{number:06d}.json").write_bytes(sidecar)


def retired(workspace: Workspace, number: int, gone: str, left: str) -> None:
    """A segment that a dream has consumed whole, and that grew since."""
    head = f"{HEADER}\n\n{gone}".encode()
    (workspace.segments / "retired" / f"{number:06d}.{len(head)}.md").write_bytes(head + left.encode())


def former(folder: Path) -> Workspace:
    workspace = init_workspace(contained(folder))
    (workspace.segments / "retired").mkdir(parents=True)
    return workspace


def lived(folder: Path) -> Workspace:
    """Every kind of segment, a database of that time, and notes that no dream has taken aside."""
    workspace = former(folder)
    retired(workspace, 1, entry("consumed one"), "")
    retired(workspace, 2, entry("consumed two"), LATE)
    segment(workspace, 3, entry("consumed three"), entry("four waits\nwith a second line") + "- five, by hand\n")
    segment(workspace, 4, "", entry("six waits"))
    workspace.scratch.write_text(f"{HEADER}\n\n{entry('seven is new')}- eight, by hand\n")
    with closing(sqlite3.connect(workspace.database)) as connection:
        older_schema(connection, 10)
    return workspace


PENDING = (
    "late, by a plain append", "four waits\nwith a second line", "five, by hand", "six waits", "seven is new",
    "eight, by hand",
)  # fmt: skip


def rows(workspace: Workspace) -> Counter[str]:
    with opened(workspace) as store:
        absorb_notes(store, utc_now(), most=None)
        query = "SELECT text FROM notes JOIN crystals ON crystals.key = notes.crystal"
        return Counter(row["text"] for row in store.crystals.connection.execute(query))


def test_what_was_pending_is_there_once_and_what_was_consumed_is_not(tmp_path: Path) -> None:
    workspace = lived(tmp_path / "agent")
    for _ in range(2):
        assert rows(workspace) == dict.fromkeys(PENDING, 1)
        assert sorted(note.text for note in pending_notes(workspace)) == sorted(PENDING)
        assert sorted(shown_notes(workspace)) == sorted(PENDING)
    assert not workspace.segments.exists()
    assert len(list((workspace.state / "kept" / "segments").rglob("*.md"))) == 4
    with opened(workspace) as store:
        consumed(store)
    assert pending_notes(workspace) == ()
    assert rows(workspace) == dict.fromkeys(PENDING, 1)


def test_killed_at_any_step_they_are_there_once(tmp_path: Path) -> None:
    workspace = lived(tmp_path / "whole")
    whole = killed(partial(rows, workspace), -1, {})
    assert whole is not None
    assert whole > 10
    for kill_at in range(0, whole, fewer(5, 1)):
        workspace = lived(tmp_path / f"{kill_at}")
        killed(partial(rows, workspace), kill_at, {})
        killed(partial(rows, workspace), kill_at // 2, {})
        assert rows(workspace) == dict.fromkeys(PENDING, 1)
        shutil.rmtree(workspace.root)


def test_an_older_dreamd_that_made_segments_again_is_taken_in_as_well(tmp_path: Path) -> None:
    workspace = lived(tmp_path / "agent")
    assert rows(workspace) == dict.fromkeys(PENDING, 1)
    (workspace.segments / "retired").mkdir(parents=True)
    segment(workspace, 1, "", entry("nine came later"))
    assert rows(workspace) == dict.fromkeys((*PENDING, "nine came later"), 1)


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"consumed": "x"}', b'{"consumed": 1e400}', b"\xff"])
def test_a_damaged_record_makes_notes_pending_again_rather_than_losing_them(tmp_path: Path, record: bytes) -> None:
    workspace = former(tmp_path / "agent")
    segment(workspace, 1, "", entry("one"), record)
    assert rows(workspace) == {"one": 1}


def test_notes_by_hand_keep_the_time_of_their_segment(tmp_path: Path) -> None:
    workspace = former(tmp_path / "agent")
    segment(workspace, 1, "", "- by hand\n")
    os.utime(workspace.segments / "000001.md", (AT.timestamp(), AT.timestamp()))
    rows(workspace)
    (note,) = pending_notes(workspace)
    assert (note.text, note.at) == ("by hand", AT)


PIECES = st.lists(
    st.sampled_from(
        ["- a", "- [2026-03-12T14:30:00Z] (importance: 0.8) b", "  more of it", "", "a paragraph", "---",
         "# a heading", "- ", "* c\r", "\t e", "- é"]
    ).map(lambda line: f"{line}\n"),
    max_size=8,
).map("".join)  # fmt: skip


@examples(100)
@given(st.lists(st.tuples(st.booleans(), PIECES, PIECES), max_size=4))
def test_any_segments_give_their_pending_notes_in_order(
    tmp_path_factory: pytest.TempPathFactory, segments: list[tuple[bool, str, str]]
) -> None:
    workspace = former(tmp_path_factory.mktemp("w") / "agent")
    wanted = list[str]()
    for number, (is_retired, gone, left) in enumerate(segments, start=1):
        (retired if is_retired else segment)(workspace, number, gone, left)
        wanted += [note.text for note in parse_notes(left, datetime.now(UTC))]
    with opened(workspace):
        pass
    found = [note.text for note in pending_notes(workspace)]
    assert list(dict.fromkeys(found)) == list(dict.fromkeys(wanted))
