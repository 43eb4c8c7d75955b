"""The table of agents, and which of them are installed here."""

import os
import shutil
from collections.abc import Mapping

from daemon.config.paths import home
from daemon.connect.agent import Agent
from daemon.connect.agents.claude_code import CLAUDE_CODE
from daemon.connect.agents.codex import CODEX
from daemon.connect.agents.cursor import CURSOR
from daemon.connect.agents.gemini import GEMINI
from daemon.connect.agents.opencode import OPENCODE
from daemon.connect.agents.vscode import VSCODE
from daemon.connect.agents.zed import ZED
from state.errors import UsageError

AGENTS = (CLAUDE_CODE, CODEX, CURSOR, GEMINI, OPENCODE, VSCODE, ZED)


def agent_of(name: str) -> Agent:
    """Return the agent of this name. Raise UsageError if dreamd knows none."""
    found = next((one for one in AGENTS if one.name == name), None)
    if found is None:
        known = ", ".join(one.name for one in AGENTS)
        raise UsageError(f"dreamd knows no agent {name!r}", f"it connects {known}; any other one: docs/agents.md")
    return found


def installed(environment: Mapping[str, str]) -> tuple[Agent, ...]:
    """Return the agents that this user has: a program on the PATH, or a folder in the home."""
    path, own = environment.get("PATH", os.defpath), home(environment)
    return tuple(
        one
        for one in AGENTS
        if any(shutil.which(program, path=path) for program in one.programs)
        or any((own / folder).is_dir() for folder in one.folders)
    )
