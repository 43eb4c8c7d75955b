"""Which files git tracks: those of its index, and all of an index that cannot be read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from state.stores.disk.git_index import Tracking, tracking
from tests.stores.disk.test_worktree import repository
from tests.support.repository import git


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A repository with one tracked file in a folder."""
    top = repository(tmp_path / "main")
    (top / "in").mkdir()
    (top / "in" / "tracked").write_text("x")
    git(top, "add", "in/tracked")
    return top


def _nothing(_: Path) -> None:
    pass


def _broken(top: Path) -> None:
    (top / ".git" / "index").write_bytes(b"DIRC\0\0\0\2\0\0\0\1")


def _too_long(top: Path) -> None:
    with (top / ".git" / "index").open("r+b") as index:
        index.truncate(1 << 27)


def _locked(top: Path) -> None:
    (top / ".git" / "index.lock").touch()


def _linked(top: Path) -> None:
    (top / "free").unlink()
    (top / "free").symlink_to("in/tracked")


def _linked_folder(top: Path) -> None:
    (top / "here").symlink_to("in")


def _short_names(top: Path) -> None:
    git(top, "update-index", "--index-version", "4")


def _split(top: Path) -> None:
    git(top, "update-index", "--split-index")


def _gone(top: Path) -> None:
    git(top, "rm", "--quiet", "--cached", "in/tracked")


def _of_its_own(top: Path) -> None:
    inner = repository(top / "inner")
    (inner / "theirs").write_text("x")
    git(inner, "add", "theirs")


@pytest.mark.parametrize(
    ("change", "name", "expected"),
    [
        (_nothing, "in/tracked", Tracking.YES),
        (_nothing, "free", Tracking.NO),
        (_nothing, "tracked", Tracking.NO),
        (_nothing, "gone/nowhere", Tracking.NO),
        (_broken, "free", Tracking.YES),
        (_too_long, "free", Tracking.YES),
        (_locked, "free", Tracking.UNKNOWN),
        (_linked, "free", Tracking.YES),
        (_linked_folder, "here/tracked", Tracking.YES),
        (_short_names, "in/tracked", Tracking.YES),
        (_short_names, "in/free", Tracking.NO),
        (_nothing, "in/free", Tracking.NO),
        (_split, "in/tracked", Tracking.YES),
        (_split, "free", Tracking.NO),
        (_gone, "in/tracked", Tracking.NO),
        (_of_its_own, "inner/theirs", Tracking.YES),
    ],
)
def test_a_file_is_tracked_if_the_index_lists_it_or_cannot_be_read(
    main: Path, change: Callable[[Path], None], name: str, expected: Tracking
) -> None:
    (main / "free").write_text("x")
    change(main)
    assert tracking(main / name) is expected


def test_a_new_index_is_read_and_without_one_nothing_is_tracked(main: Path, tmp_path: Path) -> None:
    (main / "free").write_text("x")
    assert tracking(main / "free") is Tracking.NO
    git(main, "add", "free")
    assert tracking(main / "free") is Tracking.YES
    (main / ".git" / "index").unlink()
    assert tracking(main / "free") is Tracking.NO
    assert tracking(tmp_path / "outside") is Tracking.NO
