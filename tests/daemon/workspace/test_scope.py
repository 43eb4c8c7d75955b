"""Which workspace a folder has: its own, that of its repository's main checkout, never by accident that of a home."""

import shutil
from pathlib import Path

import pytest

from daemon.workspace.adoption import find_workspace, init_workspace, require_project, shared_folder
from state.errors import UsageError
from tests.stores.disk.test_worktree import git, repository


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """The main checkout, whose linked worktree is beside it."""
    main = repository(tmp_path / "main")
    git(main, "worktree", "add", "--detach", tmp_path / "tree")
    return main


def test_the_nearest_workspace_above_is_found(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="dreamd init"):
        find_workspace(tmp_path)
    outer, inner = init_workspace(tmp_path / "a"), init_workspace(tmp_path / "a" / "b" / "c")
    (inner.root / "d" / "e").mkdir(parents=True)
    assert find_workspace(inner.root / "d" / "e") == inner
    assert find_workspace(tmp_path / "a" / "b") == outer


def test_a_worktree_has_the_workspace_of_the_corresponding_folder(main: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for folder in (main, tree):
        (folder / "part" / "deep").mkdir(parents=True)
    with pytest.raises(UsageError):
        find_workspace(tree)
    assert shared_folder(tree / "part") == main / "part"
    whole = init_workspace(main)
    assert find_workspace(tree / "part") == whole
    assert shared_folder(tree / "part") == main
    part = init_workspace(main / "part")
    assert find_workspace(tree / "part" / "deep") == part
    assert find_workspace(tree) == whole
    assert shared_folder(tree / "only here") == main
    own = init_workspace(tree)
    assert find_workspace(tree / "part" / "deep") == own
    assert shared_folder(tree / "part") is None
    assert shared_folder(main / "part" / "deep") is None


def test_a_worktree_has_also_what_is_above_the_main_checkout(main: Path, tmp_path: Path) -> None:
    git(main, "worktree", "add", "--detach", tmp_path / "away" / "tree")
    above = init_workspace(tmp_path)
    assert find_workspace(tmp_path / "away" / "tree") == above


def test_a_submodule_is_a_folder_like_any_other(main: Path, tmp_path: Path) -> None:
    git(main, "submodule", "add", repository(tmp_path / "other"), "part")
    whole, other = init_workspace(main), init_workspace(tmp_path / "other")
    assert find_workspace(main / "part") == whole
    assert shared_folder(main / "part") is None
    own = init_workspace(main / "part")
    assert find_workspace(main / "part") == own != other


def test_a_worktree_shares_nothing_that_this_user_has_not_adopted(main: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(init_workspace(tmp_path / "elsewhere").state, main / ".dreamd")
    with pytest.raises(UsageError, match=str(tree)):
        find_workspace(tree)
    shutil.rmtree(main / ".dreamd")
    (main / ".dreamd").symlink_to("/etc")
    with pytest.raises(UsageError, match=str(tree)):
        find_workspace(tree)


def test_a_link_in_the_main_checkout_leads_to_no_other_workspace(main: Path, tmp_path: Path) -> None:
    private = init_workspace(tmp_path / "private")
    (main / "part").symlink_to(private.root)
    (main / "up").symlink_to(tmp_path)
    for name in ("part", "up/private"):
        (tmp_path / "tree" / name).mkdir(parents=True)
        assert shared_folder(tmp_path / "tree" / name) == main
        with pytest.raises(UsageError):
            find_workspace(tmp_path / "tree" / name)


def test_a_folder_that_claims_to_be_a_worktree_gets_no_workspace(main: Path, tmp_path: Path) -> None:
    init_workspace(main)
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for pointer in ("main/.git/worktrees/tree", "main/.git"):
        (hostile / ".git").write_text(f"gitdir: {tmp_path}/{pointer}\n", encoding="utf-8")
        with pytest.raises(UsageError):
            find_workspace(hostile)


def test_a_worktree_whose_main_checkout_is_the_home_folder_has_its_own(main: Path, tmp_path: Path) -> None:
    environment = {"HOME": str(main), "XDG_STATE_HOME": str(tmp_path / "state")}
    assert shared_folder(tmp_path / "tree", environment) is None
    init_workspace(main, environment)
    with pytest.raises(UsageError):
        find_workspace(tmp_path / "tree", environment)
    with pytest.raises(UsageError, match="--here"):
        require_project(main, environment)
