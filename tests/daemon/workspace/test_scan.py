"""A look finds the files that the transcripts' globs find, and is another value when one of them changed."""

import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from daemon.workspace.scan import _Walk, patterns_of, scan
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


def found_by_glob(root: Path, glob: str) -> set[str]:
    """The rule of `daemon.ingest.transcripts.transcript_files`."""
    paths = [path for path in root.glob(glob) if path.is_file()]
    return {os.path.realpath(path) for path in paths if ".dreamd" not in path.relative_to(root).parts}


@examples(300)
@given(FOLDERS | GLOBS, st.lists(FOLDERS, max_size=6), st.lists(LINKS, max_size=4))
def test_a_look_sees_the_files_that_the_glob_finds(
    glob: str, folders: list[str], links: list[tuple[str, str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(os.path.realpath(name))
        grow(root, folders, links)
        walk = _Walk(str(root))
        for pattern in patterns_of([glob]):
            walk.follow(pattern)
        seen = {os.path.realpath(path) for path, *_ in walk.marks}
        # What a link in the workspace hides in .dreamd is left out of the look alone.
        expected = {path for path in (found_by_glob(root, glob) if glob else set()) if "/.dreamd/" not in path}
        assert expected <= {path for path in seen if "/.dreamd/" not in path}
        if not glob.endswith("**"):
            assert expected == {path for path in seen if "/.dreamd/" not in path}


def test_a_look_is_the_same_until_something_changes(tmp_path: Path) -> None:
    file = tmp_path / "chats" / "talk.md"
    file.parent.mkdir()
    file.write_text("x")
    patterns = patterns_of(["chats/*.md"])
    first = scan(tmp_path, patterns)
    (tmp_path / "chats" / "talk.log").write_text("x")
    assert scan(tmp_path, patterns) == first
    file.write_text("xy")
    second = scan(tmp_path, patterns)
    assert second.seen != first.seen
    assert (second.folders, second.names) == (first.folders, first.names)
    file.unlink()
    assert scan(tmp_path, patterns).seen not in (first.seen, second.seen)


def test_a_look_names_the_folders_on_the_way_and_those_that_are_made_again(tmp_path: Path) -> None:
    patterns = patterns_of(["a/b/*.md"])
    assert set(scan(tmp_path, patterns).folders) == {str(tmp_path)}
    (tmp_path / "a" / "b").mkdir(parents=True)
    before = scan(tmp_path, patterns)
    assert set(before.folders) == {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")}
    (tmp_path / "a" / "b").rename(tmp_path / "old")
    (tmp_path / "a" / "b").mkdir()
    after = scan(tmp_path, patterns)
    assert after.folders.keys() == before.folders.keys()
    assert after.folders != before.folders


def test_what_cannot_be_meant_is_no_pattern() -> None:
    assert patterns_of(["", ".", "/etc/*", "../*", "a/../b", "a\0b"]) == ()
    assert patterns_of(["a//b/./*.md", "transcripts/**"]) == (("a", "b", "*.md"), ("transcripts", "**", "*"))
