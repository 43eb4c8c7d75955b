"""A Git repository with a memory in it, changed by the real git and by `dreamd`."""

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from daemon.workspace.adoption import open_workspace
from daemon.workspace.stores import follow_clock, utc_now
from state.stores.disk.workspace import Workspace
from tests.support import lived
from tests.support.running import Ended

_PERSON = {f"GIT_{role}_{what}": "ada@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
_QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_EDITOR": "true"}
_NEAR = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always"}
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **_PERSON, **_QUIET, **_NEAR}


def git(folder: Path, *words: str | Path, fails: bool = False) -> str:
    """Run git in a folder; `fails`: expect it to fail, by a conflict."""
    ended = subprocess.run(["git", *words], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (ended.returncode != 0) is fails, f"git {words}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@dataclass
class Repository:
    """A project under Git, and the notes written in it. Every command must succeed."""

    root: Path
    dreamd: Callable[..., Ended]
    noted: list[str] = field(default_factory=list)

    @classmethod
    def begun(cls, root: Path, dreamd: Callable[..., Ended]) -> "Repository":
        """Create a repository with a memory in its tree, which has one note and is tracked by git."""
        root.mkdir()
        git(root, "init", "-q", "-b", "main")
        (root / "README").write_text("A project\n", encoding="utf-8")
        one = cls(root, dreamd)
        one.commit("begin")
        one.do("init", root, "--no-daemon", "--here")
        (root / ".gitignore").write_text("memory/\n.dreamd\ntranscripts/\n", encoding="utf-8")
        one.note("The harbour wall is of granite")
        one.dream()
        one.commit("a memory")
        return one

    @property
    def document(self) -> Path:
        return self.root / "MEMORY.md"

    @property
    def workspace(self) -> Workspace:
        return open_workspace(self.root)

    def git(self, *words: str | Path, fails: bool = False) -> str:
        return git(self.root, *words, fails=fails)

    def commit(self, message: str) -> None:
        """Commit all changes, even if there are none."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def do(self, *words: str | Path) -> Ended:
        """Run a dreamd command, which must succeed."""
        ended = self.dreamd(*words)
        assert ended.status == 0, f"{words}: {ended.out}{ended.err}"
        return ended

    def note(self, text: str) -> None:
        self.do("note", "-w", self.root, text)
        self.noted.append(text)

    def dream(self) -> Ended:
        """Dream two seconds later by the clock, because the times in MEMORY.md have to differ."""
        follow_clock(utc_now() + timedelta(seconds=2), time.monotonic())
        return self.do("dream", "-w", self.root)

    def dream_of(self, text: str) -> None:
        self.note(text)
        self.dream()

    def write(self, line: str) -> None:
        """Add a line to MEMORY.md, as with an editor."""
        text = self.document.read_text(encoding="utf-8")
        self.document.write_text(text.replace("## Active Context\n\n", f"## Active Context\n\n- {line}\n"), "utf-8")

    def delete(self, line: str) -> None:
        """Delete a line of MEMORY.md, as with an editor."""
        rows = self.document.read_text(encoding="utf-8").splitlines(keepends=True)
        self.document.write_text("".join(row for row in rows if line not in row), encoding="utf-8")

    def lines(self) -> list[str]:
        return lived.lines(self.workspace)

    def told(self) -> str:
        """Return what an agent reads at session start."""
        return self.do("bootstrap", "-w", self.root).out

    def deleted(self) -> set[str]:
        """Return the lines that count as deleted by the owner."""
        return {row["text"] for row in lived.rows(self.workspace, "SELECT text FROM tombstones")}

    def said(self) -> set[str]:
        """Return all current and former lines that count as written by the owner."""
        return {row["text"] for row in lived.rows(self.workspace, "SELECT text FROM lines WHERE trust = 'owner'")}

    def require_whole(self, *lines: str) -> None:
        """Assert that MEMORY.md has all notes and these lines, and the owner deleted and wrote nothing else."""
        assert set(self.lines()) == {*self.noted, *lines}
        assert self.deleted() == set()
        assert self.said() == set(lines)
        told = self.told()
        assert [one for one in (*self.noted, *lines) if one not in told] == []
