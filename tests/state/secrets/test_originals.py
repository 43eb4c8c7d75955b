"""What was taken for a secret by its surroundings alone: kept for its owner, listed, brought back, forgotten."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.api.operations.notes import working_memory_note
from daemon.config.layers import redaction
from daemon.workspace.adoption import init_workspace
from state.scratch import Note
from state.stores.disk.workspace import Workspace
from state.stores.history.inbox import NoteInbox
from state.stores.history.originals import KEPT_FOR, Originals
from tests.support.copies import all_files
from tests.support.notes import pending_notes
from tests.support.running import Caller
from tests.support.serving import Home

NOW = datetime.now(UTC)
SAID = "the bike pin code is 4711"


@pytest.fixture
def workspace(tmp_path: Path, own_folders: None) -> Workspace:
    return init_workspace(tmp_path / "workspace")


def _kept() -> list[Path]:
    return list((Path(os.environ["XDG_STATE_HOME"]) / "dreamd" / "originals").iterdir())


def _file_of(workspace: Workspace) -> Path:
    """The file of this workspace's originals: the one that keeping another changes."""
    before = {path: path.stat().st_mtime_ns for path in _kept()}
    NoteInbox(workspace).append(Note(f"{SAID} too", NOW))
    return next(path for path in _kept() if before.get(path) != path.stat().st_mtime_ns)


def test_a_note_is_kept_as_it_was_given_and_stored_without(workspace: Workspace) -> None:
    stored = NoteInbox(workspace).append(Note(SAID, NOW)).note
    assert stored.text == "the bike pin code is [redacted: pin]"
    (one,) = Originals(workspace).all(NOW)
    assert (one.text, one.kinds, one.where) == (SAID, ("pin",), "note")
    (key, kept) = sorted(_kept(), key=lambda path: path.name != "key")
    assert [path.stat().st_mode & 0o777 for path in (key, kept, kept.parent)] == [0o600, 0o600, 0o700]
    assert b"4711" not in kept.read_bytes()


def test_what_is_certain_is_kept_nowhere(workspace: Workspace) -> None:
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    NoteInbox(workspace).append(Note(f"{SAID}, and the token is {token}", NOW))
    (one,) = Originals(workspace).all(NOW)
    assert SAID in one.text
    assert token not in one.text


def test_after_a_week_nothing_is_left_of_any_workspace(workspace: Workspace, tmp_path: Path) -> None:
    other = init_workspace(tmp_path / "other")
    for one in (workspace, other):
        NoteInbox(one).append(Note(SAID, NOW))
    (path,) = set(_kept()) - {path for path in _kept() if path.name == "key"} - {_file_of(workspace)}
    os.utime(path, (0, 0))
    Originals(workspace).sweep(NOW)
    assert not path.exists()
    assert Originals(workspace).all(NOW + KEPT_FOR) == ()
    assert Originals(workspace).all(NOW) == ()


@pytest.mark.parametrize(
    "text", ["GPIO pin is 1234 on the board", "use ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"]
)
def test_what_is_no_secret_or_one_by_its_shape_is_not_kept(workspace: Workspace, text: str) -> None:
    NoteInbox(workspace).append(Note(text, NOW))
    assert Originals(workspace).all(NOW) == ()


def test_the_owner_lists_them_masked_and_brings_one_back(dreamd: Caller, workspace: Workspace) -> None:
    there = ("--workspace", str(workspace.root))
    dreamd("note", SAID, *there)
    listed = json.loads(dreamd("secrets", "--json", *there).out)["originals"]
    assert [one["text"] for one in listed] == ["the bike pin code is [redacted: pin]"]
    assert dreamd("secrets", "--show", *there).status == 2  # no terminal
    assert dreamd("secrets", "allow", listed[0]["id"], *there).status == 0
    assert SAID in [note.text for note in pending_notes(workspace)]
    assert dreamd("secrets", *there).status == 3
    dreamd("note", f"{SAID}!", *there)
    assert f"{SAID}!" in [note.text for note in pending_notes(workspace)]


def test_no_workspace_can_allow_itself_anything(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.state / "allowed.json").write_text(json.dumps([SAID]), encoding="utf-8")
    rules = redaction(None, {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert rules.of(SAID) != SAID


def test_a_daemon_that_runs_hears_of_it(home: Home) -> None:
    workspace = home.workspace()
    with home.serving() as daemon:
        daemon.ask(workspace, working_memory_note, note=SAID)
        (original,) = json.loads(home.dreamd("secrets", "--json", "--workspace", workspace.root).out)["originals"]
        allowing = home.dreamd("secrets", "allow", original["id"], "--json", "--workspace", workspace.root)
        assert allowing.json == {"noted": [original["id"]]}
        assert (allowing.status, allowing.err.splitlines()[-1]) == (
            0,
            "it is allowed from now on; the daemon has read it again",
        )
        daemon.until(lambda: daemon.ask(workspace, working_memory_note, note=f"{SAID}!").text == f"{SAID}!")


def test_nothing_is_allowed_of_what_somebody_else_made(dreamd: Caller, workspace: Workspace, tmp_path: Path) -> None:
    dreamd("note", SAID, "--workspace", str(workspace.root))
    copy = shutil.copytree(workspace.root, tmp_path / "copy")
    number = Originals(workspace).all(NOW)[0].id
    assert dreamd("secrets", "allow", number, "--workspace", str(copy)).status == 1
    assert redaction(None, os.environ).of(SAID) != SAID


def test_forgetting_leaves_nothing_of_an_original(dreamd: Caller, workspace: Workspace) -> None:
    there = ("--workspace", str(workspace.root))
    dreamd("note", SAID, *there)
    assert dreamd("forget", SAID, "--yes", *there).status == 0
    held = [path for path in all_files(workspace).values() if SAID.encode() in path.read_bytes()]
    assert held == []
    assert Originals(workspace).all(NOW) == ()
