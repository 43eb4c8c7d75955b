"""Place: the user whose agents are connected, the dreamd that they run, and how agents' own programs are asked."""

import json
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from daemon.config.paths import data_folder, home, socket_path, state_folder
from state.stores.disk.user_folder import program_folders

SERVER = "dreamd"
PLUGIN = f"{SERVER}@{SERVER}"  # its name, and its marketplace's
SECONDS = 30.0
# Some agents start every server that they know before they answer.
_MOST_SECONDS = 120.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Place:
    """Whose agents are connected: the command that runs dreamd, and the user's environment.

    With `trust` Codex is told that its user trusts the hooks.
    """

    program: tuple[str, ...]
    environment: Mapping[str, str]
    trust: bool = False

    @property
    def home(self) -> Path:
        """The user's home folder."""
        return home(self.environment)

    @property
    def quiet(self) -> dict[str, str]:
        """The environment of agents' programs."""
        return {**self.environment, "PATH": program_folders(self.environment)}

    def which(self, program: str) -> str | None:
        return shutil.which(program, path=self.quiet["PATH"])

    def folder(self, variable: str, usual: str) -> Path:
        """Return a folder of an agent's own: what the variable names, else the usual one in the home folder."""
        named = self.environment.get(variable, "")
        return Path(named) if named.startswith("/") else self.home / usual

    def kept(self, agent: str) -> Path:
        """Return the folder of the agent's plugin or extension, in the user's data folder."""
        return data_folder(self.environment) / "agents" / agent

    def server(self) -> dict[str, Any]:
        """Return the entry of the MCP server, with the variables without which it would find another daemon."""
        plain, needed = {"HOME": str(self.home)}, dict[str, str]()
        if self.environment.get("DREAMD_SOCKET") or socket_path(self.environment) != socket_path(plain):
            needed["DREAMD_SOCKET"] = str(socket_path(self.environment))
        for name, folder in (("XDG_DATA_HOME", data_folder), ("XDG_STATE_HOME", state_folder)):
            if folder(self.environment) != folder(plain):
                needed[name] = str(folder(self.environment).parent)
        return {"command": self.program[0], "args": [*self.program[1:], "mcp"], "env": needed}

    def bootstrap(self, agent: str) -> str:
        """Return the shell command of the hook at the start of a session."""
        return self._hook("bootstrap", "--format", "hook", "--agent", agent)

    def ingest(self, agent: str) -> str:
        """Return the shell command of the hooks that have a transcript read."""
        return self._hook("ingest", "--hook", "--agent", agent)

    def _hook(self, *words: str) -> str:
        """Return a shell command that runs dreamd if it is there, and that never fails.

        An agent may take a hook that fails, or writes to stderr, for a reason to stop what its user wants done.
        """
        program, command = shlex.quote(self.program[0]), shlex.join([*self.program, *words])
        return f"command -v {program} >/dev/null 2>&1 && {command} || true"

    def rendered(self, agent: str) -> dict[str, str]:
        """Return the files of the agent's plugin or extension, by their names, as this user has them."""
        server, root = self.server(), Path(str(files("daemon.connect") / "templates" / agent))
        words = {
            "folder": str(data_folder(self.environment) / "transcripts" / agent),
            "program": self.program,
            **server,
        }
        words |= {"program": self.program, "bootstrap": self.bootstrap(agent), "ingest": self.ingest(agent)}
        values = {name: json.dumps(value) for name, value in words.items()}
        paths = sorted(path for path in root.rglob("*") if path.is_file())
        return {str(one.relative_to(root)): Template(one.read_text("utf-8")).substitute(values) for one in paths}

    def run(self, command: Sequence[str], folder: Path) -> "subprocess.CompletedProcess[str]":
        """Run an agent's program and return what it said, without colours. Raise OSError, TimeoutExpired."""
        ran = subprocess.run(  # noqa: S603 - the agent itself
            [self.which(command[0]) or command[0], *command[1:]], capture_output=True, text=True, errors="replace",
            timeout=_MOST_SECONDS, check=False, cwd=folder, env=self.quiet, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        ran.stdout, ran.stderr = _COLOURS.sub("", ran.stdout), _COLOURS.sub("", ran.stderr)
        return ran


def talk(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], *messages: Mapping[str, object]
) -> list[dict[str, Any]]:
    """Send JSON-RPC messages to a program, each after the answer to the one before; return the answers.

    Raise OSError when it does not start, ValueError or KeyError when it does not answer, or not in time.
    """
    with subprocess.Popen(  # noqa: S603 - what an agent runs, or the agent itself
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
        env=dict(environment),
    ) as process:  # fmt: skip
        late = threading.Timer(SECONDS, process.kill)
        late.start()
        try:
            return [_answer(process, one) for one in messages]
        finally:
            late.cancel()
            process.kill()


def _answer(process: subprocess.Popen[bytes], message: Mapping[str, object]) -> dict[str, Any]:
    """Return the answer to a message; {} if it has no id, and so gets none."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()
    if "id" not in message:
        return {}
    for reply in map(json.loads, process.stdout):
        if reply.get("id") == message["id"]:
            return dict(reply["result"])
    raise ValueError("it ended, or was too slow")
