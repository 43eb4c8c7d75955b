"""What its owner decides of MEMORY.md, or does to it, happens; what is not decided or finished leaves no trace."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from state.stores.disk.workspace import Workspace
from tests.support import lived, model_characters
from tests.support.committing import added, write
from tests.support.planted import LINES, NEWS, lost
from tests.support.running import Caller
from tests.support.scripted_model import Script, ScriptedModel
from tests.support.serving import noted

Serve = Callable[[Script], ScriptedModel]
MINE = "The owner wrote this line while changes were waiting"


@pytest.fixture
def proposing(dreamd: Caller, monkeypatch: pytest.MonkeyPatch) -> Caller:
    monkeypatch.setenv("DREAMD_DREAM__ASK", "all")
    return dreamd


def test_where_all_is_asked_no_line_leaves_for_want_of_room(
    proposing: Caller, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DREAMD_DREAM__CONTEXT_WINDOW", "1000")
    before = lived.lines(workspace)
    assert proposing("dream", workspace.root).status == 0
    assert lived.lines(workspace) == before


def test_a_dry_run_with_a_model_writes_down_what_it_cost_and_nothing_else(
    dreamd: Caller, workspace: Workspace, serve: Serve
) -> None:
    def contents() -> dict[str, list[tuple[object, ...]]]:
        with closing(sqlite3.connect(workspace.database)) as connection:
            tables = [
                row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE TABLE%'")
            ]
            return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}  # noqa: S608

    served = serve(model_characters.good)
    before, rows = lived.everything(workspace.root), contents()
    assert dreamd("dream", workspace.root, "--dry-run").status == 0
    assert served.count == 1
    after = lived.everything(workspace.root)
    assert {name for name in before | after if before.get(name) != after.get(name)} == {".dreamd/state.db"}
    assert {table for table, kept in contents().items() if kept != rows[table]} == {"calls"}


def test_a_restore_brings_the_older_text_back_and_makes_what_came_since_pending(
    dreamd: Caller, workspace: Workspace
) -> None:
    first = lived.document(workspace)
    assert dreamd("dream", workspace.root).status == 0
    write(workspace, lambda text: added(text, MINE))
    noted(workspace, ["A third thing came later"])
    assert dreamd("dream", workspace.root).status == 0
    write(workspace, lambda text: added(text, f"{MINE}, and this one too"))

    assert dreamd("restore", 1, "-w", workspace.root).status == 0
    assert lived.document(workspace) == first
    assert sorted(lived.pending(workspace)) == sorted([*NEWS, "A third thing came later"])
    lived.assert_once(workspace, [*LINES, *NEWS, "A third thing came later"], consumed=False)
    # What left by it is found: what dreams wrote, and what the owner wrote before and after the last of them.
    assert lost(workspace, [*LINES, *NEWS, MINE, f"{MINE}, and this one too"]) == []

    assert dreamd("dream", workspace.root).status == 0
    assert {*NEWS, "A third thing came later"} <= set(lived.lines(workspace))
    lived.assert_once(workspace, [*LINES, *NEWS, "A third thing came later"])
    lived.assert_valid(workspace)


def test_an_edited_line_and_a_section_of_the_owners_stay(workspace: Workspace, dreamd: Caller) -> None:
    old = LINES[3]
    mine = f"{old.split(', says')[0]}, as I have seen myself"
    own_section = "\n## My own notes\n\nA paragraph that is none of a dream's business.\n\n* [ ] a box\n"
    write(workspace, lambda text: text.replace(old, mine) + own_section)
    for turn in range(3):
        noted(workspace, [f"In turn {turn} the weather changed to {('rain', 'snow', 'hail')[turn]}"])
        assert dreamd("dream", workspace.root).status == 0
        assert mine in lived.lines(workspace)
        assert old not in lived.lines(workspace)
        assert lived.document(workspace).endswith(own_section)
        lived.assert_valid(workspace)
    assert lost(workspace, [line for line in LINES if line != old]) == []


@pytest.mark.parametrize(
    "spoil",
    [Path.unlink, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b" \n\n")],
    ids=["missing", "emptied", "blank"],
)
def test_a_file_that_is_gone_is_read_from_the_last_version_and_a_notice_says_so(
    workspace: Workspace, dreamd: Caller, spoil: Callable[[Path], object]
) -> None:
    spoil(workspace.document)
    ended = dreamd("dream", workspace.root)
    assert ended.status == 0
    assert "MEMORY.md was not version 1, and is written again" in ended.err
    assert set(LINES) | set(NEWS) <= set(lived.lines(workspace))
    assert lived.rows(workspace, "SELECT * FROM tombstones") == []
    lived.assert_valid(workspace)


@pytest.mark.full
def test_most_of_a_file_cut_away_by_accident_comes_back_from_search(workspace: Workspace, dreamd: Caller) -> None:
    """An editor that saved only the top of the file; whatever the dream makes of it, nothing is out of reach."""
    write(workspace, lambda text: text[: len(text) // 3])
    assert dreamd("dream", workspace.root).status == 0
    assert lost(workspace) == []
