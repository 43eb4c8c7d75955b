"""A linked git worktree is known by its files, and no `.git` file makes a folder one that the repository disowns."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.stores.disk.worktree import Worktree, repository_top, worktree_at, worktrees_of
from tests.support.repository import git


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init")
    git(folder, "commit", "--allow-empty", "-m", "first")
    return folder


@pytest.fixture
def main(tmp_path: Path) -> Path:
    return repository(tmp_path / "main")


def test_a_worktree_that_git_made_has_its_main_checkout(main: Path, tmp_path: Path) -> None:
    git(main, "worktree", "add", "--detach", tmp_path / "away it is")
    git(main, "worktree", "add", "--detach", main / ".worktrees" / "inside")
    for top in (tmp_path / "away it is", main / ".worktrees" / "inside"):
        assert worktree_at(top) == Worktree(top, main / ".git", main)
    assert worktree_at(main) is None
    assert worktree_at(tmp_path) is None


def test_a_repository_names_its_worktrees_and_each_of_them_its_main_checkout(main: Path, tmp_path: Path) -> None:
    tops = (tmp_path / "a", main / ".worktrees" / "b")
    for top in tops:
        git(main, "worktree", "add", "--detach", top)
        (top / "inside").mkdir()
        assert repository_top(top / "inside") == main
    assert worktrees_of(main) == tops
    assert repository_top(main / "gone") == main
    assert repository_top(tmp_path) is None
    assert worktrees_of(tmp_path) == worktrees_of(tops[0]) == ()


def test_a_worktree_that_a_repository_only_claims_is_none_of_its_own(main: Path, tmp_path: Path) -> None:
    known = main / ".git" / "worktrees"
    for name, link in (("home", tmp_path / ".git"), ("main", main / ".git"), ("nowhere", "x/.git"), ("nul", "\0")):
        (known / name).mkdir(parents=True)
        (known / name / "gitdir").write_text(f"{link}\n", encoding="utf-8")
    (known / "waits").mkdir()
    os.mkfifo(known / "waits" / "gitdir")
    (known / "a file").write_text("x", encoding="utf-8")
    assert worktrees_of(main) == ()


def test_a_submodule_is_no_worktree_and_a_worktree_of_one_has_no_main_checkout(main: Path, tmp_path: Path) -> None:
    git(main, "submodule", "add", repository(tmp_path / "other"), "part")
    assert worktree_at(main / "part") is None
    git(main / "part", "worktree", "add", "--detach", tmp_path / "of part")
    found = worktree_at(tmp_path / "of part")
    assert found is not None
    assert found.main is None


def test_a_folder_that_names_somebody_elses_worktree_is_none(main: Path, tmp_path: Path) -> None:
    git(main, "worktree", "add", "--detach", tmp_path / "tree")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / ".git").write_bytes((tmp_path / "tree" / ".git").read_bytes())
    assert worktree_at(hostile) is None
    # Its own folder for a worktree, which names the other's repository.
    own = hostile / "worktrees" / "x"
    own.mkdir(parents=True)
    (hostile / ".git").write_text("gitdir: worktrees/x\n", encoding="utf-8")
    (own / "gitdir").write_text(f"{hostile}/.git\n", encoding="utf-8")
    (own / "commondir").write_text(f"{main}/.git\n", encoding="utf-8")
    assert worktree_at(hostile) is None


LINES = (
    b"", b"gitdir: ", b"gitdir: .\n", b"gitdir: ../..\n", b"gitdir: .git\n", b"gitdir: /\n", b"gitdir: a\0b\n",
    b"gitdir: worktrees/x\n", b"gitdir: worktrees/x/worktrees/x", b"\xff\xfe\n", b"gitdir: \xff\n", b"x" * 5_000,
    b"gitdir: " + b"../" * 1_390, b"gitdir: a\nb\n", b"../..\n", b"..\n", b"x/.git\n", b"/dev/zero",
)  # fmt: skip


@given(st.lists(st.sampled_from(LINES), min_size=3, max_size=3))
def test_whatever_the_files_say_nothing_raises(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    own = folder / "worktrees" / "x"
    own.mkdir(parents=True)
    for file, line in zip((folder / ".git", own / "commondir", own / "gitdir"), lines, strict=True):
        file.write_bytes(line)
    found = worktree_at(folder)
    assert found is None or found.repository == folder


@pytest.mark.parametrize("name", [".git", "commondir", "gitdir"])
@pytest.mark.parametrize("kind", ["fifo", "link", "loop", "folder", "device", "huge"])
def test_what_is_no_small_file_is_neither_waited_for_nor_followed(
    main: Path, tmp_path: Path, name: str, kind: str
) -> None:
    top = tmp_path / "tree"
    git(main, "worktree", "add", "--detach", top)
    file = top / name if name == ".git" else main / ".git/worktrees/tree" / name
    file.rename(tmp_path / "kept")
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "huge":
        file.write_bytes((tmp_path / "kept").read_bytes() + b" " * (1 << 20))
    else:
        file.symlink_to({"link": tmp_path / "kept", "loop": file, "device": Path("/dev/zero")}[kind])
    assert worktree_at(top) is None
