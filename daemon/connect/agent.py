"""Agent: one kind of program that can be connected, and what its files hold then.

An agent is a row: how it is recognised, and a pure function from a `Place` to the settings of its files. Nothing here
writes a file. To see that it works the agent itself is asked, which may start every server that it knows.
"""

import json
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from daemon.config.paths import global_root, home, socket_path, state_folder
from daemon.connect.edit import Format, Setting

SERVER = "dreamd"
SECONDS = 30.0
# Some agents start every server that they know before they answer.
_MOST_SECONDS = 120.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Scope(StrEnum):
    """Where an agent is connected: in one project, or in all of this user's."""

    PROJECT = "project"
    USER = "user"


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A file of an agent's, and the settings in it that connect it. `purpose`: in a person's words.

    With a `head`, which may be empty, it is all dreamd's own: it shows the memory below that.
    """

    path: Path
    purpose: str
    settings: tuple[Setting, ...] = ()
    head: str | None = None


def format_of(path: Path) -> Format:
    """Return the format of an agent's file, which its name says."""
    return cast("Format", {".toml": "toml", ".md": "md"}.get(path.suffix, "json"))


@dataclass(frozen=True, slots=True)
class Place:
    """What is connected to what: the commands that go into files.

    `workspace` is None for all projects: then it is the nearest one from the working directory up, else the global
    one. Without `auto_memory` the memory that the agent keeps beside is turned off; with `trust` the agent is told
    that its owner trusts the project and these hooks. `in_file`: a file shows the memory, where the agent reads such
    files, in place of its hook at session start.
    """

    scope: Scope
    project: Path
    workspace: Path | None
    program: tuple[str, ...]
    environment: Mapping[str, str]
    auto_memory: bool = True
    trust: bool = False
    in_file: bool = False

    @property
    def home(self) -> Path:
        """The user's home folder."""
        return home(self.environment)

    @property
    def needed(self) -> dict[str, str]:
        """The variables without which a command finds another daemon, state folder or global workspace."""
        plain, found = {"HOME": str(self.home)}, dict[str, str]()
        if self.environment.get("DREAMD_SOCKET") or socket_path(self.environment) != socket_path(plain):
            found["DREAMD_SOCKET"] = str(socket_path(self.environment))
        for name, folder in (("XDG_STATE_HOME", state_folder), ("XDG_DATA_HOME", lambda it: global_root(it).parent)):
            if folder(self.environment) != folder(plain):
                found[name] = str(folder(self.environment).parent)
        return dict(sorted(found.items()))  # as Codex writes them when it changes another server

    def folder(self, variable: str, usual: str) -> Path:
        """Return a folder of an agent's own: what the variable names, else the usual one in the home folder."""
        named = self.environment.get(variable, "")
        return Path(named) if named.startswith("/") else self.home / usual

    def settings_in(self, folder: str, users: Path | None = None) -> Path:
        """Return the folder of this name in the project; for all projects the user's own, usually of that name."""
        return self.project / folder if self.scope is Scope.PROJECT else users or self.home / folder

    def command(self) -> list[str]:
        """Return the command of the MCP server."""
        return [*self.program, "mcp", *self._workspace()]

    def server(self) -> dict[str, object]:
        """Return the entry of the MCP server, in the form that most agents have."""
        command, *arguments = self.command()
        return {"command": command, "args": arguments, "env": self.needed}

    def bootstrap(self, agent: str) -> str:
        """Return the shell command of the hook at the start of a session."""
        return _if_there([*self.program, "bootstrap", *self._workspace(), "--format", "hook", "--agent", agent])

    def ingest(self) -> str:
        """Return the shell command of the hooks that have a transcript read."""
        return _if_there([*self.program, "ingest", *self._workspace(), "--hook"])

    def _workspace(self) -> list[str]:
        return [] if self.workspace is None else ["-w", str(self.workspace)]


def _if_there(words: Sequence[str]) -> str:
    """Return a shell command that runs the words if their program is there, and that never fails.

    An agent may take a hook that fails, or writes to stderr, for a reason to stop what its user wants done.
    """
    return f"command -v {shlex.quote(words[0])} >/dev/null 2>&1 && {shlex.join(words)} || true"


# What a file will hold once these settings are in it, parsed.
Read = Callable[[Path, tuple[Setting, ...]], object]


class State(StrEnum):
    """How it stands with what was tried: it works, it is wrong, or the agent waits for a word of its owner's."""

    OK = "ok"
    WRONG = "WRONG"
    WAITS = "waits for you"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was tried. `advice` says what to do where it is not OK."""

    state: State
    what: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Agent:
    """One kind of agent. `name` is what a person types.

    It is installed where one of `programs` is on the PATH or one of `folders` is in the home folder. The first of
    `programs` says its version: a hook shows the memory from `since` on, a file from `since_file` on. `lists` asks
    the agent itself which servers it knows; `knows` is a pattern of the row that says that ours works, `waits` of one
    that waits for its owner, and `unknown` what to do where it does not work. `tries` sees what else keeps the memory
    from the agent, by what was set, in a project and an environment. `advice` is what its owner has to know, or do
    once by hand.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    folders: tuple[str, ...]
    files: Callable[[Place, Read], Sequence[AgentFile]]
    since: tuple[int, ...] = ()
    since_file: tuple[int, ...] = ()
    lists: tuple[str, ...] = ()
    knows: str = "(?!)"
    waits: str = "(?!)"
    unknown: str = ""
    tries: Callable[[Sequence[Setting], Path, Mapping[str, str]], Iterable[CheckResult]] | None = None
    advice: tuple[str, ...] = ()


def commands_in(setting: Setting) -> list[str]:
    """Return the commands of a hook, in each agent's form."""
    value = setting.value if setting.item and isinstance(setting.value, Mapping) else {}
    return [str(one["command"]) for one in value.get("hooks", [value]) if "command" in one]


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command and return what it said, without colours. Raise OSError, subprocess.TimeoutExpired."""
    ran = subprocess.run(  # noqa: S603 - the agent itself
        command, capture_output=True, text=True, errors="replace", timeout=_MOST_SECONDS, check=False, cwd=folder,
        env=dict(environment), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    ran.stdout, ran.stderr = _COLOURS.sub("", ran.stdout), _COLOURS.sub("", ran.stderr)
    return ran


@contextmanager
def running(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process, killed at the end or when it is too slow. Raise OSError when it does not start."""
    with subprocess.Popen(  # noqa: S603 - what an agent runs, or the agent itself
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
        env=dict(environment),
    ) as process:  # fmt: skip
        late = threading.Timer(SECONDS, process.kill)
        late.start()
        try:
            yield process
        finally:
            late.cancel()
            process.kill()


def ask(process: subprocess.Popen[bytes], *messages: Mapping[str, object]) -> dict[str, Any]:
    """Send the messages and return the result of the last one, which has an id. Raise ValueError without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()
    for line in process.stdout:
        reply = json.loads(line)
        if reply.get("id") == messages[-1]["id"]:
            if "result" not in reply:
                raise ValueError(str(reply.get("error", {}).get("message", reply)))
            result: dict[str, Any] = reply["result"]
            return result
    raise ValueError("it ended, or was too slow")
