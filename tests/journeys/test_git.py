"""A MEMORY.md that its owner wants in git: no note and no version is lost, and a checkout is nobody's edit."""

import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from daemon.workspace.stores import follow_clock
from tests.support import model_characters
from tests.support.long_variants import spread
from tests.support.repository import Repository, git
from tests.support.running import Caller
from tests.support.scripted_model import ScriptedModel

HAND = "Radia keeps the spare key under the ninth flowerpot"
THEIRS = "Everybody is to call the office before lunch"


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    yield
    follow_clock(datetime.now(UTC), time.monotonic())


def test_an_edit_that_is_committed_before_a_pull_stays_an_edit(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd)
    git(tmp_path, "clone", "-q", project.root, tmp_path / "clone")
    (tmp_path / "clone" / "code").write_text("1\n", encoding="utf-8")
    git(tmp_path / "clone", "add", "-A")
    git(tmp_path / "clone", "commit", "-q", "-m", "code")
    project.write(HAND)
    project.commit("by hand")
    project.git("pull", "-q", "--no-rebase", "--no-edit", tmp_path / "clone", "HEAD")
    project.dream_of("Releases are built on Thursdays")
    project.require_whole(HAND)


def test_a_conflict_is_told_and_left_alone_until_a_person_has_resolved_it(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd)
    with_conflict(project)
    project.git("merge", "theirs", fails=True)
    torn = project.document.read_bytes()
    assert b"<<<<<<<" in torn
    told = project.told()
    assert ("Thursdays" in told, THEIRS in told) == (True, False)
    assert "git left a conflict in MEMORY.md" in told
    assert any(
        "conflict" in one["what"] for one in project.do("status", "-w", project.root, "--json").json["problems"]
    )
    assert "git left a conflict in MEMORY.md" in project.dreamd("doctor", "-w", project.root).out
    project.dream_of("The staging server listens on port 8080")
    assert project.document.read_bytes() == torn
    assert "8080" in project.told()
    hits = project.do("search", "-w", project.root, "which port does staging use", "--json").json["hits"]
    assert "8080" in json.dumps(hits)
    resolve(project)
    project.git("commit", "-q", "-a", "--no-edit")
    project.dream_of("Mira wants one page")
    project.require_whole(THEIRS)


@pytest.mark.parametrize("end", spread(["merged", "merge given up", "rebased"], 3))
def test_a_conflict_ends(tmp_path: Path, dreamd: Caller, end: str) -> None:
    project = Repository.begun(tmp_path / "project", dreamd)
    with_conflict(project)
    project.git("rebase" if end == "rebased" else "merge", "theirs", fails=True)
    if end != "merged":  # else dreamd never saw it
        project.dream_of("The staging server listens on port 8080")
        assert b"<<<<<<<" in project.document.read_bytes()
    if end == "merge given up":
        project.git("merge", "--abort")
    else:
        resolve(project)
        project.git("add", "MEMORY.md")
        project.git(*(("rebase", "--continue") if end == "rebased" else ("commit", "-q", "--no-edit")))
    project.dream_of("Mira wants one page")
    project.require_whole(*([] if end == "merge given up" else [THEIRS]))


@pytest.mark.parametrize("how", spread(["merge", "switch"], 2))
def test_git_at_work_while_a_model_is_asked(tmp_path: Path, dreamd: Caller, how: str) -> None:
    project = Repository.begun(tmp_path / "project", dreamd)
    project.git("branch", "old")
    with_conflict(project)

    def meanwhile(request: dict[str, Any], number: int) -> str:
        project.git(*(("switch", "-q", "old") if how == "switch" else ("merge", "theirs")), fails=how == "merge")
        return model_characters.good(request, number)

    with ScriptedModel(meanwhile) as model, patch.dict(os.environ, model.variables):
        project.dream_of("The staging server listens on port 8080")
    assert (b"<<<<<<<" in project.document.read_bytes()) is (how == "merge")
    assert "8080" in project.told()
    if how == "merge":
        resolve(project)
    project.dream_of("Mira wants one page")
    project.require_whole(*([THEIRS] if how == "merge" else []))


def test_a_line_is_changed_and_a_version_restored_around_a_conflict(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd)
    with_conflict(project)
    project.git("merge", "theirs", fails=True)
    torn = project.document.read_bytes()
    restored = project.do("restore", "-w", project.root, "1")
    assert "conflict" in restored.out + restored.err
    assert project.document.read_bytes() == torn
    assert "Thursdays" in project.told()  # a note is pending again
    project.git("merge", "--abort")
    project.dream_of("Mira wants one page")
    project.require_whole()


def with_conflict(project: Repository) -> None:
    """Commit a dream, and a colleague's line on a branch `theirs` from before it."""
    colleague(project, THEIRS)
    project.dream_of("Releases are built on Thursdays")
    project.commit("ours")


def colleague(project: Repository, line: str) -> None:
    """Somebody else writes a line, on the branch `theirs`."""
    clone = Repository(project.root.with_name("clone"), project.dreamd)
    git(project.root, "clone", "-q", project.root, clone.root)
    clone.write(line)
    clone.commit("theirs")
    project.git("fetch", "-q", clone.root, "HEAD:theirs")


def resolve(project: Repository) -> None:
    """Take both sides, as a person does."""
    rows = project.document.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [row for row in rows if row[:7] not in ("<<<<<<<", "=======", ">>>>>>>")]
    project.document.write_text("".join(kept), encoding="utf-8")
