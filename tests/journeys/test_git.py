"""Whatever a person does with git, no note and no version is lost, and a checkout is nobody's edit."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from daemon.workspace.stores import follow_clock
from tests.support import model_characters
from tests.support.repository import Repository, git
from tests.support.running import Caller
from tests.support.scripted_model import ScriptedModel

HAND = "Radia keeps the spare key under the ninth flowerpot"
THEIRS = "Everybody is to call the office before lunch"


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


def test_a_switch_to_an_older_branch_and_back(project: Repository) -> None:
    project.git("switch", "-q", "-c", "later")
    project.note("Releases are built on Thursdays")
    project.write(HAND)
    project.dream()
    project.commit("later")
    project.git("switch", "-q", "main")
    assert HAND in project.told()
    project.note("The staging server listens on port 8080")
    project.dream()
    project.require_whole(HAND)
    project.commit("on main")
    project.git("switch", "-q", "later")
    project.dream_of("Mira wants one page")
    project.require_whole(HAND)


def test_an_edit_that_is_committed_or_carried_over_stays_an_edit(project: Repository) -> None:
    project.write(HAND)
    project.commit("by hand")
    project.git("branch", "other")
    project.git("switch", "-q", "other")
    project.delete("granite")
    gone = project.noted.pop()
    project.git("switch", "-q", "main")
    project.dream_of("Releases are built on Thursdays")
    assert set(project.lines()) == {HAND, *project.noted}
    assert (project.deleted(), project.said()) == ({gone}, {HAND})


def test_an_edit_that_is_committed_before_a_pull_stays_an_edit(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd, tracked=True)
    git(tmp_path, "clone", "-q", project.root, tmp_path / "clone")
    (tmp_path / "clone" / "code").write_text("1\n", encoding="utf-8")
    git(tmp_path / "clone", "add", "-A")
    git(tmp_path / "clone", "commit", "-q", "-m", "code")
    project.write(HAND)
    project.commit("by hand")
    project.git("pull", "-q", "--no-rebase", "--no-edit", tmp_path / "clone", "HEAD")
    project.dream_of("Releases are built on Thursdays")
    project.require_whole(HAND)


def test_what_was_forgotten_does_not_come_back_with_a_stash(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd, tracked=True)
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


def test_an_edit_on_top_of_an_older_checkout_is_taken_alone(project: Repository) -> None:
    project.git("switch", "-q", "-c", "later")
    project.dream_of("Releases are built on Thursdays")
    project.commit("later")
    project.git("switch", "-q", "main")
    project.write(HAND)
    project.dream_of("The staging server listens on port 8080")
    project.require_whole(HAND)


def test_a_stash_and_its_pop(project: Repository) -> None:
    project.dream_of("Releases are built on Thursdays")
    project.write(HAND)
    (project.root / "README").write_text("A project that goes on\n", encoding="utf-8")
    project.git("stash", "--include-untracked")
    assert "Thursdays" in project.told()
    project.git("stash", "pop")
    project.dream_of("The staging server listens on port 8080")
    project.require_whole(HAND)
    project.git("stash")
    project.dream_of("Mira wants one page")
    project.require_whole(HAND)


@pytest.mark.parametrize("how", ["reset", "checkout", "file"])
def test_an_old_commit_is_no_wish(project: Repository, how: str) -> None:
    project.dream_of("Releases are built on Thursdays")
    project.commit("later")
    words = {"reset": ("reset", "-q", "--hard", "HEAD~1"), "checkout": ("checkout", "-q", "HEAD~1")}
    if how != "file":
        project.git(*words[how])
    elif project.git("ls-files", "MEMORY.md"):
        project.git("checkout", "-q", "HEAD~1", "--", "MEMORY.md")
    project.dream_of("The staging server listens on port 8080")
    project.require_whole()


def test_a_conflict_is_told_and_left_alone_until_a_person_has_resolved_it(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd, tracked=True)
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


def test_a_conflict_that_dreamd_never_saw(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd, tracked=True)
    with_conflict(project)
    project.git("merge", "theirs", fails=True)
    resolve(project)
    project.git("commit", "-q", "-a", "--no-edit")
    project.dream_of("The staging server listens on port 8080")
    project.require_whole(THEIRS)


def test_a_merge_that_is_given_up(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd, tracked=True)
    with_conflict(project)
    project.git("merge", "theirs", fails=True)
    project.dream_of("The staging server listens on port 8080")
    project.git("merge", "--abort")
    project.dream_of("Mira wants one page")
    project.require_whole()


def test_a_rebase_with_a_conflict(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd, tracked=True)
    with_conflict(project)
    project.git("rebase", "theirs", fails=True)
    project.dream_of("The staging server listens on port 8080")
    assert b"<<<<<<<" in project.document.read_bytes()
    resolve(project)
    project.git("add", "MEMORY.md")
    project.git("rebase", "--continue")
    project.dream_of("Mira wants one page")
    project.require_whole(THEIRS)


@pytest.mark.parametrize("how", ["switch", "merge"])
def test_git_at_work_while_a_model_is_asked(
    tmp_path: Path, dreamd: Caller, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    project = Repository.begun(tmp_path / "project", dreamd, tracked=True)
    project.git("branch", "old")
    with_conflict(project)

    def meanwhile(request: dict[str, Any], number: int) -> str:
        project.git(*(("switch", "-q", "old") if how == "switch" else ("merge", "theirs")), fails=how == "merge")
        return model_characters.good(request, number)

    with ScriptedModel(meanwhile) as model, monkeypatch.context() as patch:
        patch.setenv("DREAMD_MODEL__NAME", "openai/scripted")
        patch.setenv("DREAMD_MODEL__API_BASE", model.url)
        patch.setenv("OPENAI_API_KEY", "sk-of-a-test")
        project.dream_of("The staging server listens on port 8080")
    assert (b"<<<<<<<" in project.document.read_bytes()) is (how == "merge")
    assert "8080" in project.told()
    if how == "merge":
        resolve(project)
    project.dream_of("Mira wants one page")
    project.require_whole(*([THEIRS] if how == "merge" else []))


def test_a_line_is_changed_and_a_version_restored_around_a_conflict(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd, tracked=True)
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


def test_what_a_colleague_wrote_is_a_strangers_text(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd, tracked=True)
    colleague(project, THEIRS)
    project.git("merge", "-q", "--ff-only", "theirs")
    assert THEIRS not in project.told()
    project.dream_of("Releases are built on Thursdays")
    project.require_whole()
    hits = project.do("search", "-w", project.root, THEIRS, "--json").json["hits"]
    assert [one["trust"] for one in hits if one["text"] == THEIRS] == ["web"]
    versions = project.do("history", "-w", project.root, "--json").json["versions"]
    found = next(one["number"] for one in versions if one["cause"] == "found")
    project.do("restore", "-w", project.root, str(found))
    assert THEIRS in project.lines()


def test_a_rebase_and_a_pull_without_a_conflict(project: Repository) -> None:
    project.git("switch", "-q", "-c", "work")
    (project.root / "code").write_text("1\n", encoding="utf-8")
    project.commit("work")
    project.git("switch", "-q", "main")
    project.dream_of("Releases are built on Thursdays")
    project.commit("main goes on")
    project.git("switch", "-q", "work")
    project.git("rebase", "-q", "main")
    project.dream_of("The staging server listens on port 8080")
    project.require_whole()


def test_a_worktree_has_the_same_memory(project: Repository, tmp_path: Path) -> None:
    project.git("worktree", "add", "-q", tmp_path / "tree", "-b", "tree")
    other = Repository(tmp_path / "tree", project.dreamd)
    other.note("Releases are built on Thursdays")
    assert "Thursdays" in project.told()
    project.noted += other.noted
    project.dream_of("The staging server listens on port 8080")
    project.require_whole()
    assert git(other.root, "status", "--porcelain") == ""
    project.git("worktree", "remove", "--force", other.root)
    project.dream_of("Mira wants one page")
    project.require_whole()


def test_what_dreamd_writes_is_nothing_to_git(project: Repository) -> None:
    project.dream_of("Releases are built on Thursdays")
    expected = " M MEMORY.md\n" if project.git("ls-files", "MEMORY.md") else ""
    assert project.git("status", "--porcelain") == expected
    exclude = (project.root / ".git" / "info" / "exclude").read_bytes()
    project.do("init", project.root, "--no-daemon")
    assert (project.root / ".git" / "info" / "exclude").read_bytes() == exclude


def test_a_memory_that_is_tracked_already_is_not_excluded(tmp_path: Path, dreamd: Caller) -> None:
    project = Repository.begun(tmp_path / "project", dreamd, tracked=True)
    project.do("init", project.root, "--no-daemon")
    assert b"/MEMORY.md\n" not in (project.root / ".git" / "info" / "exclude").read_bytes()


def test_a_clone_is_another_memory(project: Repository, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", project.root, tmp_path / "clone")
    clone = Repository(tmp_path / "clone", project.dreamd)
    clone.do("init", clone.root, "--no-daemon")
    clone.dream_of("Mira wants one page")
    assert "Mira" not in project.told()
    project.dream_of("Releases are built on Thursdays")
    project.require_whole()
    assert "Thursdays" not in clone.told()
    assert clone.deleted() == set()


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
