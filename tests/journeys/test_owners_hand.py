"""The owner edits MEMORY.md between dreams: what is deleted stays deleted, what is written stays written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from state.stores.disk.workspace import Workspace
from tests.support import lived, model_characters
from tests.support.committing import added, without, write
from tests.support.planted import LINES, NEWS, lost, noted
from tests.support.running import Caller
from tests.support.scripted_model import Script, ScriptedModel

DELETED = LINES[7]
IN_OTHER_WORDS = "Under flowerpot 8 Radia always keeps the spare key of the temple"


def tombstones(workspace: Workspace) -> list[str]:
    return [row["text"] for row in lived.rows(workspace, "SELECT text FROM tombstones")]


@pytest.mark.full
def test_a_deleted_line_is_not_written_again_even_in_other_words(
    workspace: Workspace, dreamd: Caller, serve: Callable[[Script], ScriptedModel]
) -> None:
    write(workspace, lambda text: without(text, DELETED))

    def stubborn(request: dict[str, Any], _number: int) -> dict[str, Any]:
        """Says the deleted line once word for word and once in other words, besides what is new."""
        notes = [(name, text) for name, _, text in model_characters.inputs_of(request) if name.startswith("N")]
        said = [*(text for _, text in notes), DELETED, IN_OTHER_WORDS]
        cites = [name for name, _ in notes]
        return {
            "operations": [{"op": "add", "section": "Active Context", "text": text, "cites": cites} for text in said],
            "consumed": cites,
        }

    serve(stubborn)
    for turn in range(3):
        noted(workspace, [f"In turn {turn} somebody repeats: {IN_OTHER_WORDS}", DELETED])
        assert dreamd("dream", workspace.root).status == 0
        found = lived.lines(workspace)
        assert DELETED not in found
        assert IN_OTHER_WORDS not in found
        assert set(NEWS) <= set(found)
    assert tombstones(workspace) == [DELETED]
    assert "human veto" in [row["guard"] for row in lived.rows(workspace, "SELECT guard FROM rejections")]
    assert lost(workspace, [line for line in LINES if line != DELETED]) == []


def test_a_deleted_line_that_the_owner_writes_again_is_welcome(workspace: Workspace, dreamd: Caller) -> None:
    write(workspace, lambda text: without(text, DELETED))
    assert dreamd("dream", workspace.root).status == 0
    assert tombstones(workspace) == [DELETED]
    write(workspace, lambda text: added(text, DELETED))
    noted(workspace, ["The weather was fine on Monday"])
    assert dreamd("dream", workspace.root).status == 0
    assert DELETED in lived.lines(workspace)
    assert tombstones(workspace) == []


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
    assert tombstones(workspace) == []
    lived.assert_valid(workspace)


@pytest.mark.full
def test_most_of_a_file_cut_away_by_accident_comes_back_from_search(workspace: Workspace, dreamd: Caller) -> None:
    """An editor that saved only the top of the file; whatever the dream makes of it, nothing is out of reach."""
    write(workspace, lambda text: text[: len(text) // 3])
    assert dreamd("dream", workspace.root).status == 0
    assert lost(workspace) == []
