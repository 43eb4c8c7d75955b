"""Agent: one kind of program that can be connected, and what its files hold then.

An agent is data: how it is recognised, and a pure function from a `Place` to the settings of its files. Nothing here
reads or writes a file.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from daemon.config.paths import global_root, home, socket_path, state_folder
from daemon.connect.editors.editor import Format

SERVER = "dreamd"
# Without a time of its own an agent ends a hook early; a long session is read in less.
INGEST_SECONDS = 60
# Of a shell one command and its words: what is quoted may be anything, what is not may begin no other one.
_ONE_COMMAND = re.compile(r"""(?:'[^']*'|"[^"$`\\]*"|\\[^\n]|[^;&|<>()`$\n'"\\])*""")


class Scope(StrEnum):
    """Where an agent is connected: in one project, or in all of this user's."""

    PROJECT = "project"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Setting:
    """One value in an agent's file. `item`: it is one of the list at this path, not all that stands there."""

    path: tuple[str, ...]
    value: object
    item: bool = False


def hook(event: str, command: str, **more: object) -> Setting:
    """A command that an agent runs at an event, in the form that most agents took over from Claude Code."""
    return Setting(("hooks", event), {"hooks": [{"type": "command", "command": command, **more}]}, item=True)


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A file of an agent's, and the settings in it that connect it. `purpose`: in a person's words."""

    path: Path
    format: Format
    purpose: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """What is connected to what: the commands that go into files.

    `workspace` is None for all projects: then it is the nearest one from the working directory up, else the global
    one. Without `auto_memory` the memory that the agent keeps beside is turned off; with `trust` the agent is told
    that its owner trusts the project and these hooks.
    """

    scope: Scope
    project: Path
    workspace: Path | None
    program: tuple[str, ...]
    environment: Mapping[str, str]
    auto_memory: bool = True
    trust: bool = False

    @property
    def home(self) -> Path:
        """The user's home folder."""
        return home(self.environment)

    @property
    def needed(self) -> dict[str, str]:
        """Where the daemon is, the folder in which it stands whose a workspace is, and that of the global one."""
        plain, found = {"HOME": str(self.home)}, dict[str, str]()
        if self.environment.get("DREAMD_SOCKET") or socket_path(self.environment) != socket_path(plain):
            found["DREAMD_SOCKET"] = str(socket_path(self.environment))
        for name, folder in (("XDG_STATE_HOME", state_folder), ("XDG_DATA_HOME", lambda it: global_root(it).parent)):
            if folder(self.environment) != folder(plain):
                found[name] = str(folder(self.environment).parent)
        return found

    def folder(self, variable: str, usual: str) -> Path:
        """A folder of an agent's own: what the variable names, else the usual one in the home folder."""
        named = self.environment.get(variable, "")
        return Path(named) if named.startswith("/") else self.home / usual

    def server(self) -> list[str]:
        """The command of the MCP server."""
        return [*self.program, "mcp", *self._workspace()]

    def bootstrap(self, agent: str) -> str:
        """The command of the hook at the start of a session, for a shell."""
        return _if_there([*self.program, "bootstrap", *self._workspace(), "--format", "hook", "--agent", agent])

    def ingest(self) -> str:
        """The command of the hooks that have a transcript read, for a shell."""
        return _if_there([*self.program, "ingest", *self._workspace(), "--hook"])

    def _workspace(self) -> list[str]:
        return ["--or-global"] if self.workspace is None else ["-w", str(self.workspace)]


# What a file holds now, parsed; nothing where there is none.
Read = Callable[[Path], object]


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

    It is installed where one of `programs` is on the PATH or one of `folders` is in the home folder. `lists` asks the
    agent itself which servers it knows, `knows` is a pattern of its answer, `waits` of one that waits for its owner,
    and `unknown` what to do where it does not know the server.
    `tries` sees what else an agent can be asked, in a project and an environment.
    `advice` is what its owner has to know, or do once by hand.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    folders: tuple[str, ...]
    files: Callable[[Place, Read], Sequence[AgentFile]]
    lists: tuple[str, ...] = ()
    knows: str = SERVER
    waits: str = "(?!)"
    unknown: str = ""
    tries: Callable[[Path, Mapping[str, str]], Iterable[CheckResult]] | None = None
    advice: tuple[str, ...] = ()


def calls_dreamd(hook: object) -> bool:
    """Whether a hook in an agent's file runs `dreamd bootstrap` or `dreamd ingest`, and nothing else."""
    commands = list(_commands(hook))
    return bool(commands) and all(_is_own(command) for command in commands)


def _commands(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "command" and isinstance(inner, str):
                yield inner
            else:
                yield from _commands(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _commands(inner)


def needs_dreamd(setting: Setting) -> str:
    """Return what breaks in the agent once dreamd is gone, as older versions wrote it; "" for what is written now."""
    if setting.path[-1] == SERVER and isinstance(setting.value, Mapping) and setting.value.get("required"):
        return "without dreamd the agent does not start, for its server is required"
    if any(_guarded_words(command) is None and _is_own(command) for command in _commands(setting.value)):
        return f"without dreamd the hook {setting.path[-1]} fails"
    return ""


def _if_there(words: Sequence[str]) -> str:
    """Return a shell command that runs the words if their program is there, and that never fails.

    An agent may take a hook that fails, or writes to stderr, for a reason to stop what its user wants done.
    """
    return f"command -v {shlex.quote(words[0])} >/dev/null 2>&1 && {shlex.join(words)} || true"


def _guarded_words(command: str) -> list[str] | None:
    """Return the words that a command of `_if_there` runs, None for any other command."""
    try:
        words = shlex.split(command)[6:-2] if command.startswith("command -v ") else []
    except ValueError:  # a quotation without its end
        return None
    return words if words and _if_there(words) == command else None


def _is_own(command: str) -> bool:
    words = _guarded_words(command)
    if words is None:
        try:
            words = shlex.split(command) if _ONE_COMMAND.fullmatch(command) else []
        except ValueError:
            return False
    words = [words[0], *words[2:]] if words[1:2] == ["-P"] else words
    program, called = (words[:1], words[1:2]) if words[1:3] != ["-m", "daemon"] else (["dreamd"], words[3:4])
    return [Path(word).name for word in program] == ["dreamd"] and called in (["bootstrap"], ["ingest"])
