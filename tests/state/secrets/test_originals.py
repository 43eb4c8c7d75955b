"""What was taken for a secret by its surroundings alone: kept for its owner, listed, brought back, forgotten."""

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.api.operations.notes import TakeNote, working_memory_note
from daemon.config.layers import redaction
from daemon.workspace.adoption import init_workspace
from state.errors import StorageError
from state.scratch import Note
from state.secrets.policy import Redaction
from state.stores.disk.workspace import Workspace
from state.stores.history.originals import MOST, Originals, path_of
from state.stores.history.segments import Segments
from tests.support.running import Caller
from tests.support.serving import Home, at_home


@pytest.fixture
def home() -> Iterator[Home]:
    with at_home() as one:
        yield one


NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAID = "the bike pin code is 4711"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return init_workspace(tmp_path / "workspace")


def test_a_note_is_kept_as_it_was_given_and_stored_without(workspace: Workspace) -> None:
    stored = Segments(workspace).append(Note(SAID, NOW))
    assert stored.text == "the bike pin code is [redacted: pin]"
    (one,) = Originals(workspace).all()
    assert (one.text, one.kinds, one.where) == (SAID, ("pin",), "note")
    assert path_of(workspace).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "text", ["GPIO pin is 1234 on the board", "use ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"]
)
def test_what_is_no_secret_or_one_by_its_shape_is_not_kept(workspace: Workspace, text: str) -> None:
    Segments(workspace).append(Note(text, NOW))
    assert Originals(workspace).all() == ()


@pytest.mark.full
def test_no_more_are_kept_than_fit_and_each_once(workspace: Workspace) -> None:
    originals = Originals(workspace)
    for number in (0, 0, *range(MOST + 3)):
        originals.redacted(f"the pin code of door {number} is 4711", Redaction(), "note", NOW)
    kept = originals.all()
    assert len(kept) == MOST
    assert kept[-1].text == f"the pin code of door {MOST + 2} is 4711"


def test_a_file_that_is_none_of_ours_is_said(workspace: Workspace) -> None:
    path_of(workspace).write_text("{", encoding="utf-8")
    with pytest.raises(StorageError, match="move it away"):
        Originals(workspace).all()


def test_the_owner_lists_them_masked_and_brings_one_back(dreamd: Caller, workspace: Workspace) -> None:
    there = ("--workspace", str(workspace.root))
    dreamd("note", SAID, *there)
    listed = json.loads(dreamd("secrets", "--json", *there).out)
    assert [one["text"] for one in listed] == ["the bike pin code is [redacted: pin]"]
    assert dreamd("secrets", "--show", *there).status == 2  # no terminal
    assert dreamd("secrets", "allow", listed[0]["id"], *there).status == 0
    assert SAID in [note.text for note in Segments(workspace).pending_notes()]
    assert dreamd("secrets", *there).status == 3
    dreamd("note", f"{SAID}!", *there)
    assert f"{SAID}!" in [note.text for note in Segments(workspace).pending_notes()]


def test_no_workspace_can_allow_itself_anything(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.state / "allowed.json").write_text(json.dumps([SAID]), encoding="utf-8")
    rules = redaction(None, {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert rules.of(SAID) != SAID


def test_a_daemon_that_runs_hears_of_it(home: Home) -> None:
    workspace = home.workspace()
    with home.serving() as daemon:
        daemon.ask(workspace, working_memory_note, TakeNote(note=SAID))
        (original,) = Originals(workspace).all()
        allowing = home.dreamd("secrets", "allow", original.id, "--workspace", workspace.root)
        assert (allowing.status, allowing.err.splitlines()[-1]) == (0, "it is allowed from now on, by the daemon too")
        daemon.until(lambda: daemon.ask(workspace, working_memory_note, TakeNote(note=f"{SAID}!")).text == f"{SAID}!")


def test_nothing_is_allowed_of_what_somebody_else_made(dreamd: Caller, workspace: Workspace, tmp_path: Path) -> None:
    dreamd("note", SAID, "--workspace", str(workspace.root))
    copy = shutil.copytree(workspace.root, tmp_path / "copy")
    number = Originals(workspace).all()[0].id
    assert dreamd("secrets", "allow", number, "--workspace", str(copy)).status == 1
    assert redaction(None, os.environ).of(SAID) != SAID


def test_forgetting_leaves_nothing_of_an_original(dreamd: Caller, workspace: Workspace) -> None:
    there = ("--workspace", str(workspace.root))
    dreamd("note", SAID, *there)
    assert dreamd("forget", SAID, "--yes", *there).status == 0
    held = [path for path in workspace.root.rglob("*") if path.is_file() and SAID.encode() in path.read_bytes()]
    assert held == []
