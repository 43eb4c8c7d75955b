"""Create a workspace, take in an existing MEMORY.md, and show how to connect an agent. Doing it again is harmless."""

import argparse
import json
import shlex
from pathlib import Path

from daemon.cli.parsing import config_of, named_folder, takes_folder, takes_json
from daemon.cli.terminal import counted, out, show_json, tell_notices
from state.stores.workspace import Workspace, init_workspace


def add(parser: argparse.ArgumentParser) -> None:
    """Where."""
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

    with owned(workspace, config, "dreamd init") as store:
        seeded = migrate(store, clock())
    tell_notices(store.notices)
    if arguments.json:
        backup = str(workspace.backup) if workspace.backup.exists() else None
        show_json(
            {"workspace": str(workspace.root), "created": not known, "seed_crystals": seeded or 0, "backup": backup}
        )
        return 0
    out(f"{workspace.root} {'is a workspace' if known else 'is a workspace now'}")
    if seeded is not None:
        made, backup = counted(seeded, "crystal"), workspace.backup.name
        out(f"MEMORY.md: {made} made of it; the file is as it was, and {backup} is a copy of it")
    out("")
    out(_how_to_connect(workspace))
    return 0


def _how_to_connect(workspace: Workspace) -> str:
    folder = shlex.quote(str(workspace.root))
    hooks = {
        "hooks": {
            "SessionStart": [_hook(f"dreamd bootstrap {folder} --format hook")],
            "SessionEnd": [_hook(f"dreamd dream {folder} --reason session-end")],
        }
    }
    return f"""Connect an agent:

Claude Code, in .claude/settings.json:
{json.dumps(hooks, indent=2)}

Any other agent: put what this prints at the top of its system prompt:
  dreamd bootstrap {folder}

and tell it to keep what matters with
  dreamd note -w {folder} "what is worth remembering"

Then dream when there is something new:
  dreamd dream {folder}"""


def _hook(command: str) -> dict[str, object]:
    return {"hooks": [{"type": "command", "command": command}]}
