"""What is named in a repository's exclude file means that file to git, whatever its name, and is taken out again."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.stores.disk.workspace import STATE_FOLDER, Workspace
from state.stores.git.exclude import keep_out, keep_out_again, take_back, written_by_init

NAMES = st.text(
    st.one_of(st.sampled_from(" \t!#*?[]\\\"'{}~.é"), st.characters(codec="utf-8", exclude_characters="/\0\r\n")),
    min_size=1,
    max_size=8,
).filter(lambda name: name.strip(".") and name.casefold() != ".git")


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def test_git_leaves_out_that_file_and_no_other_one(top: Path) -> None:
    @given(NAMES, NAMES)
    def holds(name: str, other: str) -> None:
        file = top / ".git" / "info" / "exclude"
        before = file.read_bytes()
        assert len(keep_out(top, [top / "below" / name]).names) == 1
        assert keep_out(top / "below", [top / "below" / name]).names == ()
        assert excluded(top, f"below/{name}", f"below/{other}", name) == {f"below/{name}"}
        assert len(take_back(top, [top / "below" / name]).names) == 1
        assert file.read_bytes() == before

    holds()


@given(st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(lambda rest: b"DIRC\0\0\0\4\0\1\0\0" + rest)))
def test_an_index_of_any_bytes_is_no_defect(top: Path, index: bytes) -> None:
    (top / ".git" / "index").write_bytes(index)
    try:
        assert keep_out(top, [top / "MEMORY.md"]).names == ("MEMORY.md",)
        assert take_back(top, [top / "MEMORY.md"]).names == ("MEMORY.md",)
    finally:
        (top / ".git" / "index").unlink()


def excluded(top: Path, *below: str) -> set[str]:
    """Which of these git leaves out."""
    asked = "\0".join(below).encode()
    ended = subprocess.run(
        ["git", "check-ignore", "-z", "--stdin"], cwd=top, input=asked, capture_output=True, check=False
    )
    return set(ended.stdout.decode().split("\0")) - {""}


@pytest.mark.parametrize("in_git", [False, True], ids=["all", "but MEMORY.md"])
def test_the_lines_of_a_folder_that_moves_follow_it(tmp_path: Path, *, in_git: bool) -> None:
    tops = [tmp_path / name for name in ("one", "two")]
    for top in tops:
        subprocess.run(["git", "init", "-q", str(top)], check=True)
    old, new = tops[0] / "a", tops[0] / "b"
    old.mkdir()
    (old / STATE_FOLDER).touch()
    keep_out(old, written_by_init(Workspace(old, tmp_path))[in_git:])
    old.rename(new)
    keep_out_again(Workspace(new, tmp_path), old)
    names = {f"b/{STATE_FOLDER}", "b/memory"} | (set() if in_git else {"b/MEMORY.md"})
    assert excluded(tops[0], "b/MEMORY.md", "b/memory", f"b/{STATE_FOLDER}", f"a/{STATE_FOLDER}") >= names
    assert excluded(tops[0], "a/MEMORY.md", f"a/{STATE_FOLDER}") == set()
    assert (excluded(tops[0], "b/MEMORY.md") == set()) is in_git

    tops[0].rename(tmp_path / "renamed")
    before = (tmp_path / "renamed" / ".git" / "info" / "exclude").read_bytes()
    here = tmp_path / "renamed" / "b"
    keep_out_again(Workspace(here, tmp_path), new)
    assert (tmp_path / "renamed" / ".git" / "info" / "exclude").read_bytes() == before

    away = here.rename(tops[1] / "c")
    keep_out_again(Workspace(away, tmp_path), here)
    assert excluded(tops[1], f"c/{STATE_FOLDER}", "c/MEMORY.md") == {f"c/{STATE_FOLDER}", "c/MEMORY.md"}
