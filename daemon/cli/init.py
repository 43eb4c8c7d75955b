"""Create a workspace, take in an existing MEMORY.md, and show how to connect an agent. Doing it again is harmless."""

import argparse
import json
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from daemon.cli.parsing import config_of, named_folder, takes_folder, takes_json
from daemon.cli.terminal import counted, out, show_json, tell_notices
from daemon.status import present_holder
from state.stores.workspace import Workspace, init_workspace


def add(parser: argparse.ArgumentParser) -> None:
    """Where."""
    parser.add_argument("--no-daemon", action="store_true", help="the daemon shall not look after it")
    takes_folder(parser)
    takes_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the folder (the working directory, unless one is named) a workspace."""
    config = config_of(arguments)
    folder = named_folder(arguments) or Path.cwd()
    known = Workspace(folder).state.is_dir()
    workspace = init_workspace(folder)
    from daemon.compose import clock, owned
    from daemon.first_contact import migrate

    seeded = None
    if present_holder(workspace) is None:  # else its owner does this before the first dream
        with owned(workspace, config, "dreamd init") as store:
            seeded = migrate(store, clock())
        tell_notices(store.notices)
    kept = False if arguments.no_daemon else keep(workspace)
    if arguments.json:
        backup = str(workspace.backup) if workspace.backup.exists() else None
        show_json(
            {
                "workspace": str(workspace.root),
                "created": not known,
                "seed_crystals": seeded or 0,
                "backup": backup,
                "daemon": kept,
            }
        )
        return 0
    out(f"{workspace.root} {'is a workspace' if known else 'is a workspace now'}")
    if seeded is not None:
        made, backup = counted(seeded, "crystal"), workspace.backup.name
        out(f"MEMORY.md: {made} made of it; the file is as it was, and {backup} is a copy of it")
    if kept:
        out("the daemon dreams in it from now on")
    elif not arguments.no_daemon:
        out("'dreamd install-service' makes a daemon that dreams in it by itself; until then: dreamd dream")
    out("")
    out(how_to_connect(workspace))
    return 0


def keep(workspace: Workspace) -> bool:
    """Make it known to the daemon that runs, or to the next one; whether one runs."""
    from daemon.client import UnreachableError, daemon
    from daemon.places import registry_path
    from daemon.registry import add

    client = daemon()
    if client is not None:
        with suppress(UnreachableError):
            client.post("/v1/workspaces", {"path": str(workspace.root)})
            return True
    add(registry_path(os.environ), workspace.root)
    return False


def how_to_connect(workspace: Workspace) -> str:
    """What to put where, so that an agent uses the workspace."""
    from daemon.unit import installation

    dreamd, root = installation().command, str(workspace.root)
    server = {"type": "stdio", "command": dreamd[0], "args": [*dreamd[1:], "mcp", "-w", root], "env": _environment()}
    # A hook's output goes into the context up to 10,000 characters; this window's budget stays below.
    bootstrap = _hook([*dreamd, "bootstrap", root, "--format", "hook", "--context-window", "128000"])
    ingest = [*dreamd, "ingest", "-w", root, "--hook"]
    hooks = {
        "SessionStart": [bootstrap],
        "PreCompact": [_hook(ingest)],
        # Without its own time it would get 1.5 seconds.
        "SessionEnd": [_hook(ingest, timeout=60)],
    }
    return f"""Connect an agent:

Claude Code, in .mcp.json of its project:
{json.dumps({"mcpServers": {"dreamd": server}}, indent=2, ensure_ascii=False)}

and in its .claude/settings.json:
{json.dumps({"hooks": hooks}, indent=2, ensure_ascii=False)}

Any other agent with MCP: the same server, over stdio:
  {shlex.join([*dreamd, "mcp", "-w", root])}

Without MCP: put what the first command prints into the system prompt, and tell the agent of the second:
  {shlex.join([*dreamd, "bootstrap", root])}
  {shlex.join([*dreamd, "note", "-w", root, "what is worth remembering"])}

docs/agents.md of dreamd has Codex, LangGraph and OpenAI-style loops."""


def _environment() -> dict[str, str]:
    """What the agent's MCP server must be told, since some agents pass on next to nothing: where the daemon is."""
    from daemon.places import home, socket_path

    path = socket_path(os.environ)
    by_home = socket_path({"HOME": str(home(os.environ))})
    return {} if path == by_home else {"DREAMD_SOCKET": str(path)}


def _hook(command: Sequence[str], **more: int) -> dict[str, object]:
    return {"hooks": [{"type": "command", "command": shlex.join(command), **more}]}
