"""Git says which files it tracks, and runs nothing that a folder brought along; where it cannot say it, a file is."""

import os
from pathlib import Path

import pytest

from state.stores.disk.tracking import Tracking, tracking
from tests.support.repository import git


@pytest.fixture(params=["plain", "index-4", "split", "sha256", "worktree", "submodule"])
def top(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkout of each form, which tracks `in/ours *.md`."""
    main = tmp_path / "main"
    git(tmp_path, "init", "--quiet", *(["--object-format=sha256"] if request.param == "sha256" else []), main)
    (main / "in").mkdir()
    (main / "in" / "ours *.md").write_text("x\n")
    git(main, "add", "--all")
    git(main, "commit", "--quiet", "--message", "all")
    if request.param == "index-4":
        git(main, "update-index", "--index-version", "4")
    elif request.param == "split":
        git(main, "update-index", "--split-index")
    elif request.param == "worktree":
        git(main, "worktree", "add", "--quiet", tmp_path / "tree")
        return tmp_path / "tree"
    elif request.param == "submodule":
        git(tmp_path, "init", "--quiet", tmp_path / "outer")
        git(tmp_path / "outer", "submodule", "--quiet", "add", main, "part")
        return tmp_path / "outer" / "part"
    return main


def test_what_is_tracked_in_every_form_of_checkout(top: Path) -> None:
    (top / "in" / "ours x.md").write_text("x\n")  # a name that the tracked one would match as a pattern
    (top / "link.md").symlink_to("in/ours *.md")
    assert tracking(top / "in" / "ours *.md") is tracking(top / "link.md") is Tracking.YES
    assert tracking(top / "in" / "ours x.md") is tracking(top / "gone") is Tracking.NO
    git(top, "rm", "--quiet", "--cached", "in/ours *.md")
    assert tracking(top / "in" / "ours *.md") is Tracking.NO
    lock = Path(git(top, "rev-parse", "--absolute-git-dir").strip()) / "index.lock"
    lock.touch()
    assert tracking(top / "in" / "ours *.md") is Tracking.UNKNOWN


def test_outside_of_git_nothing_is_and_where_git_cannot_say_it_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tracking(tmp_path / "notes.md") is Tracking.NO
    git(tmp_path, "init", "--quiet", tmp_path / "main")
    assert tracking(tmp_path / "main" / "notes.md") is Tracking.NO  # there is no index yet
    (tmp_path / "main" / ".git" / "index").write_bytes(b"\xff" * 64)
    assert tracking(tmp_path / "main" / "notes.md") is Tracking.YES
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tracking(tmp_path / "main" / "others.md") is Tracking.YES


def test_no_program_that_a_folder_names_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "--quiet", tmp_path / "main")
    main, ran = tmp_path / "main", tmp_path / "ran"
    (main / "ours.md").write_text("x\n")
    git(main, "add", "--all")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    (main / ".git" / "hooks").mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (main / ".git" / "hooks" / hook).symlink_to(program)
    for key in ("core.fsmonitor", "core.pager", "pager.ls-files", "core.sshCommand", "core.editor", "diff.external"):
        git(main, "config", key, str(program))
    git(main, "config", "alias.ls-files", f"!{program}")
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(ran))
    ran.unlink(missing_ok=True)
    assert tracking(main / "ours.md") is Tracking.YES
    assert not os.path.lexists(ran)


def test_what_a_partial_clone_lacks_is_not_fetched(tmp_path: Path) -> None:
    main, ran, program = tmp_path / "main", tmp_path / "ran", tmp_path / "program"
    git(tmp_path, "init", "--quiet", main)
    for name in ("ours.md", "left/out/other.md"):
        (main / name).parent.mkdir(parents=True, exist_ok=True)
        (main / name).write_text("x\n")
    git(main, "add", "--all")
    git(main, "commit", "--quiet", "--message", "all")
    git(main, "sparse-checkout", "init", "--cone", "--sparse-index")
    git(main, "sparse-checkout", "set", "none")
    lacking = git(main, "rev-parse", "HEAD:left").strip()
    (main / ".git/objects" / lacking[:2] / lacking[2:]).unlink()
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    config = {"core.repositoryformatversion": "1", "extensions.partialClone": "origin", "protocol.allow": "always"}
    config |= {"remote.origin.promisor": "true", "remote.origin.url": str(main)}
    for key, value in (config | {"remote.origin.uploadpack": str(program), "protocol.file.allow": "always"}).items():
        git(main, "config", key, value)
    assert tracking(main / "ours.md") is Tracking.YES
    assert not os.path.lexists(ran)
