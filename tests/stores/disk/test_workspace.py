import stat
from pathlib import Path

import pytest

from state.errors import StorageError, UsageError
from state.stores.disk.workspace import Workspace, contained, init_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "data").mkdir()
    return Workspace(tmp_path / "new" / "agent", tmp_path / "data" / "id")


def test_a_new_workspace_has_its_folders_and_nobody_else_may_look(workspace: Workspace) -> None:
    assert init_workspace(workspace) == workspace
    assert workspace.scratch.parent.is_dir()
    for folder in (workspace.state, workspace.index, workspace.checkpoints):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_memory_that_is_kept_elsewhere_by_a_link_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    workspace.root.mkdir(parents=True)
    (workspace.root / "memory").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="outside"):
        init_workspace(workspace)


def test_nothing_but_the_state_is_written_outside_of_the_folder(workspace: Workspace, tmp_path: Path) -> None:
    disk = init_workspace(workspace).disk()
    disk.write_atomic(workspace.state / "file", b"x")
    disk.rename(workspace.state / "file", workspace.root / "file")
    with pytest.raises(StorageError, match="outside"):
        disk.write_atomic(tmp_path / "file", b"x")
    (workspace.state / "out").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="outside"):
        disk.write_atomic(workspace.state / "out" / "file", b"x")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "memory/../../x", "out/x", "a\0b"])
def test_no_name_leads_out_of_the_workspace(tmp_path: Path, name: str) -> None:
    workspace = init_workspace(contained(tmp_path / "agent"))
    (workspace.root / "out").symlink_to(tmp_path)
    with pytest.raises(UsageError):
        workspace.inside(name)
