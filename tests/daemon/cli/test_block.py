"""`dreamd block` as it is called: with and without a daemon, and with a person at work in between."""

import os
import subprocess
from pathlib import Path

import pytest

from daemon.workspace.adoption import init_workspace
from state.document.fence import BEGIN, END
from tests.daemon.http.house import OwnHouse
from tests.daemon.http.running import running
from tests.support.running import Caller

TEA = "Ada prefers tea over coffee in the morning"
SECRET = "the launch crew is 7731 blue"
RULES = "# Rules\n\nuse make\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = init_workspace(tmp_path / 'Ada\'s "own" project').root
    monkeypatch.setenv("DREAMD_WORKSPACE", str(root))
    monkeypatch.chdir(root)
    (root / "CLAUDE.md").write_text(RULES, encoding="utf-8")
    return root


def test_a_dream_writes_it_and_takes_edits_in(dreamd: Caller, here: Path) -> None:
    file = here / "CLAUDE.md"
    assert dreamd("block").out == "no file has a block of this memory\n"
    assert dreamd("block", "add", "CLAUDE.md").status == 0
    dreamd("note", TEA)
    dreamd("dream")
    assert f"- {TEA}\n" in file.read_text(encoding="utf-8")
    file.write_text(file.read_text(encoding="utf-8").replace("tea", "cocoa"), encoding="utf-8")
    dreamd("note", "The staging server listens on port 8080")
    assert "Ada prefers cocoa over coffee in the morning" in dreamd("dream").out
    memory = (here / "MEMORY.md").read_text(encoding="utf-8")
    assert ("cocoa" in memory, "tea" in memory) == (True, False)
    assert "owner" in dreamd("why", "cocoa").out
    (found,) = dreamd("status", "--json").json["blocks"]
    assert (found["path"], found["agent"], found["left_out"], found["problem"]) == ("CLAUDE.md", "claude-code", 0, "")
    assert "CLAUDE.md for claude-code: " in dreamd("status").out
    assert dreamd("block", "--json").json == [found]
    assert dreamd("block", "remove", "CLAUDE.md").status == 0
    assert file.read_text(encoding="utf-8") == RULES


def test_git_that_goes_back_and_forth_is_no_person(dreamd: Caller, here: Path) -> None:
    def git(*words: str) -> None:
        names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        subprocess.run(["git", *names, *words], cwd=here, check=True, capture_output=True)

    dreamd("block", "add", "CLAUDE.md")
    dreamd("note", TEA)
    dreamd("dream")
    git("init", "-q", "-b", "main")
    git("add", "CLAUDE.md")
    git("commit", "-q", "-m", "one")
    dreamd("note", "The staging server listens on port 8080")
    dreamd("dream")
    now = (here / "CLAUDE.md").read_text(encoding="utf-8")
    git("checkout", "-q", "--", "CLAUDE.md")
    assert "8080" not in (here / "CLAUDE.md").read_text(encoding="utf-8")
    dreamd("dream")
    assert (here / "CLAUDE.md").read_text(encoding="utf-8") == now
    assert "8080" in (here / "MEMORY.md").read_text(encoding="utf-8")


def test_the_daemon_writes_it_for_the_command_line(
    dreamd: Caller, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(OwnHouse()) as server:
        monkeypatch.setenv("DREAMD_SOCKET", str(server.path))
        os.chdir(here.parent)
        assert dreamd("block", "add", here / "AGENTS.md", "--agent", "codex").status == 0
        assert BEGIN in (here / "AGENTS.md").read_text(encoding="utf-8")
        assert dreamd("block", "remove", here / "AGENTS.md").status == 0
        assert not (here / "AGENTS.md").exists()


def test_what_is_wrong_is_said_with_what_to_do(dreamd: Caller, here: Path) -> None:
    file = here / "CLAUDE.md"
    assert dreamd("block", "add").status == 2
    assert dreamd("block", "add", "CLAUDE.md", "--agent", "hal").status == 2
    assert dreamd("block", "remove", "CLAUDE.md").status == 1
    assert dreamd("block", "add", os.fsdecode(b"\xff.md")).status == 2
    dreamd("block", "add", "CLAUDE.md")
    file.write_text(file.read_text(encoding="utf-8").replace(END, ""), encoding="utf-8")
    assert "not one of each in this order; take out those that are too many" in dreamd("status").out
    ended = dreamd("block", "remove", "CLAUDE.md")
    assert (ended.status, "keeps its block" in ended.err) == (1, True)
    assert dreamd("status", "--json").json["blocks"] == []


def test_what_is_forgotten_is_gone_from_it_and_named_outside_of_it(dreamd: Caller, here: Path) -> None:
    file = here / "CLAUDE.md"
    dreamd("block", "add", "CLAUDE.md")
    dreamd("note", f"{TEA}. And {SECRET}.")
    dreamd("note", f"Somebody said: {SECRET}")
    dreamd("dream")
    assert "7731" in file.read_text(encoding="utf-8")
    ended = dreamd("forget", SECRET, "--yes")
    assert "nothing of it is left" in ended.out
    assert "7731" not in file.read_text(encoding="utf-8")
    file.write_text(f"{SECRET}\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    assert "CLAUDE.md" in dreamd("forget", SECRET, "--yes").out
