"""A look finds the files that the transcripts' globs find, and says what changed of what belongs there."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.workspace import scan
from daemon.workspace.adoption import init_workspace
from daemon.workspace.scan import Change, Watched, files
from state.stores.disk.workspace import Workspace
from tests.support.long_variants import examples

PARTS = st.sampled_from(["a", "b", "*", "**", "?", "x.md", "*.md", ".dreamd", ".h", "[ab]"])
GLOBS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
FOLDERS = st.lists(st.sampled_from(["a", "b", ".h", ".dreamd"]), max_size=3).map("/".join)
LINKS = st.tuples(FOLDERS, st.sampled_from(["a", "l", "x.md"]), FOLDERS)


def grow(root: Path, folders: list[str], links: list[tuple[str, str, str]]) -> None:
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name in ("x.md", "y.log"):
            (root / folder / name).write_text("x")
    for folder, name, target in links:
        path = root / folder / name
        if path.parent.is_dir() and not path.exists() and not path.is_symlink():
            path.symlink_to(root / target)


@examples(300)
@given(FOLDERS | GLOBS, st.lists(FOLDERS, max_size=6), st.lists(LINKS, max_size=4))
def test_a_look_sees_the_files_that_the_glob_finds(
    glob: str, folders: list[str], links: list[tuple[str, str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(os.path.realpath(name))
        grow(root, folders, links)

        def reals(paths: list[Path]) -> set[str]:
            """Where they are; nothing in .dreamd counts, however it is reached."""
            real = {os.path.realpath(path) for path in paths if ".dreamd" not in path.relative_to(root).parts}
            return {path for path in real if "/.dreamd/" not in path}

        seen = reals(files(root, glob))
        expected = reals([path for path in root.glob(glob) if path.is_file()] if glob else [])
        assert expected <= seen
        if not glob.endswith("**"):
            assert expected == seen


def talk(one: Workspace) -> Path:
    return one.root / "transcripts" / "talk.md"


def append(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("- a line\n")


def rewrite_with_the_same_stamp(one: Workspace) -> None:
    before = one.document.stat()
    one.document.write_text(one.document.read_text().swapcase())
    os.utime(one.document, ns=(before.st_atime_ns, before.st_mtime_ns))


def append_behind_a_link(one: Workspace) -> None:
    target = one.root.parent / "away" / "talk[1].md"
    append(target)
    if not talk(one).exists():
        talk(one).symlink_to(target)


ACTS: dict[str, tuple[Change, Callable[[Workspace], object]]] = {
    "an append to the log": (Change.SCRATCH, lambda one: append(one.scratch)),
    "a log that is written anew": (
        Change.SCRATCH,
        lambda one: one.disk().write_atomic(one.scratch, str(time.monotonic_ns()).encode(), 0o644),
    ),
    "a document that is replaced": (Change.DOCUMENT, lambda one: append(one.document.rename(one.root / "old"))),
    "a document of the same length and time": (Change.DOCUMENT, rewrite_with_the_same_stamp),
    "a transcript": (Change.TRANSCRIPT, lambda one: append(talk(one))),
    "a transcript in a new folder": (
        Change.TRANSCRIPT,
        lambda one: append(one.root / "transcripts" / str(time.monotonic_ns()) / "march" / "talk.jsonl"),
    ),
    "a name that is not UTF-8": (
        Change.TRANSCRIPT,
        lambda one: append(one.root / "transcripts" / os.fsdecode(b"caf\xe9.md")),
    ),
    "a file behind a link": (Change.TRANSCRIPT, append_behind_a_link),
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr(scan, "_SHARE", float("inf"))  # the next look may follow at once
    workspace = init_workspace(tmp_path / "here")
    workspace.document.write_text("# Memory\n")
    workspace.scratch.parent.mkdir(exist_ok=True)
    workspace.scratch.write_text("- a line\n")
    (workspace.root / "transcripts").mkdir()
    return workspace


@pytest.mark.parametrize("act", ACTS)
def test_whatever_is_written_is_told_once_each_time(workspace: Workspace, act: str) -> None:
    change, do = ACTS[act]
    watched = Watched(workspace.root)
    assert watched.look(["transcripts/**/*"]) == set()
    for _ in range(2):
        if act == "a document that is replaced":
            append(workspace.document)
            watched.look(["transcripts/**/*"])
        do(workspace)
        assert watched.look(["transcripts/**/*"]) == {change}
        assert watched.look(["transcripts/**/*"]) == set()


def test_what_goes_is_told_and_what_comes_where_nothing_was(workspace: Workspace) -> None:
    watched, globs = Watched(workspace.root), ["chats/*/days/**/*.md"]
    watched.look(globs)
    day = workspace.root / "chats" / "ada" / "days" / "2026-03-01" / "talk.md"
    append(day)
    assert watched.look(globs) == {Change.TRANSCRIPT}
    day.unlink()
    assert watched.look(globs) == {Change.TRANSCRIPT}
    append(workspace.root / "plain.md")
    assert watched.look(["*.md"]) == {Change.TRANSCRIPT}  # another glob
    shutil.rmtree(workspace.root)
    assert watched.look(globs) == {Change.TRANSCRIPT, Change.DOCUMENT, Change.SCRATCH}


def test_what_does_not_belong_to_it_is_not_told_and_is_not_entered(workspace: Workspace, tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", workspace.root / "kept"
    for folder in (outside, inside):
        (folder / "below").mkdir(parents=True)
    (workspace.root / "chats").symlink_to(outside)
    (workspace.root / "talks").symlink_to(inside)
    (workspace.root / "transcripts" / "everything").symlink_to("/")
    (workspace.root / "transcripts" / "round").symlink_to(workspace.root / "transcripts")
    bad = ["", ".", "/etc/*", f"{tmp_path}/*.md", "../*.md", "a/../b", "a\0b"]
    globs = [*bad, "**/*.log", "chats/**/*.md", "talks/**/*.md", "transcripts/**/*"]
    watched = Watched(workspace.root)
    watched.look(globs)
    (workspace.root / ".dreamd").rename(workspace.root / "id")
    planted = workspace.root / ".dreamd" / "planted.log"
    others = ("notes.txt", "memory/other.md", "../outside.md", "../outside/below/talk.md")
    for path in (planted, *(workspace.root / name for name in others)):
        append(path)
    assert watched.look(globs) == set()
    append(inside / "below" / "talk.md")
    assert watched.look(globs) == {Change.TRANSCRIPT}
    assert files(workspace.root, "chats/**/*.md") == [workspace.root / "chats"]  # so that somebody says so


def test_looks_take_a_small_share_of_the_time(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_SHARE", 1e-9)
    watched = Watched(workspace.root)
    watched.look([])
    append(workspace.scratch)
    assert watched.look([]) == set()
