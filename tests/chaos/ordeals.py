"""Every ordeal, by its name."""

from collections.abc import Callable

from tests.chaos import agents, crowds, disks, kills, mixture, moments, owners, spoilt
from tests.chaos.trial import Trial

# One after the other: the quick and the slow ones in turn.
ORDEALS: dict[str, Callable[[Trial], None]] = {
    "nodes": kills.at_nodes,
    "changes": kills.at_changes,
    "fenced": owners.fenced,
    "mixture": mixture.mixture,
    "commit": kills.in_the_commit,
    "failing": disks.failing,
    "hands": moments.hands,
    "served": owners.served,
    "times": kills.at_random,
    "full": disks.full,
    "models": moments.models,
    "mcp": agents.over_mcp,
    "commands": kills.commands,
    "read-only": disks.read_only,
    "spoilt": spoilt.spoilt,
    "sessions": agents.sessions,
    "clocks": moments.clocks,
    "writers": crowds.writers,
    "two": owners.two,
}
# What comes in turn: each once, and some once more.
TURNS = (*ORDEALS, "changes", "commit", "mixture", "mixture", "served")
