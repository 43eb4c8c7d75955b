"""opencode: `opencode.json` of a project or of the user. It has no hooks: MEMORY.md is one of its instructions."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from daemon.connect.agent import SERVER, Agent, AgentFile, CheckResult, Place, Read, Scope, State
from daemon.connect.asking import run
from daemon.connect.edit import Setting, at

NAME = "opencode"


def files(place: Place, _: Read) -> Sequence[AgentFile]:
    """Return the one file, under the name that it has there."""
    user = place.folder("XDG_CONFIG_HOME", ".config") / "opencode"
    folder = user if place.scope is Scope.USER else place.project
    path = next((one for one in (folder / "opencode.jsonc",) if one.is_file()), folder / "opencode.json")
    server: dict[str, object] = {"type": "local", "command": place.command(), "enabled": True}
    server |= {"environment": place.needed} if place.needed else {}
    settings = [Setting(("mcp", SERVER), server)]
    if place.workspace is not None:
        settings.append(Setting(("instructions",), str(place.workspace / "MEMORY.md"), item=True))
    return (AgentFile(path, "its MCP server, and MEMORY.md as instructions", tuple(settings)),)


def _tries(settings: Sequence[Setting], project: Path, environment: Mapping[str, str]) -> Iterable[CheckResult]:
    """Yield whether MEMORY.md is one of the instructions that opencode itself reads, of all its files together."""
    command = "opencode debug config"
    try:
        read = at(json.loads(run(command.split(), project, environment).stdout), ("instructions",), [])
    except (OSError, ValueError, subprocess.TimeoutExpired):
        yield CheckResult(State.WAITS, f"'{command}' does not say what it reads", f"run: {command}")
        return
    for one in (one for one in settings if one.path == ("instructions",)):
        is_read = isinstance(read, list) and one.value in read
        what = f"opencode {'reads' if is_read else 'does not read'} {one.value}"
        yield CheckResult(State.OK if is_read else State.WRONG, what, "" if is_read else f"run: {command}")


OPENCODE = Agent(
    NAME,
    "opencode",
    ("opencode",),
    (".config/opencode",),
    files,
    lists=("opencode", "mcp", "list"),
    knows=rf"^\W*{SERVER} +connected *$",
    unknown="see 'opencode mcp list'",
    tries=_tries,
    advice=("it runs no hooks: past sessions are read by 'dreamd ingest PATH'",),
)
