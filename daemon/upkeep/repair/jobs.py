"""Repair jobs: each says what is wrong and what it does about it, and shares the context of one repair."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from daemon.config.settings import Config
from daemon.upkeep.repair.quarantine import Quarantine
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.workspace.vector_index import Embedding


@dataclass(frozen=True, slots=True)
class Job:
    """A fault, and what is done about it. `do` returns the results to show, if any, line by line."""

    about: str
    wrong: str
    action: str
    do: Callable[[], tuple[str, ...] | None]


@dataclass(slots=True)
class RepairContext:
    """The context of the jobs of one repair. `check` raises when this process no longer owns the workspace.

    `last` is the last version. state.db was `rebuilt`, ChromaDB's folder was `emptied`.
    """

    workspace: Workspace
    config: Config
    disk: Disk
    check: Callable[[], None]
    embedding: "Embedding"
    now: datetime
    aside: Quarantine
    last: int = 0
    rebuilt: bool = False
    emptied: bool = False
