"""A MEMORY.md in the tree: git may do with it what it likes, and what a folder without git has is as safe."""

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
from tests.support.developer import Developer, at_home, tree
from tests.support.long_variants import spread
from tests.support.repository import Repository, git
from tests.support.running import Caller
from tests.support.scripted_model import ScriptedModel

KNOWN = "Ada keeps bees in the orchard"
HAND = "Radia keeps the spare key under the ninth flowerpot"
THEIRS = "Everybody is to call the office before lunch"


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    yield
    follow_clock(datetime.now(UTC), time.monotonic())


@pytest.fixture
def ada() -> Iterator[Developer]:
    with at_home() as developer:
        yield developer


@pytest.fixture
def project(tmp_path: Path, dreamd: Caller) -> Repository:
    return Repository.begun(tmp_path / "project", dreamd)


def test_an_edit_that_is_committed_before_a_pull_stays_an_edit(project: Repository, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", project.root, tmp_path / "clone")
    (tmp_path / "clone" / "code").write_text("1\n", encoding="utf-8")
    git(tmp_path / "clone", "add", "-A")
    git(tmp_path / "clone", "commit", "-q", "-m", "code")
    project.write(HAND)
    project.commit("by hand")
    project.git("pull", "-q", "--no-rebase", "--no-edit", tmp_path / "clone", "HEAD")
    project.dream_of("Releases are built on Thursdays")
    project.require_whole(HAND)


@pytest.mark.parametrize(
    "how",
    spread(
        ["checkout old -- MEMORY.md", "switch old", "reset --hard old", "stash", "rm MEMORY.md", "switch before"], 3
    ),
)
def test_the_text_of_an_earlier_version_is_a_checkout_and_nobodys_edit(project: Repository, how: str) -> None:
    project.git("branch", "old")
    project.git("branch", "before", "HEAD~1")
    project.dream_of("Releases are built on Thursdays")
    if how != "stash":
        project.commit("dreamt")
    project.git(*how.split())
    assert "Thursdays" in project.told()
    project.dream_of("The staging server listens on port 8080")
    project.require_whole()
    assert "8080" in project.document.read_text(encoding="utf-8")
    project.git("status")  # and git goes on


def test_what_was_forgotten_does_not_come_back_with_a_stash(project: Repository) -> None:
    project.write(HAND)
    project.dream_of("Releases are built on Thursdays")
    project.commit("with what is to be forgotten")
    project.do("forget", HAND, "-w", project.root, "--yes")
    project.git("stash")
    assert "flowerpot" in project.document.read_text(encoding="utf-8")
    assert "flowerpot" not in project.told()
    project.dream_of("The staging server listens on port 8080")
    assert "flowerpot" not in project.document.read_text(encoding="utf-8")
    assert HAND not in project.do("search", "-w", project.root, HAND).out


def test_a_conflict_is_told_and_left_alone_until_a_person_has_resolved_it(project: Repository) -> None:
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
def test_a_conflict_ends(project: Repository, end: str) -> None:
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
def test_git_at_work_while_a_model_is_asked(project: Repository, how: str) -> None:
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


def test_a_line_is_changed_and_a_version_restored_around_a_conflict(project: Repository) -> None:
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


@pytest.mark.parametrize("meanwhile", [False, True], ids=["on the last text", "on an older one"])
def test_what_git_brings_is_its_owners_edit_that_a_restore_undoes(project: Repository, *, meanwhile: bool) -> None:
    colleague(project, THEIRS)
    if meanwhile:  # so that what git brings has another line less
        project.dream_of("Releases are built on Thursdays")
    last = latest(project)
    project.git("checkout", "-q", "theirs", "--", "MEMORY.md")
    assert THEIRS in project.told()
    project.dream_of("Mira wants one page")
    assert {THEIRS, "Mira wants one page", "The harbour wall is of granite"} <= set(project.lines())
    project.do("restore", "-w", project.root, str(last))
    assert THEIRS not in project.lines()
    assert ("Releases are built on Thursdays" in project.lines()) is meanwhile
    assert "Mira wants one page" in project.told()  # its note is pending again


@pytest.mark.parametrize("name", ["MEMORY.md", "docs/MEMORY.md"])
def test_a_memory_here_says_what_git_is_not_to_see_and_hides_nothing_itself(ada: Developer, name: str) -> None:
    project = ada.repository("project")
    folder = (project / name).parent
    folder.mkdir(exist_ok=True)
    exclude = (project / ".git/info/exclude").read_bytes()
    said = ada.do(folder, "init", "--here")
    assert ".gitignore" in said.out + said.err
    assert ada.path(folder) == project / name
    ada.note(folder, KNOWN)
    ada.do(folder, "dream")
    assert KNOWN in (project / name).read_text()
    written = set(git(project, "ls-files", "--others", "-z").split("\0")) - {""}
    assert all(one.startswith(str(folder.relative_to(project)).strip(".")) for one in written)
    (folder / ".gitignore").write_text(".gitignore\n" + "\n".join(ignorable(said.out + said.err)) + "\n")
    assert git(project, "status", "--porcelain") == ""
    assert (project / ".git/info/exclude").read_bytes() == exclude
    assert not (project / ".git/dreamd").exists()
    assert ada.knows(folder, KNOWN)
    # Moved, it is found again; another project has nothing of it.
    project.rename(ada.home / "moved")
    assert ada.knows(ada.home / "moved" / folder.relative_to(project), KNOWN)


def ignorable(said: str) -> list[str]:
    """Return the names that were said to be for .gitignore."""
    rows = said[said.index(".gitignore") :]
    return [
        name for name in ("MEMORY.md", "MEMORY.md.seed-backup", "memory/", ".dreamd", "transcripts/") if name in rows
    ]


@pytest.mark.parametrize("whose", ["--mine", ""])
def test_a_memory_that_git_tracks_is_taken_in_once_and_left_alone(ada: Developer, whose: str) -> None:
    project = ada.repository("project")
    theirs = f"# Notes\n\n## The Bond\n\n- {THEIRS}\n"
    (project / "MEMORY.md").write_text(theirs)
    ada.commit(project)
    made = ada.do(project, "init", *[whose] if whose else [])
    assert whose or THEIRS in made.out + made.err  # a stranger's text is shown before it is taken in
    assert ada.path(project) != project / "MEMORY.md"
    for text in (KNOWN, HAND[:40]):
        ada.note(project, text)
        ada.do(project, "dream")
        assert (THEIRS in ada.start(project)) is bool(whose)
        hits = ada.do(project, "search", THEIRS, "--json").json["hits"]
        found = [one["trust"] for one in hits if one["text"] == THEIRS]
        assert found == ["owner" if whose else "web"]
        ada.do(project, "init", *[whose] if whose else [])
    assert tree(project) == {"code.py": b"print()\n", "MEMORY.md": theirs.encode()}
    (project / "MEMORY.md").write_text(theirs + f"- {HAND}\n")
    git(project, "commit", "-qam", "more")
    ada.dreamd(project, "dream")
    assert ada.holders(HAND) == {"project/MEMORY.md"}
    (project / "MEMORY.md").unlink()
    ada.dreamd(project, "dream")
    assert git(project, "status", "--porcelain") == " D MEMORY.md\n"  # it is not written again


def test_a_memory_that_git_tracks_is_no_memory_where_nobody_said_so(ada: Developer) -> None:
    project = ada.repository("project")
    (project / "MEMORY.md").write_text(f"# Working Memory State\n\n## The Bond\n\n- {THEIRS}\n")
    ada.commit(project)
    ada.note(project, KNOWN)
    ada.do(project, "dream")
    told = ada.start(project)
    assert (KNOWN in told, THEIRS in told) == (True, False)
    assert git(project, "status", "--porcelain", "--ignored") == ""


def latest(project: Repository) -> int:
    return max(int(one["number"]) for one in project.do("history", "-w", project.root, "--json").json["versions"])


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
