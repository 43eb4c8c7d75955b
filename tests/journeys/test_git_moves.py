"""What git deletes, and a project that moves, takes no memory along: it is not in the project."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from daemon.workspace.stores import follow_clock
from tests.support.repository import Repository, git
from tests.support.running import Caller


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    yield
    follow_clock(datetime.now(UTC), time.monotonic())


@pytest.fixture(params=[False, True], ids=["excluded", "tracked"])
def tracked(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def project(tmp_path: Path, dreamd: Caller, *, tracked: bool) -> Repository:
    return Repository.begun(tmp_path / "project", dreamd, tracked=tracked)


@pytest.mark.parametrize("opened", [True, False], ids=["dreamt", "asked"])
def test_clean_takes_nothing(project: Repository, *, opened: bool) -> None:
    project.dream_of("Releases are built on Thursdays")
    project.git("clean", "-q", "-f", "-d", "-x")
    told = project.told()
    assert [one for one in project.noted if one not in told] == []
    if opened:
        project.dream_of("Mira wants one page")
        project.require_whole()


def test_clean_takes_no_note_that_waits(project: Repository) -> None:
    project.note("The staging server listens on port 8080")
    project.git("clean", "-q", "-f", "-d", "-x")
    told = project.told()
    assert [one for one in project.noted if one not in told] == []


@pytest.mark.parametrize("what", ["project", "folder"])
def test_a_project_that_moves_takes_its_memory_along(
    tmp_path: Path, dreamd: Caller, what: str, *, tracked: bool
) -> None:
    top = tmp_path / "mono"
    project = Repository.begun(tmp_path / "project", dreamd, tracked=tracked)
    if what == "folder":  # a folder of a larger repository
        top.mkdir()
        git(top, "init", "-q", "-b", "main")
        (top / "one").mkdir()
        (top / "one" / "code").write_text("1\n", encoding="utf-8")
        inside = Repository(top / "one", dreamd)
        inside.do("init", inside.root, "--no-daemon", *(["--in-git"] if tracked else []))
        inside.dream_of("The harbour wall is of granite")
        inside.commit("all")
        git(top, "mv", "one", "two")
        if (top / "one").exists():  # what git does not track stayed behind
            for path in (top / "one").iterdir():
                path.rename(top / "two" / path.name)
            (top / "one").rmdir()
        project = Repository(top / "two", dreamd, inside.noted)
    else:
        project.root = project.root.rename(tmp_path / "renamed")
    project.dream_of("Releases are built on Thursdays")
    project.require_whole()
