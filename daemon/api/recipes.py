"""Recipes: what to put where, so that an agent uses a workspace, with its paths filled in.

For the agents that `dreamd connect` knows they say what it writes; for others, what is left to do by hand.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.connect.agent import Place, Scope
from daemon.connect.agents import AGENTS
from daemon.connect.plan import connected


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one kind of agent is connected: `text` goes into the `file`, or is run where there is none."""

    agent: str
    file: str
    what: str
    text: str


def recipes(root: Path, program: Sequence[str], environment: Mapping[str, str]) -> tuple[Recipe, ...]:
    """Return the recipes for the workspace at this root. `program` runs dreamd; folders are the environment's."""
    place = Place(Scope.PROJECT, root, root, tuple(program), environment)
    known = tuple(
        Recipe(
            agent.title,
            str(file.path.relative_to(root)),
            f"'dreamd connect {agent.name}' writes {file.purpose}",
            connected(file, None, None).after or "",
        )
        for agent in AGENTS
        for file in agent.files(place, lambda *_: {})
        if file.settings
    )
    by_hand = ([*program, "bootstrap", str(root)], [*program, "note", "-w", str(root), "what is worth remembering"])
    return (
        *known,
        Recipe("MCP", "", "Any other agent with MCP: the same server, over stdio", shlex.join(place.command())),
        Recipe(
            "without MCP",
            "",
            "Without MCP: put what the first command prints into the system prompt, and tell the agent of the second",
            "\n".join(map(shlex.join, by_hand)),
        ),
    )
