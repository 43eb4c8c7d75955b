"""Quarantine: the folder broken/TIME/ of the state in which a repair keeps what it takes out of a workspace."""

import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from state.stores.disk.disk import Disk
from state.stores.disk.workspace import Workspace

FOLDER = "broken"


@dataclass(slots=True)
class Quarantine:
    """The folder of one repair, made when something first comes into it. `kept` are their paths."""

    workspace: Workspace
    disk: Disk
    now: datetime
    kept: list[str] = field(default_factory=list)
    folder: str = ""

    def move(self, path: Path) -> None:
        """Move the file or folder into quarantine; a crash leaves it in one of the two places."""
        target = self._place(path)
        self.disk.rename(path, target)
        if not target.is_symlink():
            target.chmod(0o700 if target.is_dir() else 0o600)

    def keep(self, path: Path) -> None:
        """Write a copy of the file in quarantine, or move what is no file there."""
        if path.is_file():
            self.disk.write_new(self._place(path), path.read_bytes())
        else:
            self.move(path)

    def _place(self, path: Path) -> Path:
        """Return a free path for this file in quarantine, and make the folders above it."""
        state = self.workspace.state
        if not self.folder:
            if os.path.lexists(home := state / FOLDER) and not home.is_dir():
                self.disk.rename(home, _free(home))
            self.disk.make_folder(home)
            folder = _free(home / f"{self.now:%Y%m%dT%H%M%SZ}")
            self.disk.make_folder(folder)
            self.folder = str(folder)
        parts = path.relative_to(state if path.is_relative_to(state) else self.workspace.root).parts
        folder = Path(self.folder)
        for part in parts[:-1]:
            folder /= part
            self.disk.make_folder(folder)
        place = _free(folder / parts[-1])
        self.kept.append(str(place))
        return place


def _free(path: Path) -> Path:
    while os.path.lexists(path):
        path = path.with_name(f"{path.name}+")
    return path
