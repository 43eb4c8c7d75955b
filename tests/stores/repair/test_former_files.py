"""A workspace whose notes an older dreamd kept in segments/: what was pending is, once; what was consumed is not."""

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

from daemon.ingest.notes import absorb_notes
from daemon.workspace.stores import utc_now
from state.scratch import HEADER, Note, render_note
from state.stores.disk.workspace import Workspace, contained, init_workspace
from tests.support.committing import opened
from tests.support.long_variants import fewer
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
        return Counter(row["text"] for row in store.connection.execute(query))


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
