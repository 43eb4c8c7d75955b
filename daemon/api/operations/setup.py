"""Operations on how a workspace is set up: its configuration, how agents are connected, blocks in their files."""

import os
from dataclasses import dataclass

from pydantic import Field

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Nothing, Request, operation
from daemon.api.recipes import Recipe, recipes
from daemon.config.entries import ConfigEntry, entries
from daemon.config.paths import program
from daemon.config.settings import Config
from daemon.workspace.block_wishes import BlockStatus, block_statuses
from daemon.workspace.blocks import unwish, wish
from state.document.agent_caps import CAPS, agent_of
from state.errors import NotFoundError

LONGEST_KEY = 100
LONGEST_PATH = 4_096
_FILE = "The file, absolute or from the workspace's folder on, such as CLAUDE.md"


class ConfigurationRequest(Request):
    """Which keys."""

    key: str = Field(
        default="", max_length=LONGEST_KEY, description="A key such as dream.mode, or a section; empty: all"
    )


@dataclass(frozen=True, slots=True)
class Configuration:
    """The keys with their values. `file`: the user's file that was read; empty without one."""

    file: str
    entries: tuple[ConfigEntry, ...]


@operation("configuration", "/configuration", method="GET")
def configuration(access: WorkspaceAccess, request: ConfigurationRequest) -> Configuration:
    """The configuration as it is in force, where each value comes from, and what it means."""
    return in_force(access.config, request.key)


def in_force(config: Config, key: str) -> Configuration:
    """The keys that are meant, of this configuration. Raises NotFoundError when there is none."""
    every = entries(config)
    meant = tuple(one for one in every if not key or f"{one.key}.".startswith(f"{key}."))
    if not meant:
        sections = ", ".join(dict.fromkeys(one.key.partition(".")[0] for one in every))
        raise NotFoundError(f"the configuration has no key {key!r}", f"it has the sections {sections}")
    return Configuration(str(config.file or ""), meant)


@dataclass(frozen=True, slots=True)
class Recipes:
    """What to put where, so that an agent uses the workspace."""

    recipes: tuple[Recipe, ...]


@operation("recipes", "/recipes", method="GET")
def connection_recipes(access: WorkspaceAccess, _: Nothing) -> Recipes:
    """How each kind of agent is connected to this workspace, with the paths filled in."""
    return Recipes(recipes(access.workspace.root, program(), os.environ))


class AddBlock(Request):
    """Into which file, for which agent."""

    file: str = Field(min_length=1, max_length=LONGEST_PATH, pattern="^[^\0]*$", description=_FILE)
    agent: str = Field(
        default="", max_length=40, description=f"Whose cap counts: {', '.join(CAPS)}; empty: by the file's name"
    )


class RemoveBlock(Request):
    """Out of which file."""

    file: str = Field(min_length=1, max_length=LONGEST_PATH, pattern="^[^\0]*$", description=_FILE)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The files with a block, as they are now. `problem`: why a block was left where it is; else empty."""

    blocks: tuple[BlockStatus, ...]
    problem: str = ""


@operation("block_add", "/blocks", remote=False)
def block_add(access: WorkspaceAccess, request: AddBlock) -> Blocks:
    """Write the lines of MEMORY.md as a block into an agent's file, now and after each version."""
    with access.exclusive() as store:
        wish(store, access.workspace.root / request.file, request.agent or agent_of(request.file))
    return Blocks(block_statuses(access.workspace))


@operation("block_remove", "/blocks/remove", remote=False)
def block_remove(access: WorkspaceAccess, request: RemoveBlock) -> Blocks:
    """Take the block out of an agent's file, which is then as it was without it."""
    with access.exclusive() as store:
        problem = unwish(store, access.workspace.root / request.file)
    return Blocks(block_statuses(access.workspace), problem)
