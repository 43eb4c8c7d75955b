"""Which workspace a folder has: its own, that of its repository's main checkout, never by accident that of a home."""

import shutil
from pathlib import Path

import pytest

from daemon.config.paths import is_everybodys
from daemon.workspace.adoption import (
    find_workspace,
    init_workspace,
    require_project,
    shared_folder,
)
from state.errors import UsageError
from tests.stores.disk.test_worktree import git, repository


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state")}


def test_the_nearest_workspace_above_is_found(tmp_path: Path) -> None:
    outer = init_workspace(tmp_path / "a")
    inner = init_workspace(tmp_path / "a" / "b" / "c")
    (inner.root / "d" / "e").mkdir(parents=True)
    assert find_workspace(inner.root / "d" / "e") == inner
    assert find_workspace(tmp_path / "a" / "b") == outer


def test_no_workspace_above_is_an_error_that_says_init(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="dreamd init"):
        find_workspace(tmp_path)


def test_a_worktree_has_the_workspace_of_the_corresponding_folder(tmp_path: Path) -> None:
    main, tree = repository(tmp_path / "main"), tmp_path / "tree"
    git(main, "worktree", "add", "--detach", tree)
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


def test_a_worktree_has_also_what_is_above_the_main_checkout(tmp_path: Path) -> None:
    main, tree = repository(tmp_path / "work" / "main"), tmp_path / "away" / "tree"
    git(main, "worktree", "add", "--detach", tree)
    work = init_workspace(tmp_path / "work")
    assert find_workspace(tree) == work


def test_a_submodule_is_a_folder_like_any_other(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    git(main, "submodule", "add", repository(tmp_path / "other"), "part")
    whole, other = init_workspace(main), init_workspace(tmp_path / "other")
    assert find_workspace(main / "part") == whole
    assert shared_folder(main / "part") is None
    own = init_workspace(main / "part")
    assert find_workspace(main / "part") == own != other


def test_a_worktree_shares_nothing_that_this_user_has_not_adopted(tmp_path: Path) -> None:
    main, tree = repository(tmp_path / "main"), tmp_path / "tree"
    git(main, "worktree", "add", "--detach", tree)
    shutil.copytree(init_workspace(tmp_path / "elsewhere").state, main / ".dreamd")
    with pytest.raises(UsageError, match=str(tree)):
        find_workspace(tree)
    shutil.rmtree(main / ".dreamd")
    (main / ".dreamd").symlink_to("/etc")
    with pytest.raises(UsageError, match=str(tree)):
        find_workspace(tree)


def test_a_link_in_the_main_checkout_leads_to_no_other_workspace(tmp_path: Path) -> None:
    main, tree, private = repository(tmp_path / "main"), tmp_path / "tree", init_workspace(tmp_path / "private")
    git(main, "worktree", "add", "--detach", tree)
    (main / "part").symlink_to(private.root)
    (main / "up").symlink_to(tmp_path)
    for name in ("part", "up/private"):
        (tree / name).mkdir(parents=True)
        assert shared_folder(tree / name) == main
        with pytest.raises(UsageError):
            find_workspace(tree / name)


def test_a_folder_that_claims_to_be_a_worktree_gets_no_workspace(tmp_path: Path) -> None:
    private = repository(tmp_path / "private")
    init_workspace(private)
    git(private, "worktree", "add", "--detach", tmp_path / "tree")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for pointer in ("private/.git/worktrees/tree", "private/.git"):
        (hostile / ".git").write_text(f"gitdir: {tmp_path}/{pointer}\n", encoding="utf-8")
        with pytest.raises(UsageError):
            find_workspace(hostile)


def test_a_worktree_whose_main_checkout_is_the_home_folder_has_its_own(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    home = tmp_path / "home"
    home.rmdir()
    repository(home)
    git(home, "worktree", "add", "--detach", tmp_path / "tree")
    assert shared_folder(tmp_path / "tree", environment) is None
    init_workspace(home, environment)
    with pytest.raises(UsageError):
        find_workspace(tmp_path / "tree", environment)


@pytest.mark.parametrize("folder", ["/", "/tmp", "/etc", "/home", "/tmp/../tmp/", "/usr/local"])  # noqa: S108
def test_a_folder_of_the_system_is_no_project(folder: str, environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--here"):
        require_project(Path(folder), environment)


def test_home_and_all_above_it_are_no_project_and_what_is_below_is(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    assert is_everybodys(tmp_path / "home", environment)
    assert is_everybodys(tmp_path, environment)
    assert not is_everybodys(tmp_path / "home" / "project", environment)
    assert not is_everybodys(tmp_path / "homely", environment)
    assert not is_everybodys(Path("/app"), environment)
