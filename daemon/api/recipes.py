"""Recipes: what to put where, so that an agent uses a workspace, with its paths filled in."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.config.paths import home, socket_path, state_folder


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one kind of agent is connected: `text` goes into the `file`, or is run where there is none."""

    agent: str
    file: str
    what: str
    text: str


def recipes(root: Path, program: Sequence[str], environment: Mapping[str, str]) -> tuple[Recipe, ...]:
    """For the workspace at this root, with the dreamd that `program` runs, as the environment has its folders."""
    folder = str(root)
    serve = [*program, "mcp", "-w", folder]
    server = {"type": "stdio", "command": serve[0], "args": serve[1:], "env": _needed(environment)}
    # A hook's output goes into the context up to 10,000 characters; this window's budget stays below.
    bootstrap = _hook([*program, "bootstrap", folder, "--format", "hook", "--context-window", "128000"])
    ingest = [*program, "ingest", "-w", folder, "--hook"]
    hooks = {
        "SessionStart": [bootstrap],
        "PreCompact": [_hook(ingest)],
        # Without its own time it would get 1.5 seconds.
        "SessionEnd": [_hook(ingest, timeout=60)],
    }
    by_hand = ([*program, "bootstrap", folder], [*program, "note", "-w", folder, "what is worth remembering"])
    claude, settings = "Claude Code", ".claude/settings.json"
    return (
        Recipe(
            claude, ".mcp.json", "Claude Code, in .mcp.json of its project", _json({"mcpServers": {"dreamd": server}})
        ),
        Recipe(claude, settings, f"and in its {settings}", _json({"hooks": hooks})),
        Recipe("MCP", "", "Any other agent with MCP: the same server, over stdio", shlex.join(serve)),
        Recipe(
            "without MCP",
            "",
            "Without MCP: put what the first command prints into the system prompt, and tell the agent of the second",
            "\n".join(map(shlex.join, by_hand)),
        ),
    )


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _needed(environment: Mapping[str, str]) -> dict[str, str]:
    """What the agent's MCP server must be told, since some agents pass on next to nothing.

    Where the daemon is, and where this user's own folder: there it stands that the workspace is this user's.
    """
    path, plain = socket_path(environment), {"HOME": str(home(environment))}
    socket = {} if path == socket_path(plain) else {"DREAMD_SOCKET": str(path)}
    elsewhere = state_folder(environment) != state_folder(plain)
    return socket | ({"XDG_STATE_HOME": str(state_folder(environment).parent)} if elsewhere else {})


def _hook(command: Sequence[str], **more: int) -> dict[str, object]:
    return {"hooks": [{"type": "command", "command": shlex.join(command), **more}]}
