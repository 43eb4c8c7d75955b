"""Repair jobs: each says what is wrong and what it does about it, and shares the context of one repair."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.config.settings import Config
from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace

if TYPE_CHECKING:
    from daemon.workspace.vector_index import Embedding

FOLDER = "broken"


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

    `last` is the last version; state.db was `rebuilt`; the index was `emptied`. What is taken out of the workspace is
    `kept` in `aside`, the folder broken/TIME/ of the state, which is made when something first comes into it.
    """

    workspace: Workspace
    config: Config
    disk: Disk
    check: Callable[[], None]
    embedding: "Embedding"
    now: datetime
    last: int = 0
    rebuilt: bool = False
    emptied: bool = False
    aside: str = ""
    kept: list[str] = field(default_factory=list)

    def put_aside(self, path: Path) -> None:
        """Move the file or folder into quarantine; a crash leaves it in one of the two places."""
        target = self._place(path)
        self.disk.rename(path, target)
        if not target.is_symlink():
            target.chmod(0o700 if target.is_dir() else 0o600)

    def keep_copy(self, path: Path) -> None:
        """Write a copy of the file into quarantine, or move what is no file there."""
        if path.is_file():
            self.disk.write_new(self._place(path), path.read_bytes())
        else:
            self.put_aside(path)

    def _place(self, path: Path) -> Path:
        """Return a free path for this file in quarantine, and make the folders above it."""
        state = self.workspace.state
        if not self.aside:
            if os.path.lexists(home := state / FOLDER) and not home.is_dir():
                self.disk.rename(home, _free(home))
            self.disk.make_folder(home)
            self.aside = str(_free(home / f"{self.now:%Y%m%dT%H%M%SZ}"))
            self.disk.make_folder(Path(self.aside))
        folder = Path(self.aside)
        *above, name = path.relative_to(state if path.is_relative_to(state) else self.workspace.root).parts
        for part in above:
            folder /= part
            self.disk.make_folder(folder)
        place = _free(folder / name)
        self.kept.append(str(place))
        return place


def _free(path: Path) -> Path:
    while os.path.lexists(path):
        path = path.with_name(f"{path.name}+")
    return path
