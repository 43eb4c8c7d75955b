"""What is named in a repository's exclude file means that file to git, whatever its name, and is taken out again."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.stores.git.exclude import keep_out, take_back

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
        asked = "\0".join((f"below/{name}", f"below/{other}", name))
        ended = subprocess.run(
            ["git", "check-ignore", "-z", "--stdin"], cwd=top, input=asked.encode(), capture_output=True, check=False
        )
        assert set(ended.stdout.decode().split("\0")) - {""} == {f"below/{name}"}
        assert len(take_back(top, [top / "below" / name]).names) == 1
        assert file.read_bytes() == before

    holds()


@pytest.mark.parametrize("line", ["MEMORY.md", "/MEMORY.md", "memory", "/memory/", "memory/"])
def test_what_the_owner_excludes_is_not_named_again(tmp_path: Path, line: str) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "memory").mkdir()
    (tmp_path / ".gitignore").write_text(f"*.pyc\n{line}\n", encoding="utf-8")
    names = keep_out(tmp_path, [tmp_path / "MEMORY.md", tmp_path / "memory", tmp_path / ".dreamd"]).names
    assert set(names) == {"MEMORY.md", "memory/", ".dreamd"} - {"MEMORY.md" if "MEM" in line else "memory/"}


@given(st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(lambda rest: b"DIRC\0\0\0\4\0\1\0\0" + rest)))
def test_an_index_of_any_bytes_is_no_defect(top: Path, index: bytes) -> None:
    (top / ".git" / "index").write_bytes(index)
    try:
        assert keep_out(top, [top / "MEMORY.md"]).names == ("MEMORY.md",)
        assert take_back(top, [top / "MEMORY.md"]).names == ("MEMORY.md",)
    finally:
        (top / ".git" / "index").unlink()
