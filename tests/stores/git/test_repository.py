"""What a repository says of a file is what git itself says, and a `.git` of any bytes is only compared."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.document.merge import is_conflicted
from state.stores.git.repository import UNKNOWN, GitFile, git_file, is_blob, put_by_git
from tests.support.repository import git

FORMS = {
    "plain": (),
    "version 4": (("update-index", "--index-version", "4"),),
    "packed": (("pack-refs", "--all"), ("gc", "-q")),
}


def repository(folder: Path, *words: str) -> Path:
    """A repository with a folder of files and MEMORY.md between them; returns the latter."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", *words)
    for name in ("LICENSE", "MEMORY.md", "MEMORY.md.old", "a/MEMORY.md", "é"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{name}\n", encoding="utf-8")
    commit(folder)
    return folder / "MEMORY.md"


def known(path: Path) -> GitFile:
    """What its repository says of this file."""
    found = git_file(path)
    assert found is not None
    return found


def commit(folder: Path, *words: str) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "one", *words)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("digest", ["sha1", "sha256"])
def test_the_blob_is_that_of_git_and_a_commit_moves_nothing(tmp_path: Path, form: str, digest: str) -> None:
    path = repository(tmp_path / "one", f"--object-format={digest}")
    for words in FORMS[form]:
        git(path.parent, *words)
    began = known(path)
    assert began.blob == git(path.parent, "rev-parse", ":MEMORY.md").strip()
    assert is_blob(path.read_bytes(), began.blob)
    assert not is_blob(b"another\n", began.blob)
    path.write_text("another\n", encoding="utf-8")
    commit(path.parent)
    commit(path.parent, "--amend")
    git(path.parent, "switch", "-q", "-c", "other")
    git(path.parent, "branch", "-m", "renamed")
    now = known(path)
    assert (now.blob != began.blob, put_by_git(path, began, now)) == (True, None)
    git(path.parent, "reset", "-q", "--hard", "HEAD~1")
    last = known(path)
    assert put_by_git(path, now, last) is not None


@pytest.mark.parametrize("how", ["switch", "reset", "merge", "rebase", "cherry-pick", "revert", "no log", "log cut"])
def test_whatever_may_change_files_is_a_move(tmp_path: Path, how: str) -> None:
    path = repository(tmp_path / "one")
    folder = path.parent
    git(folder, "switch", "-q", "-c", "other")
    path.write_text("other\n", encoding="utf-8")
    commit(folder)
    git(folder, "switch", "-q", "main")
    path.write_text("more\n", encoding="utf-8")
    commit(folder)
    if how == "no log":
        git(folder, "config", "core.logAllRefUpdates", "false")
        (folder / ".git" / "logs" / "HEAD").unlink()
    began = known(path)
    words = {
        "switch": ("switch", "-q", "other"),
        "merge": ("merge", "-q", "--no-edit", "-X", "theirs", "other"),
        "rebase": ("rebase", "-q", "-X", "theirs", "other"),
        "cherry-pick": ("cherry-pick", "-X", "theirs", "other"),
        "revert": ("revert", "--no-edit", "HEAD"),
        "no log": ("commit", "-q", "--allow-empty", "-m", "two"),
        "log cut": ("reflog", "expire", "--expire=all", "HEAD"),
    }
    git(folder, *words.get(how, ("reset", "-q", "--hard", "HEAD~1")))
    now = known(path)
    assert put_by_git(path, began, now) is not None


def test_a_conflict_and_its_resolution_are_known(tmp_path: Path) -> None:
    path = repository(tmp_path / "one")
    folder = path.parent
    for branch in ("ours", "theirs"):
        git(folder, "switch", "-q", "-c", branch, "main")
        path.write_text(f"{branch}\n", encoding="utf-8")
        commit(folder)
    git(folder, "merge", "ours", fails=True)
    torn = known(path)
    assert (torn.blob, torn.busy, torn.resolved) == (UNKNOWN, "MERGE_HEAD", True)
    assert is_conflicted(path.read_text(encoding="utf-8"))
    path.write_text("both\n", encoding="utf-8")
    commit(folder)
    ended = known(path)
    assert (ended.busy, ended.resolved) == ("", True)
    assert not known(folder / "LICENSE").resolved
    git(folder, "switch", "-q", "main")
    assert not known(path).resolved


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("hostile") / "one")


_FILES = ("HEAD", "index", "logs/HEAD", "packed-refs", "config", "refs/heads/main", "reftable/tables.list")


@given(
    st.sampled_from(_FILES), st.one_of(st.binary(max_size=400), st.sampled_from(["fifo", "link", "folder", "hole"]))
)
def test_a_repository_of_any_bytes_is_only_compared(hostile: Path, name: str, content: bytes | str) -> None:
    file = hostile.parent / ".git" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = file.read_bytes() if file.exists() else None
    file.unlink(missing_ok=True)
    match content:
        case bytes():
            file.write_bytes(content)
        case "fifo":
            os.mkfifo(file)
        case "link":
            file.symlink_to("/dev/zero")
        case "folder":
            file.mkdir()
        case _:
            with file.open("wb") as made:
                made.truncate(1 << 40)
    try:
        found = git_file(hostile)
        assert found is None or put_by_git(hostile, found, found) is None
    finally:
        if content == "folder":
            file.rmdir()
        else:
            file.unlink()
        if kept is not None:
            file.write_bytes(kept)


@given(st.text(alphabet="<=> \na|", max_size=200))
def test_only_both_sides_between_all_markers_are_a_conflict(text: str) -> None:
    rows = [row[:7] for row in text.split("\n") if row[:7] in ("<" * 7, "=" * 7, ">" * 7) and row[7:8] in ("", " ")]
    wanted = iter(["<" * 7, "=" * 7, ">" * 7])
    found, mark = 0, next(wanted)
    for row in rows:
        if row == mark:
            found += 1
            mark = next(wanted, "")
    assert is_conflicted(text) is (found == 3)
    assert is_conflicted(f"<<<<<<< HEAD\na\n=======\n{text}\n>>>>>>> theirs\n")
