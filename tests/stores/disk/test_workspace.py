import os
import stat
from pathlib import Path

import pytest

from state.errors import StorageError, UsageError
from state.stores.disk.workspace import Workspace, init_workspace, open_workspace


def test_a_new_workspace_has_its_folders_and_nobody_else_may_look(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path / "new" / "agent")
    assert workspace.scratch.parent.is_dir()
    for folder in (workspace.state, workspace.segments, workspace.retired, workspace.index):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert open_workspace(workspace.root) == workspace


def test_making_a_workspace_again_changes_nothing_but_closes_its_state(tmp_path: Path) -> None:
    workspace = init_workspace(tmp_path)
    workspace.scratch.write_text("- a\n", encoding="utf-8")
    workspace.scratch.parent.chmod(0o755)
    workspace.state.chmod(0o755)
    assert init_workspace(tmp_path) == workspace
    assert workspace.scratch.read_text(encoding="utf-8") == "- a\n"
    assert stat.S_IMODE(workspace.scratch.parent.stat().st_mode) == 0o755
    assert stat.S_IMODE(workspace.state.stat().st_mode) == 0o700


def test_the_root_is_free_of_links(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real").mkdir()
    assert init_workspace(tmp_path / "link").root == Path(os.path.realpath(tmp_path / "real"))


def test_a_folder_without_state_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="dreamd init"):
        open_workspace(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        open_workspace(tmp_path / "nowhere")


def test_a_file_is_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for act in (open_workspace, init_workspace):
        with pytest.raises(UsageError, match="is a file"):
            act(tmp_path / "file")


def test_a_file_in_the_place_of_a_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / ".dreamd").touch()
    for act in (open_workspace, init_workspace):
        with pytest.raises(StorageError, match=r"\.dreamd.*move it away"):
            act(tmp_path)


def test_state_that_is_kept_elsewhere_by_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / ".dreamd").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="outside"):
        init_workspace(tmp_path / "agent")
    with pytest.raises(StorageError, match="outside"):
        open_workspace(tmp_path / "agent")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_an_error_that_says_chmod(tmp_path: Path) -> None:
    init_workspace(tmp_path / "agent")
    (tmp_path / "agent").chmod(0o500)
    try:
        with pytest.raises(StorageError, match="chmod"):
            open_workspace(tmp_path / "agent")
    finally:
        (tmp_path / "agent").chmod(0o700)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "memory/../../x", "out/x", "a\0b"])
def test_no_name_leads_out_of_the_workspace(tmp_path: Path, name: str) -> None:
    workspace = init_workspace(tmp_path / "agent")
    (workspace.root / "out").symlink_to(tmp_path)
    with pytest.raises(UsageError):
        workspace.inside(name)


def test_names_inside_the_workspace_are_its_files(tmp_path: Path) -> None:
    workspace = Workspace(Path(os.path.realpath(tmp_path)))
    assert workspace.inside("memory/../MEMORY.md") == workspace.document
