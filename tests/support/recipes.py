"""The recipes of docs/agents.md as somebody follows them: the files with one's own paths, and a home to do it in."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from state.stores.disk.workspace import Workspace
from tests.support import forked
from tests.support.ports import free_port
from tests.support.running import ROOT, Ended
from tests.support.scripted_model import Reply
from tests.support.serving import Daemon, Home

FILES = ROOT / "docs" / "agents"
# What stands for the reader's own in the documents.
_PROGRAM, _WORKSPACE = "/path/to/dreamd", "/path/to/workspace"
_SOCKETS = ("/run/user/1000/dreamd/dreamd.sock", "~/.local/state/dreamd/dreamd.sock")
_TOKEN = "~/.local/state/dreamd/token"
_PORT, _NAME = "127.0.0.1:7349", "workspace-0a1b2c3d4e5f"


@dataclass(frozen=True, slots=True)
class Follower:
    """Somebody with a workspace who follows the documents. `dreamd` is on the PATH."""

    home: Home
    workspace: Workspace
    port: int

    @property
    def program(self) -> Path:
        return self.home.folder / "bin" / "dreamd"

    @property
    def token(self) -> str:
        return self.home.token.read_text(encoding="ascii").strip()

    def environment(self, **more: str) -> dict[str, str]:
        path = f"{self.program.parent}:{Path(sys.executable).parent}:/usr/bin:/bin"
        return self.home.environment(PATH=path, **more)

    def own(self, text: str) -> str:
        """The text of a document with this person's own places in it."""
        for theirs, mine in (
            (_PROGRAM, self.program),
            (_WORKSPACE, self.workspace.root),
            *((path, self.home.socket) for path in _SOCKETS),
            (_TOKEN, self.home.token),
            (_PORT, f"127.0.0.1:{self.port}"),
            (_NAME, self.workspace.name),
        ):
            text = text.replace(theirs, str(mine))
        return text

    def file(self, name: str) -> str:
        """One of the files that the recipes use, with this person's own places in it."""
        return self.own((FILES / name).read_text(encoding="utf-8"))

    def shell(self, script: str, said: Any = None, **variables: str) -> Ended:
        """The script in a shell, as an agent runs a hook's command; `said` is the JSON on its stdin."""
        given = json.dumps(said) if said is not None else ""
        return self._run(["bash", "-c", script], self.workspace.root, given, **variables)

    def example(self, name: str, *words: str, python: str = sys.executable, **variables: str) -> Ended:
        """One of the example programs, run by this interpreter."""
        return self._run([python, str(FILES / name), *words], self.home.folder, "", **variables)

    def _run(self, words: list[str], folder: Path, given: str, **variables: str) -> Ended:
        environment = self.environment(**variables)
        run = subprocess.run(
            words, input=given, capture_output=True, cwd=folder, env=environment, check=False, timeout=300, text=True
        )
        return Ended(run.returncode, run.stdout, run.stderr)

    @contextmanager
    def served(self) -> Iterator[Daemon]:
        """With a daemon that keeps the workspace."""
        self.home.configure(http={"port": self.port})
        with self.home.serving() as daemon:
            yield daemon


def follower(home: Home, *, cold: bool = False) -> Follower:
    """Somebody at home, with a workspace that the daemon will know. `cold`: `dreamd` imports all that it needs."""
    (home.folder / "bin").mkdir()
    program = home.folder / "bin" / "dreamd"
    words, variable = ([sys.executable, "-m", "daemon"], {"PYTHONPATH": str(ROOT)}) if cold else forked.stand_in()
    given = " ".join(f"{name}={value}" for name, value in variable.items())
    program.write_text(f'#!/bin/sh\n{given} exec {" ".join(words)} "$@"\n')
    program.chmod(0o755)
    return Follower(home, home.workspace(), free_port())


def commands(settings: Any, event: str) -> list[str]:
    """The commands of this event, in Claude Code's settings or Codex' configuration."""
    return [
        hook["command"] for group in settings["hooks"][event] for hook in group["hooks"] if hook["type"] == "command"
    ]


def blocks(document: Path, language: str) -> list[str]:
    """The code blocks of a Markdown document in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def transcript(path: Path, session: str, *texts: str) -> Path:
    """A session of Claude Code's, as its file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            record = {
                "type": "user",
                "sessionId": session,
                "uuid": f"{session}-{number}",
                "timestamp": "2026-03-12T14:30:00.000Z",
                "message": {"role": "user", "content": text},
            }
            file.write(json.dumps(record) + os.linesep)
    return path


def function_call(name: str, arguments: dict[str, Any]) -> Reply:
    """What a model says that wants this function called."""
    wanted = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{name}", "type": "function", "function": wanted}
    return Reply(content=None, finish_reason="tool_calls", message={"tool_calls": [call]})
